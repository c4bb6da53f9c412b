"""Watermarks: marks planted on real photos, and the same photos without them, of which none may go."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from builders.gallery.shared_marks import SIDE, find_marked_images, read_edges
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.sets.set_files import read_set


def encode(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.thumbnail((SIDE, SIDE))
    image.save(out, "JPEG", quality=88)
    return out.getvalue()


def mark(image: Image.Image, opacity: float) -> Image.Image:
    """A line of white letters in the lower right corner, as large as the image asks for."""
    layer, long = Image.new("RGBA", image.size, (0, 0, 0, 0)), max(image.size)
    font = ImageFont.load_default(size=round(0.035 * long))
    left, top, right, bottom = ImageDraw.Draw(layer).textbbox((0, 0), "© PhotoHouse.com", font=font)
    place = image.width - (right - left) - 0.02 * long, image.height - (bottom - top) - 0.03 * long
    ImageDraw.Draw(layer).text(place, "© PhotoHouse.com", font=font, fill=(255, 255, 255, round(255 * opacity)))
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")


def draw_scene(number: int) -> Image.Image:
    """Soft noise: no two have an edge in common."""
    rng = np.random.default_rng(number)
    small = rng.integers(40, 180, (24, 32, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC)


def test_a_mark_that_several_images_share_is_found_and_nothing_else() -> None:
    images = [draw_scene(number) for number in range(24)]
    marked = [read_edges(encode(mark(image, 0.5) if number < 8 else image)) for number, image in enumerate(images)]
    found = find_marked_images(marked, 0.12, 5)
    assert np.flatnonzero(~np.isnan(found)).tolist() == list(range(8)) and np.nanmin(found) > 0.12
    assert np.isnan(find_marked_images(marked[:4] + marked[8:], 0.12, 5)).all(), "four are too few"
    assert np.isnan(find_marked_images(marked[:3], 0.12, 5)).all()


@pytest.mark.thorough
def test_of_real_photos_none_goes_without_a_mark_and_many_with_one(shared: Callable[[str], Path]) -> None:
    """180 photos of COCO and of flowers, all different; letters of an opacity of 0.4 on three of ten."""
    places = sorted(place for name in ("coco_tiny", "photos_flowers") for place in shared(name).rglob("*.jpg"))
    photos = []
    for place in places:
        with Image.open(place) as photo:
            photos.append(photo.convert("RGB"))
    clean = [read_edges(encode(photo.copy())) for photo in photos]
    assert len(clean) == 180 and np.isnan(find_marked_images(clean, 0.12, 5)).all()
    chosen = np.arange(len(photos)) % 10 < 3
    edges = [
        read_edges(encode(mark(photo, 0.4))) if is_chosen else own
        for photo, own, is_chosen in zip(photos, clean, chosen, strict=True)
    ]
    found = ~np.isnan(find_marked_images(edges, 0.12, 5))
    assert not (found & ~chosen).any() and found[chosen].mean() > 0.4


def test_a_gallery_leaves_them_out_where_it_is_asked_to(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(16):
        image = draw_scene(number)
        (mark(image, 0.5) if number < 6 else image).save(folder / f"{number:02}.jpg", quality=90)
    keys = [f"images={folder}", f"out={tmp_path / 'sets'}", "near_duplicates.distance=null", "render=null"]
    with active_run(BuildRun(workers=2)):
        whole = read_set(build_set(load_definition(None, [*keys, "name=whole"], "gallery")).path)
        rest = build_set(load_definition(None, [*keys, "name=rest", "watermarks={}"], "gallery")).path
    assert len(whole.tables.images) == 16
    stored = read_set(rest)
    assert sorted(stored.tables.images["file_name"]) == [f"{number:02}.jpg" for number in range(6, 16)]
    ledger = stored.tables.ledger
    gone = ledger[ledger["reason"] == "watermark"]
    assert sorted(gone["item"]) == [f"{number:02}.jpg" for number in range(6)]
    assert (gone["value"] > gone["threshold"]).all() and set(gone["measure"]) == {"mark_correlation"}
