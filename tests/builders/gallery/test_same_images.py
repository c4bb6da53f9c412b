"""One hash, and yet another image: in its colours, or in what is written on it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from querytruth.backends.images.image_reading import read_image

Colour = tuple[int, int, int]
RED, BLUE, GREEN = (200, 40, 45), (45, 80, 200), (40, 140, 60)
SAVED = {"quality": 88}


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
    rows = []
    for name, image in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(folder / name, "JPEG", **SAVED)
        rows.append(read_image(folder / name)._asdict() | {"item": name})
    frame = pd.DataFrame(rows)
    frame = frame.assign(image_id="img_" + frame["sha256"].str[:20])
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
