"""The album: the same files everywhere, boxes and captions that are true of their scenes, and what may be counted."""

import hashlib
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from querytruth.errors import UserError
from querytruth.sample_album import album as album_data
from querytruth.sample_album.album import (
    AlbumImage,
    CaptionClaims,
    CaptionRequirement,
    read_album,
    read_annotations,
    read_table,
    read_words,
)
from tests.sample_album.conftest import AnnotatedImage

Annotated = dict[str, AnnotatedImage]

# Kinds that have several colours, or one alone.
WITHOUT_COLOUR = {"Airplane", "Potted Plant", "Traffic Light", "Orange/Tangerine", "Banana", "Soccer"}
HUES = {"red": 0, "orange": 20, "yellow": 34, "green": 85, "blue": 152, "purple": 195, "pink": 241}  # of 256


def test_boxes_lie_inside_the_image(good: list[AlbumImage], annotated: Annotated) -> None:
    for image in good:
        one = annotated[image.file_name]
        for box in one.boxes:
            assert box.x >= 0 and box.y >= 0 and box.width >= 4 and box.height >= 4, image.file_name
            assert box.x + box.width <= one.width and box.y + box.height <= one.height, image.file_name


def test_facts_have_boxes_and_boxes_facts(good: list[AlbumImage], annotated: Annotated) -> None:
    """A colour is named of every box of its kind, or of none; of a person it is that of the clothes."""
    for image in good:
        things = Counter[tuple[str, tuple[str, ...]]]()
        for label, colour, count in image.facts:
            named = f"in {colour}" if label == "Person" else colour
            things[label, () if label in WITHOUT_COLOUR else (named,)] += count
        assert things == Counter((box.label, box.attributes) for box in annotated[image.file_name].boxes)


@pytest.mark.thorough
def test_the_colour_of_a_box_is_to_be_seen_in_it(good: list[AlbumImage], annotated: Annotated) -> None:
    """Once the image is upright; and less of it where the box would lie in its mirror image. Night tints."""
    shares = []
    for image in (image for image in good if image.light != "night"):
        with Image.open(BytesIO(image.data)) as opened:
            upright = ImageOps.exif_transpose(opened).convert("RGB").convert("HSV")
        hue, saturation, _ = np.moveaxis(np.asarray(upright), 2, 0)
        for box in annotated[image.file_name].boxes:
            for colour in (named.removeprefix("in ") for named in box.attributes):
                if colour in HUES:
                    distance = (hue - np.uint8(HUES[colour])).view(np.int8)  # around the circle
                    shown = (distance > -18) & (distance < 18) & (saturation > 60)
                    x, y, width, height = (round(side) for side in (box.x, box.y, box.width, box.height))
                    inside, upside_down, left_to_right = (
                        one[y : y + height, x : x + width].mean() for one in (shown, shown[::-1], shown[:, ::-1])
                    )
                    assert inside > 0.05, (image.file_name, box)
                    shares.append((inside, upside_down, left_to_right))
    means = np.mean(shares, axis=0)
    assert len(shares) > 500 and means[0] > 1.5 * max(means[1:])


def test_near_duplicates_have_the_boxes_of_their_scene(good: list[AlbumImage], annotated: Annotated) -> None:
    """Scaled with the image, or moved with its rim; a box that the new rim cuts ends there."""
    for image in (image for image in good if image.duplicate_of):
        copy, scene = annotated[image.file_name], annotated[image.duplicate_of or ""]
        is_cut = abs(copy.width / scene.width - 0.98) < 0.005  # a hundredth on either side
        scale = 1 if is_cut else copy.width / scene.width
        left, top = ((scene.width - copy.width) / 2, (scene.height - copy.height) / 2) if is_cut else (0, 0)
        for one, other in zip(copy.boxes, scene.boxes, strict=True):
            expected = [
                min(max(edge * scale - shift, 0), limit)
                for edge, shift, limit in (
                    (other.x, left, copy.width),
                    (other.y, top, copy.height),
                    (other.x + other.width, left, copy.width),
                    (other.y + other.height, top, copy.height),
                )
            ]
            assert [one.x, one.y, one.x + one.width, one.y + one.height] == pytest.approx(expected, abs=1.5)


