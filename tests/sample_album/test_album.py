"""The album: the same files everywhere, the code that drew them being gone, and truths that other tests build on."""

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from querytruth.errors import UserError
from querytruth.sample_album import album as album_data
from querytruth.sample_album.album import (
    AlbumImage,
    CaptionClaims,
    read_album,
    read_annotations,
    read_table,
)


@pytest.fixture(scope="module")
def album() -> list[AlbumImage]:
    """All files, in their order."""
    return read_album()


@pytest.fixture(scope="module")
def good(album: list[AlbumImage]) -> list[AlbumImage]:
    """Scenes and near-duplicates."""
    return [image for image in album if image.defect is None]


@pytest.fixture(scope="module")
def scenes(good: list[AlbumImage]) -> list[AlbumImage]:
    """The 240 scenes alone."""
    return [image for image in good if image.duplicate_of is None]


@pytest.fixture(scope="module")
def coco(album: list[AlbumImage]) -> dict[str, Any]:
    """The annotations as they are written."""
    return read_annotations(album)


# Kinds that have several colours, or one alone.
WITHOUT_COLOUR = {"Airplane", "Potted Plant", "Traffic Light", "Orange/Tangerine", "Banana", "Soccer"}


def test_facts_have_boxes_and_boxes_facts(good: list[AlbumImage], coco: dict[str, Any]) -> None:
    """A colour is named of every box of its kind, or of none; of a person it is that of the clothes."""
    labels = {category["id"]: category["name"] for category in coco["categories"]}
    names = {image["id"]: image["file_name"] for image in coco["images"]}
    boxes: dict[str, list[tuple[str, tuple[str, ...]]]] = {name: [] for name in names.values()}
    for box in coco["annotations"]:
        boxes[names[box["image_id"]]].append((labels[box["category_id"]], tuple(box.get("attributes", ()))))
    for image in good:
        things = Counter[tuple[str, tuple[str, ...]]]()
        for label, colour, count in image.facts:
            named = f"in {colour}" if label == "Person" else colour
            things[label, () if label in WITHOUT_COLOUR else (named,)] += count
        assert things == Counter(boxes[image.file_name])


def test_the_annotations_of_some_scenes_are_a_part_of_all(coco: dict[str, Any]) -> None:
    some = read_annotations(read_album(9))
    assert len(some["images"]) == 9 + 1 + 6
    assert all(image in coco["images"] for image in some["images"])
    ids = {image["id"] for image in some["images"]}
    assert some["annotations"] == [box for box in coco["annotations"] if box["image_id"] in ids]


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


NOT_LISTED = {"README.md", "sha256.txt"}
LIST = "06696bc5191d2f13d9ecd7e7c068bb920bcaea0c568887899c0caac2fbad931a"


def test_every_file_of_the_data_is_listed_with_its_digest_and_so_is_the_list() -> None:
    """The code that drew the scenes and the tests of what it drew stand in the history: other data need them again."""
    folder = album_data.DATA_FOLDER
    assert hashlib.sha256((folder / "sha256.txt").read_bytes()).hexdigest() == LIST
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
