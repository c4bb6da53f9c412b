"""Edited copies: framed, letterboxed, cropped or written on, they are one image; what only shares a frame is not."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from querytruth.backends.images import image_views
from querytruth.backends.images.image_quality import find_content_boxes
from querytruth.backends.images.image_reading import TRANSPOSE_BY_ORIENTATION, ScannedImage, read_image
from querytruth.backends.images.image_views import VIEW_BYTES, describe_views
from tests.builders.gallery.photo_edits import EDITS, captioned, framed, letterboxed
from tests.images import make_exif

PHOTOS = 12


def photo(seed: int, size: tuple[int, int] = (480, 360)) -> Image.Image:
    """Blotches of all sizes in colour, as a photo has details of all sizes."""
    rng, values = np.random.default_rng(seed), np.zeros((size[1], size[0], 3))
    for cells in (3, 6, 12, 24, 48):
        noise = rng.integers(0, 256, (cells * 3 // 4 + 1, cells, 3), dtype=np.uint8)
        values += np.asarray(Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC), float) / cells**0.7
    low, high = values.min(), values.max()
    return Image.fromarray(((values - low) * (255 / (high - low))).astype(np.uint8))


def read(image: Image.Image, folder: Path, name: str) -> ScannedImage:
    path = folder / f"{name}.jpg"
    path.parent.mkdir(exist_ok=True)
    image.save(path, quality=85)
    return read_image(path)


def frame_of(images: dict[str, ScannedImage]) -> pd.DataFrame:
    frame = pd.DataFrame([image._asdict() for image in images.values()]).assign(item=list(images))
    return frame.assign(image_id="img_" + frame["sha256"].str[:20])


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ScannedImage]:
    folder = tmp_path_factory.mktemp("originals")
    return {f"{seed} original": read(photo(seed), folder, str(seed)) for seed in range(PHOTOS)}


def groups(found: DuplicateGroups) -> set[frozenset[str]]:
    return {frozenset(members["item"]) for _, members in found.table.groupby("duplicate_group")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "text, one line" else [pytest.mark.thorough]) for name in EDITS]
)
def test_an_edited_copy_is_in_the_group_of_its_photo_and_no_other(
    name: str, originals: dict[str, ScannedImage], tmp_path: Path
) -> None:
    copies = {f"{seed} copy": read(EDITS[name](photo(seed)), tmp_path, f"{seed}") for seed in range(PHOTOS)}
    found = groups(find_duplicates(frame_of(originals | copies), distance=8))
    wanted = {frozenset((f"{seed} original", f"{seed} copy")) for seed in range(PHOTOS)}
    assert found <= wanted, "no two photos are one"
    # Texts stand out more from these blotches than from real photos, which another test has.
    least = {"crop 10%, left and top": 8, "text, two lines": 0, "text, three lines": 0, "watermark": 0}
    assert len(found) >= least.get(name, PHOTOS - 1)


@pytest.mark.parametrize("name", [name for name in EDITS if name.startswith(("border", "letterbox"))])
def test_a_frame_or_bars_make_no_copy_the_representative(name: str, tmp_path: Path) -> None:
    images = {"original": read(photo(1), tmp_path, "a"), "edited": read(EDITS[name](photo(1)), tmp_path, "b")}
    small = read(photo(1).resize((240, 180)), tmp_path, "c")
    found = find_duplicates(frame_of(images | {"small": small}), distance=8).table
    assert set(found["item"]) == {"original", "edited", "small"}
    assert found[found["is_representative"]]["item"].tolist() == ["original"]


def test_an_image_that_has_a_frame_of_its_own_represents_its_small_crop(tmp_path: Path) -> None:
    whole = framed(0.1, "white")(photo(1))
    crop = photo(1).crop((24, 18, 456, 342)).resize((216, 162))
    images = {"whole": read(whole, tmp_path, "a"), "crop": read(crop, tmp_path, "b")}
    found = find_duplicates(frame_of(images), distance=8).table
    assert found[found["is_representative"]]["item"].tolist() == ["whole"]


def test_the_table_and_the_ledger_say_what_was_edited(originals: dict[str, ScannedImage], tmp_path: Path) -> None:
    names = {"border 5%": "border", "crop 5% of every side": "crop", "sticker": "overlay"}
    for name, edit in names.items():
        small = photo(2).resize((400, 300))  # the original stands for it
        frame = frame_of(originals | {"copy": read(EDITS[name](small), tmp_path, "copy")})
        found = find_duplicates(frame, distance=8)
        row = found.table.set_index("item").loc["copy"]
        assert row["matched_by"] == "views" and edit in row["edit"].split("+"), name
        assert row["distance"] <= 8
        [rejection] = found.rejections.itertuples()
        assert (rejection.item, rejection.reason, rejection.measure) == ("copy", "near_duplicate", "hamming_distance")
        assert rejection.value == row["distance"] and rejection.detail == row["edit"]
        assert rejection.related_item == "2 original"


@pytest.mark.parametrize(
    "edit",
    [framed(0.1, "black"), letterboxed(16 / 9, "white"), captioned("THE SAME TEXT", "on every photo", "of a series")],
)
@pytest.mark.thorough
def test_different_photos_with_the_same_frame_or_text_stay_apart(edit: object, tmp_path: Path) -> None:
    assert callable(edit)
    images = {str(seed): read(edit(photo(seed)), tmp_path, str(seed)) for seed in range(40)}
    assert groups(find_duplicates(frame_of(images), distance=8)) == set()


def test_a_screenshot_with_the_same_head_and_another_body_is_another_image(tmp_path: Path) -> None:
    head, images = photo(99, (480, 120)), {}
    for seed in range(12):
        page = photo(seed)
        page.paste(head, (0, 0))
        images[str(seed)] = read(page, tmp_path, str(seed))
    assert groups(find_duplicates(frame_of(images), distance=8)) == set()


@pytest.mark.parametrize("name", ["photos_flowers", "coco_tiny"])
def test_edited_copies_of_real_photos_are_found_and_no_others(name: str, shared: object, tmp_path: Path) -> None:
    assert callable(shared)
    paths = sorted(shared(name).rglob("*.jpg"))[::4]
    frames = {f"{path.stem} original": read_image(path) for path in paths}
    for number, path in enumerate(paths):
        edit = list(EDITS)[number % len(EDITS)]
        image = Image.open(path).convert("RGB")
        frames[f"{path.stem} copy"] = read(EDITS[edit](image), tmp_path, path.stem)
    found = groups(find_duplicates(frame_of(frames), distance=8))
    assert all(len({item.split()[0] for item in group}) == 1 for group in found)
    assert len(found) >= 0.9 * len(paths)


def test_views_are_those_of_the_upright_image(tmp_path: Path) -> None:
    photo(3).save(tmp_path / "upright.png")
    photo(3).transpose(TRANSPOSE_BY_ORIENTATION[6]).transpose(Image.Transpose.ROTATE_180).save(
        tmp_path / "stored.png", exif=make_exif({0x0112: 6})
    )
    one, other = read_image(tmp_path / "upright.png"), read_image(tmp_path / "stored.png")
    assert one.views == other.views and len(one.views or b"") == VIEW_BYTES


def test_views_do_not_depend_on_the_images_beside() -> None:
    greys = [np.asarray(photo(seed, (200, 120 + seed)).convert("L")) for seed in range(9)]
    colours = [np.asarray(photo(seed, (64, 64))) if seed % 2 else None for seed in range(9)]
    together = describe_views(greys, colours)
    assert together == [describe_views([grey], [own])[0] for grey, own in zip(greys, colours, strict=True)]
    assert describe_views([], []) == []


def test_a_large_part_is_near_to_the_same_part_alone() -> None:
    whole = np.asarray(photo(7, (240, 320)).convert("L"))
    upper, lower = np.concatenate([whole[:192], 255 - whole[192:]]), np.concatenate([whole[192:], whole[:192]])
    views = image_views.read_views([views for views, _ in describe_views([whole, upper, lower], [None] * 3)])
    one, same, other = views.hashes
    assert np.bitwise_count(one[2] ^ same[2]) <= 8, "the upper 60% of both"
    assert np.bitwise_count(one[2] ^ other[3]) > 16, "the upper 60% of one are the lower 60% of the other"


def test_plain_images_have_no_view_that_is_compared(tmp_path: Path) -> None:
    plain = read(Image.new("RGB", (300, 300), "red"), tmp_path, "plain")
    frame = frame_of({str(number): plain for number in range(3)}).assign(sha256=list("abc"), pixels=list("abc"))
    assert groups(find_duplicates(frame, distance=8)) == set()


@pytest.mark.parametrize(("edit", "size"), [(framed(0.1, "white"), (320, 240)), (letterboxed(1, None), (320, 240))])
def test_the_content_is_found_within_its_borders(edit: object, size: tuple[int, int]) -> None:
    assert callable(edit)
    edited = edit(photo(5, size))
    out = io.BytesIO()
    edited.save(out, "JPEG", quality=85)
    grey = np.asarray(Image.open(out).convert("L"))
    whole = np.asarray(photo(5, size).convert("L"))
    (left, top, right, bottom), unframed = find_content_boxes([grey, whole])
    inset = (edited.width - size[0]) // 2, (edited.height - size[1]) // 2
    assert abs(left - inset[0]) <= 2 and abs(top - inset[1]) <= 2
    assert abs(right - left - size[0]) <= 4 and abs(bottom - top - size[1]) <= 4
    assert unframed == (0, 0, *size)


def test_borders_are_the_same_whatever_is_looked_at_with_an_image() -> None:
    edits = [framed(0.1, "white"), letterboxed(1, None), lambda image: image, lambda image: image.crop((0, 0, 5, 3))]
    sizes = [(320, 240), (200, 300), (120, 90)]
    images = [np.asarray(edit(photo(5, size)).convert("L")) for edit in edits for size in sizes]
    boxes = find_content_boxes(images)
    assert boxes == [find_content_boxes([image])[0] for image in images] and find_content_boxes([]) == []
    assert boxes[6:9] == [(0, 0, *size) for size in sizes] and all(box[:2] != (0, 0) for box in boxes[:6])


Colour = tuple[int, int, int]
RED, BLUE, GREEN = (200, 40, 45), (45, 80, 200), (40, 140, 60)


def with_luma(colour: Colour, luma: float = 105) -> Colour:
    own = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    red, green, blue = (round(min(255, max(0, value + luma - own))) for value in colour)
    return red, green, blue


def scenery(seed: int) -> Image.Image:
    values = np.random.default_rng(seed).integers(40, 216, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(values).resize((480, 360), Image.Resampling.BICUBIC)


def dress(colour: Colour) -> Image.Image:
    """A thing in a room: only it changes its colour, and hardly its grey."""
    image = ImageOps.grayscale(scenery(1)).convert("RGB")
    ImageDraw.Draw(image).polygon([(200, 60), (280, 60), (340, 320), (140, 320)], fill=with_luma(colour))
    return image


def lamp(colour: Colour) -> Image.Image:
    image = ImageOps.grayscale(scenery(2)).convert("RGB")
    ImageDraw.Draw(image).ellipse((300, 240, 335, 275), fill=with_luma(colour))
    return image


def card(text: str) -> Image.Image:
    image = Image.new("RGB", (640, 400), (24, 30, 48))
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((24, 24, 616, 376), 28, fill=(38, 48, 74), outline=(90, 110, 160), width=3)
    draw.ellipse((60, 110, 240, 290), outline="white", width=8)
    for number, line in enumerate(text.split("|")):
        draw.text((280, 110 + 80 * number), line, "white", font_size=56)
    return image


def sepia(image: Image.Image) -> Image.Image:
    return image.convert("RGB", (0.393, 0.769, 0.189, 0, 0.349, 0.686, 0.168, 0, 0.272, 0.534, 0.131, 0))


def group(folder: Path, images: dict[str, Image.Image], **options: bool) -> DuplicateGroups:
    frame = frame_of({name: read(image, folder, name) for name, image in images.items()})
    return find_duplicates(frame, distance=8, **options)


def kept(found: DuplicateGroups, images: dict[str, Image.Image]) -> set[str]:
    return {name for name, is_kept in zip(images, found.is_kept.tolist(), strict=True) if is_kept}


@pytest.mark.parametrize("draw", [dress, lamp], ids=["a dress", "a lamp"])
def test_one_thing_in_three_colours_is_three_images(tmp_path: Path, draw: Callable[[Colour], Image.Image]) -> None:
    images = {"red": draw(RED), "blue": draw(BLUE), "green": draw(GREEN)}
    assert kept(group(tmp_path, images), images) == set(images)
    turned = {"red": draw(RED), "blue": draw(BLUE).transpose(Image.Transpose.ROTATE_90)}
    assert kept(group(tmp_path, turned, rotations=True), turned) == set(turned)
    copies = {"red": draw(RED), "copy": draw(RED).transpose(Image.Transpose.ROTATE_90)}
    assert len(kept(group(tmp_path, copies, rotations=True), copies)) == 1


def test_copies_with_fewer_or_other_colours_all_over_join(tmp_path: Path) -> None:
    whole = scenery(3)
    images = {
        "original": whole.resize((600, 450)),
        "grey": ImageOps.grayscale(whole).convert("RGB"),
        "one layer": ImageOps.grayscale(whole),
        "sepia": sepia(whole),
        "faded": Image.blend(whole, Image.new("RGB", whole.size, (200, 195, 185)), 0.4),
        "saturated": ImageEnhance.Color(whole).enhance(1.3),
        "smaller": whole.resize((240, 180)),
    }
    assert kept(group(tmp_path, images), images) == {"original"}


def on_a_ground(image: Image.Image, ground: str) -> Image.Image:
    """The image in an oval, a third of all."""
    mask = Image.new("L", image.size, 0)
    ImageDraw.Draw(mask).ellipse((110, 60, 370, 300), fill=255)
    return Image.composite(image, Image.new("RGB", image.size, ground), mask)


def test_a_sepia_copy_joins_where_most_is_black_and_a_brown_thing_joins_no_other(tmp_path: Path) -> None:
    flower = on_a_ground(scenery(4), "black")
    images = {"original": flower, "sepia": sepia(flower)}
    assert len(kept(group(tmp_path, images), images)) == 1
    things = {"coloured": on_a_ground(scenery(4), "white"), "brown": on_a_ground(sepia(scenery(4)), "white")}
    assert kept(group(tmp_path, things), things) == set(things)


def test_what_a_slowly_turning_camera_sees_is_one_image_only_as_long_as_it_hardly_moves(tmp_path: Path) -> None:
    room = scenery(5)
    views = {str(left): room.crop((left, 0, left + 360, 360)) for left in (0, 18, 50, 90)}
    assert kept(group(tmp_path, views), views) == set(views)
    burst = {str(left): room.crop((left, 0, left + 360, 360)) for left in (0, 9)}
    assert len(kept(group(tmp_path, burst), burst)) == 1


def test_a_grey_copy_is_one_of_the_red_image_or_of_the_blue_one_and_joins_no_two(tmp_path: Path) -> None:
    grey = ImageOps.grayscale(dress(RED)).convert("RGB")
    for size in ((480, 360), (960, 720)):  # the grey copy may be the largest
        images = {"red": dress(RED), "blue": dress(BLUE), "grey": grey.resize(size)}
        found = group(tmp_path, images)
        assert kept(found, images) == {"red", "blue"}
        assert found.table.groupby("duplicate_group").size().tolist() == [2]


def test_cards_of_one_template_are_as_many_as_their_texts(tmp_path: Path) -> None:
    texts = ("London|12:45", "Lisbon|13:10", "Tokyo|21:45", "Nairobi|15:45")
    images = {text: card(text) for text in texts}
    found = group(tmp_path, images | {"copy": card(texts[0]).resize((500, 312), Image.Resampling.LANCZOS)})
    assert found.is_kept.tolist() == [True] * 4 + [False]
    framed = ImageOps.expand(card(texts[1]), 20, "white")
    assert group(tmp_path, {"a": card(texts[0]), "b": framed}).is_kept.all()


# ---- who represents
def test_a_folder_of_copies_loses_to_the_folder_that_has_images_of_its_own(tmp_path: Path) -> None:
    """By name the backup comes first; but all of it lies elsewhere, too."""
    images = {f"iPhone Backup (2)/{n}.jpg": scenery(n) for n in range(10, 13)}
    images |= {f"web photos/{n}.jpg": scenery(n) for n in range(10, 15)}
    assert kept(group(tmp_path, images), images) == {f"web photos/{n}.jpg" for n in range(10, 15)}


def test_of_two_equal_files_the_one_with_the_shorter_name_is_no_copy(tmp_path: Path) -> None:
    images = {"IMG_1 (1).jpg": scenery(20), "IMG_1.jpg": scenery(20), "IMG_1 copy.jpg": scenery(20)}
    assert kept(group(tmp_path, images), images) == {"IMG_1.jpg"}


def test_an_edited_copy_hides_no_other(tmp_path: Path) -> None:
    """A stretched copy has the same hash as its original; it leads to no framed one, but the original does."""
    frames: dict[str, Image.Image] = {}
    for seed in range(30, 34):
        whole = scenery(seed)
        frames |= {
            f"{seed} a stretched": whole.resize((600, 360)),
            f"{seed} original": whole,
            f"{seed} bordered": ImageOps.expand(whole, 24, "white"),
        }
    found = group(tmp_path, frames)
    group_of = dict(zip(found.table["item"], found.table["duplicate_group"], strict=True))
    assert all(group_of[f"{seed} original"] == group_of[f"{seed} bordered"] for seed in range(30, 34))
    assert all(len({item[:2] for item in rows}) == 1 for _, rows in found.table.groupby("duplicate_group")["item"])