def test_coco_annotations_join_up(album: list[AlbumImage], coco: dict[str, Any]) -> None:
    assert [image["file_name"] for image in coco["images"]] == [image.file_name for image in album]
    images = {image["id"] for image in coco["images"]}
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert len({annotation["id"] for annotation in coco["annotations"]}) == len(coco["annotations"])
    for annotation in coco["annotations"]:
        assert annotation["image_id"] in images and annotation["category_id"] in names
        assert annotation["area"] == annotation["bbox"][2] * annotation["bbox"][3]
        assert (annotation["iscrowd"], annotation["isfake"]) == (0, 0)
    assert (names[1], names[229], names[105]) == ("Person", "Hotair ballon", "Orange/Tangerine")
    assert set(names.values()) == set(read_words()["labels"])


def test_the_annotations_of_some_scenes_are_a_part_of_all(coco: dict[str, Any]) -> None:
    some = read_annotations(read_album(9))
    assert len(some["images"]) == 9 + 1 + 6
    assert all(image in coco["images"] for image in some["images"])
    ids = {image["id"] for image in some["images"]}
    assert some["annotations"] == [box for box in coco["annotations"] if box["image_id"] in ids]


WORDS = read_words()
NUMBERS = {"en": ("no", "one", "two", "three", "four", "five", "six"), "zh": "零一两三四五六"}


def _holds(claims: CaptionClaims, image: AlbumImage) -> bool:
    """Whether all that a caption says is true, asked of every single thing in the image."""
    things = [(label, colour) for label, colour, count in image.facts for _ in range(count)]
    answers = [
        claims.place is None or claims.place == image.place,
        claims.light is None or claims.light == image.light,
    ]
    for wanted in claims.required:
        matching = [
            thing
            for thing in things
            if thing[0] == wanted.label and (wanted.colour is None or thing[1] == wanted.colour)
        ]
        answers.append(len(matching) >= 1 if wanted.count is None else len(matching) == wanted.count)
    return all(answers)


def _fitting(images: list[AlbumImage]) -> dict[str, list[str]]:
    fitting: dict[str, list[str]] = {image.file_name: [] for image in images}
    for row in read_table("fitting", images):
        fitting[row["file_name"]].append(row["fits"])
    return fitting


def _describe(image: AlbumImage) -> CaptionClaims:
    """All that is to be seen: of each label how many, and how many of each colour."""
    required = []
    for label in dict.fromkeys(label for label, _, _ in image.facts):
        own = [(colour, count) for one, colour, count in image.facts if one == label]
        required.append(CaptionRequirement(label, None, sum(count for _, count in own)))
        required += [CaptionRequirement(label, colour, count) for colour, count in own]
    return CaptionClaims(image.place, image.light, tuple(required))


def _name_in_english(requirement: CaptionRequirement) -> str:
    label, colour, count = requirement.label, requirement.colour, requirement.count
    noun = WORDS["labels"][label]["singular_en" if count in (None, 1) else "plural_en"]
    if colour and label == "Person":
        noun = f"{noun} in {colour}"
    elif colour and " of " in noun:  # a pair of red shoes, not a red pair of shoes
        noun = noun.replace(" of ", f" of {colour} ")
    elif colour:
        noun = f"{colour} {noun}"
    return f"{NUMBERS['en'][count]} {noun}" if count else f"{'an' if re.match('[aeiou]|SUV', noun) else 'a'} {noun}"


def _name_in_chinese(requirement: CaptionRequirement) -> str:
    number, words = NUMBERS["zh"][requirement.count or 1], WORDS["labels"][requirement.label]
    if not requirement.colour:
        return f"{number}{words['measure_word_zh']}{words['zh']}"
    colour = WORDS["colours"][requirement.colour]
    if requirement.label == "Person":
        return f"{number}个穿{colour}上衣的人"
    return f"{number}{words['measure_word_zh']}{colour}的{words['zh']}"


def _join(things: Iterable[str], comma: str, last: str) -> str:
    *others, end = things
    return last.join([comma.join(others), end]) if others else end


def _write_in_english(claims: CaptionClaims) -> set[str]:
    """Every sentence that says this and nothing else."""
    things = [_name_in_english(requirement) for requirement in claims.required]
    listed = _join(things, ", ", " and ")
    place, light = (WORDS["places"][claims.place or ""]["en"], claims.light and WORDS["lights"][claims.light]["en"])
    where = f"{place} {light}" if light else place
    verb = "are" if (claims.required[0].count or 1) > 1 else "is"
    sentences = {f"{listed} {where}.", f"{where}, there {verb} {listed}."}
    if len(things) > 1:
        sentences.add(f"{things[0]} with {_join(things[1:], ', ', ' and ')} {where}.")
    return {sentence[0].upper() + sentence[1:] for sentence in sentences}


def _write_in_chinese(claims: CaptionClaims) -> set[str]:
    listed = _join(map(_name_in_chinese, claims.required), "、", "和")
    light = WORDS["lights"][claims.light]["zh"] if claims.light else ""
    where = light + WORDS["places"][claims.place or ""]["zh"]
    return {f"{where}有{listed}。", f"在{where}拍到的{listed}。", f"{listed}，在{where}。"}


def test_fitting_scenes_are_those_of_which_every_claim_holds(good: list[AlbumImage]) -> None:
    fitting = _fitting(good)
    for one in good:
        assert one.claims is not None and _holds(one.claims, one), one.file_name
        expected = [other.file_name for other in good if other is not one and _holds(one.claims, other)]
        assert fitting[one.file_name] == expected


def test_exactly_the_promised_number_of_captions_fits_several_scenes(scenes: list[AlbumImage]) -> None:
    sizes = Counter(len(others) + 1 for others in _fitting(scenes).values())
    assert sum(count for size, count in sizes.items() if size > 1) == 36
    assert set(sizes) == {1, 2, 3, 4, 5}


def test_faulty_files_have_no_captions_and_fit_nothing(album: list[AlbumImage]) -> None:
    faulty = {image.file_name for image in album if image.defect}
    for name in ("captions", "descriptions"):
        rows = read_table(name, album)
        assert {row["file_name"] for row in rows} == {image.file_name for image in album} - faulty
        assert Counter(row["language"] for row in rows) == {"zh": 252, "en": 252}
    assert not faulty & {name for row in read_table("fitting", album) for name in row.values()}


@pytest.mark.parametrize("name", ["captions", "descriptions"])
def test_captions_say_what_they_claim_and_nothing_else(good: list[AlbumImage], name: str) -> None:
    by_name = {image.file_name: image for image in good}
    for row in read_table(name, good):
        image = by_name[row["file_name"]]
        claims = image.claims if name == "captions" else _describe(image)
        assert claims is not None and claims.place
        write = _write_in_english if row["language"] == "en" else _write_in_chinese
        assert row["caption"] in write(claims), row["caption"]


def test_captions_are_written_as_people_write(good: list[AlbumImage]) -> None:
    for row in read_table("captions", good):
        caption = row["caption"]
        if row["language"] == "zh":
            assert re.fullmatch(r"[\u4e00-\u9fff，、]+。", caption), caption
            continue
        assert re.fullmatch(r"[A-Z][A-Za-z, -]+\.", caption), caption
        assert not re.search(r"\ba (?:[aeiou]|SUV)|\ban (?!SUV)[^aeiou]| {2}", caption, re.IGNORECASE), caption


NOT_LISTED = {"README.md", "sha256.txt"}


def test_every_file_of_the_data_is_listed_with_its_digest() -> None:
    folder = album_data.DATA_FOLDER
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    found = [
        f"{hashlib.sha256(files[name].read_bytes()).hexdigest()}  {name}" for name in sorted(set(files) - NOT_LISTED)
    ]
    assert (folder / "sha256.txt").read_text("utf-8").splitlines() == found
    assert sum(path.stat().st_size for path in files.values()) < 6_500_000


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("pictures/2023/autumn/park_0001.jpg", lambda path: path.write_bytes(path.read_bytes()[:-1]), "differs from"),
        ("pictures/2024/summer/beach_9003.jpg", lambda path: path.write_bytes(b"no longer empty"), "differs from"),
        ("scenes.jsonl", lambda path: path.write_bytes(path.read_bytes().replace(b"Dog", b"Cat")), "differs from"),
        ("pictures/2023/autumn/park_0001.jpg", lambda path: path.unlink(), "cannot be read .No such file"),
    ],
)
def test_data_other_than_those_shipped_are_refused(
    name: str, change: Callable[[Path], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(album_data.DATA_FOLDER, tmp_path / "data")
    monkeypatch.setattr(album_data, "DATA_FOLDER", tmp_path / "data")
    assert len(read_album(2)) == 2 + 6
    change(tmp_path / "data" / name)
    with pytest.raises(UserError, match=f"{re.escape(name)}.*{reason}.*install querytruth again"):
        read_album(2)


def test_some_scenes_are_the_first_of_all(album: list[AlbumImage]) -> None:
    few = read_album(9)
    assert [image.file_name for image in few if image.duplicate_of] == ["shared/copy_0007.jpg"]
    assert few == album[:10] + album[-6:]
    for name in ("captions", "descriptions", "fitting"):
        names = {image.file_name for image in few}
        rows = read_table(name, few)
        assert rows == [
            row for row in read_table(name, album) if {row["file_name"], row.get("fits", row["file_name"])} <= names
        ]
        assert rows


def test_the_album_has_scenes_near_duplicates_and_six_faulty_files(album: list[AlbumImage]) -> None:
    assert len(album) == 240 + 12 + 6
    assert sum(image.duplicate_of is not None for image in album) == 12
    assert len({image.file_name for image in album}) == len(album)
    assert len({hashlib.sha256(image.data).hexdigest() for image in album}) == len(album)


def test_good_files_have_the_promised_size_upright(good: list[AlbumImage], annotated: Annotated) -> None:
    turned = 0
    for image in good:
        with Image.open(BytesIO(image.data)) as opened:
            opened.load()
            size = opened.size
            if opened.getexif().get(ExifTags.Base.Orientation) == 6:
                size = (size[1], size[0])
                turned += 1
        assert size == (annotated[image.file_name].width, annotated[image.file_name].height), image.file_name
        assert max(size) <= 5000
    assert turned == 2


def test_exif_says_when_and_where(good: list[AlbumImage]) -> None:
    for image in good:
        with Image.open(BytesIO(image.data)) as opened:
            exif = opened.getexif()
        inner, gps = exif.get_ifd(ExifTags.IFD.Exif), exif.get_ifd(ExifTags.IFD.GPSInfo)
        if image.taken_at is None:
            assert ExifTags.Base.DateTimeOriginal not in inner
        else:
            taken = datetime.fromisoformat(image.taken_at)
            assert inner[ExifTags.Base.DateTimeOriginal] == f"{taken:%Y:%m:%d %H:%M:%S}"
            assert re.fullmatch(r"\+\d\d:00", inner[ExifTags.Base.OffsetTimeOriginal])
            assert 2023 <= taken.year <= 2025
        if image.latitude is None or image.longitude is None:
            assert not gps
        else:
            assert _degrees(gps[2]) == pytest.approx(image.latitude, abs=1e-6)
            assert _degrees(gps[4]) == pytest.approx(image.longitude, abs=1e-6)
            assert (gps[1], gps[3]) == ("N", "E")


def _degrees(parts: tuple[float, float, float]) -> float:
    return float(parts[0]) + float(parts[1]) / 60 + float(parts[2]) / 3600


def test_most_files_carry_hour_and_place_and_some_carry_nothing(scenes: list[AlbumImage]) -> None:
    assert 0.75 < sum(image.latitude is not None for image in scenes) / len(scenes) < 0.95
    assert 5 <= sum(image.taken_at is None for image in scenes) <= 15
    assert {Path(image.file_name).suffix for image in scenes} == {".jpg", ".png", ".webp"}


def test_some_scenes_were_taken_within_minutes_of_each_other(scenes: list[AlbumImage]) -> None:
    days = [image.taken_at[:10] + image.place for image in scenes if image.taken_at]
    assert max(days.count(day) for day in set(days)) >= 4


@pytest.mark.parametrize(
    ("number", "fault"), [(0, "truncated"), (1, "not_an_image"), (2, "empty"), (3, "not_an_image")]
)
def test_faulty_files_cannot_be_read(album: list[AlbumImage], number: int, fault: str) -> None:
    image = album[-6:][number]
    assert image.defect == fault
    with pytest.raises(OSError) as caught, Image.open(BytesIO(image.data)) as image:
        image.load()
    assert (caught.type is UnidentifiedImageError) == (fault != "truncated")


def test_the_bomb_is_refused_by_its_header_alone(album: list[AlbumImage], annotated: Annotated) -> None:
    bomb = album[-2]
    assert len(bomb.data) < 2000
    claimed = annotated[bomb.file_name]
    assert (claimed.width, claimed.height) == (60_000, 60_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Image.DecompressionBombError):
            Image.open(BytesIO(bomb.data))


def test_the_panorama_is_sound_but_too_wide(album: list[AlbumImage]) -> None:
    with Image.open(BytesIO(album[-1].data)) as image:
        image.load()
        assert image.size == (5200, 400)
    assert len(album[-1].data) < 100_000


def test_file_names_are_plain_and_tell_nothing_of_what_is_seen(album: list[AlbumImage]) -> None:
    words = {word.casefold() for label in read_words()["labels"] for word in re.findall(r"[A-Za-z]+", label)}
    for image in album:
        assert re.fullmatch(r"[a-z0-9_/]+\.(jpg|png|webp)", image.file_name)
        named = re.findall(r"[a-z]+", image.file_name)
        assert not {word.removesuffix("s") for word in named} & words
        assert not set(named) & words


def test_near_duplicates_look_like_their_scene(album: list[AlbumImage], annotated: Annotated) -> None:
    by_name = {image.file_name: image for image in album}
    for copy in (image for image in album if image.duplicate_of):
        scene = by_name[copy.duplicate_of or ""]
        assert copy.data != scene.data
        one, other = annotated[copy.file_name], annotated[scene.file_name]
        assert one.labels == other.labels
        assert (copy.facts, copy.claims) == (scene.facts, scene.claims)
        small = [Image.open(BytesIO(image.data)).convert("L").resize((16, 16)).tobytes() for image in (copy, scene)]
        assert one.width / one.height == pytest.approx(other.width / other.height, rel=0.02)
        assert sum(abs(a - b) for a, b in zip(*small, strict=True)) / 256 < 16


ALWAYS_SMALL = {"Wild Bird", "Kite", "Traffic Light"}
RARE = {"Guitar"}


@pytest.fixture(scope="module")
def scene_annotations(scenes: list[AlbumImage], annotated: Annotated) -> list[AnnotatedImage]:
    return [annotated[image.file_name] for image in scenes]


def _labels(image: AnnotatedImage) -> list[str]:
    return sorted(set(image.labels))


def _prominent(image: AnnotatedImage) -> set[str]:
    area = image.width * image.height
    return {box.label for box in image.boxes if box.width * box.height > 0.1 * area}


def test_all_but_a_few_labels_are_frequent_and_prominent(scene_annotations: list[AnnotatedImage]) -> None:
    images = Counter(label for image in scene_annotations for label in _labels(image))
    prominent = Counter(label for image in scene_annotations for label in _prominent(image))
    assert len(images) == 37
    searchable = {label for label, count in images.items() if count >= 10 and prominent[label]}
    assert set(images) - searchable == ALWAYS_SMALL | RARE
    assert all(prominent[label] >= 4 for label in searchable)
    assert all(images[label] >= 12 for label in searchable | ALWAYS_SMALL)
    assert all(0 < images[label] < 10 for label in RARE)
    assert not any(prominent[label] for label in ALWAYS_SMALL)


def test_many_pairs_and_several_triples_occur_together(scene_annotations: list[AnnotatedImage]) -> None:
    def frequent(size: int) -> int:
        counts = Counter(group for image in scene_annotations for group in combinations(_labels(image), size))
        return sum(count >= 10 for count in counts.values())

    assert frequent(2) >= 35
    assert frequent(3) >= 8


def test_narrower_labels_occur_without_the_wider_one(scene_annotations: list[AnnotatedImage]) -> None:
    for narrow, wide in (
        ("SUV", "Car"),
        ("Leather Shoes", "Other Shoes"),
        ("Sneakers", "Other Shoes"),
        ("Sailboat", "Boat"),
        ("Slippers", "Sandals"),
    ):
        alone = [image for image in scene_annotations if narrow in _labels(image) and wide not in _labels(image)]
        both = [image for image in scene_annotations if wide in _labels(image)]
        assert len(alone) >= 4 and both, (narrow, wide)


def test_counts_places_and_lights_vary(scenes: list[AlbumImage], scene_annotations: list[AnnotatedImage]) -> None:
    counts = Counter(count for image in scene_annotations for count in Counter(image.labels).values())
    assert set(counts) == {1, 2, 3, 4}
    assert min(Counter(image.place for image in scenes).values()) >= 12
    assert min(Counter(image.light for image in scenes).values()) >= 10
