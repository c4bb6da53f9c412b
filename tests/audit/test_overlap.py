"""Photos and captions of a set in a training folder: as they were, edited, sampled otherwise, or others."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageEnhance, ImageOps

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.audit.overlap import OverlapResult, find_overlap, hash_images, summarize_overlap
from querytruth.audit.overlap_pairs import ImageOverlap, TextOverlap, describe_bytes_alone, find_bytes_alone
from querytruth.sets.set_files import StoredSet, read_set
from tests.images import draw_scene


def _publish(folder: Path, photos: Path, mode: str) -> StoredSet:
    keys = {
        "name": mode,
        "kind": "gallery",
        "images": str(photos),
        "out": str(folder / "sets"),
        "lose_at_most": None,
        "near_duplicates": {"distance": None},
        "render": {"mode": mode, "size": 96},
    }
    file = folder / f"{mode}.json"
    file.write_text(json.dumps(keys), "utf-8")
    return read_set(build_set(load_definition(file, [], "gallery")).path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four wide photos, a square one, and two skies, in which a hash has nothing to hold on to."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for seed in range(5):
        image = draw_scene(seed, (120 if seed == 4 else 160, 120))
        image.save(folder / f"photo {seed}.jpg", quality=90)
    for seed in range(2):
        Image.new("RGB", (160, 120), (90, 140, 200 + seed)).save(folder / f"sky {seed}.jpg")
    return folder


def _compare(stored: StoredSet, against: Path) -> OverlapResult:
    return find_overlap(stored, [str(against)], against.parent)


@pytest.mark.parametrize(
    "mode", ["longer_side", "crop", *(pytest.param(m, marks=pytest.mark.thorough) for m in ("squash", "fit"))]
)
def test_files_are_found_by_their_bytes_however_a_set_shows_them(mode: str, photos: Path, tmp_path: Path) -> None:
    stored = _publish(tmp_path, photos, mode)
    names = stored.tables.images.set_index("image_id")["file_name"]
    found = _compare(stored, photos)
    assert set(found.pairs["evidence"]) == {"bytes"}
    assert sorted(found.pairs["other_item"]) == sorted(names) and len(names) == 7
    assert (found.pairs["set_item"].map(names) == found.pairs["other_item"]).all()
    assert found.images_compared == 7
    cut = {f"render_mode_{mode}": 4} if mode in ("fit", "crop") else {}
    assert found.by_bytes_alone == {"little_structure": 2, **cut}
    assert summarize_overlap(stored, [str(photos)], found)["by_bytes_alone"] == found.by_bytes_alone


@pytest.mark.thorough
def test_two_sets_of_the_same_photos_share_them_however_each_was_rendered(photos: Path, tmp_path: Path) -> None:
    one, other = (_publish(tmp_path, photos, mode) for mode in ("crop", "fit"))
    pairs = _compare(one, other.path).pairs
    assert (pairs["set_item"] == pairs["other_item"]).all() and len(pairs) == 7


@pytest.mark.thorough
def test_an_image_without_a_file_is_compared_by_its_digest_and_said_to_be(photos: Path, tmp_path: Path) -> None:
    stored = _publish(tmp_path, photos, "longer_side")
    for file in stored.path.glob("images/*/*.jpg"):
        file.unlink()
    found = _compare(stored, photos)
    assert len(found.pairs) == 7 and found.images_compared == 0
    assert describe_bytes_alone(found.by_bytes_alone) == "7 whose file in the set could not be read"


def test_an_image_with_neither_file_nor_digest_is_not_counted_as_compared() -> None:
    images = pd.DataFrame({"image_id": ["i1", "i2"], "width": [3, 4], "height": [4, 3]})
    hashed = pd.DataFrame({"item": ["i1"], "sha256": ["aa"], "pixels": [None], "views": [None]})
    assert find_bytes_alone(images, hashed, None).tolist() == ["not_read"]


Edit = Callable[[Image.Image], Image.Image]


def _cut(left: float, top: float, right: float, bottom: float) -> Edit:
    return lambda image: image.crop(
        tuple(round(share * side) for share, side in zip((left, top, right, bottom), image.size * 2, strict=True))
    )


EDITS: dict[str, Edit] = {
    "encoded": lambda image: image,
    "half": lambda image: image.resize((image.width // 2, image.height // 2)),
    "mirrored": ImageOps.mirror,
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.2),
    "centre": _cut(0.025, 0.025, 0.975, 0.975),
    "each_edge": _cut(0.05, 0.05, 0.95, 0.95),
    "left": _cut(0.05, 0, 1, 1),
    "corner": _cut(0, 0.04, 0.96, 1),
}


def _find(photos: list[Path], against: Path, folder: Path) -> pd.DataFrame:
    ours = folder / "ours"
    ours.mkdir()
    for photo in photos:
        (ours / photo.name).write_bytes(photo.read_bytes())
    return ImageOverlap(_hash(ours)).find_pairs([_hash(against)])


def _hash(folder: Path) -> pd.DataFrame:
    return pd.concat(hash_images(str(folder)), ignore_index=True)


@pytest.mark.thorough
def test_edited_copies_of_photos_are_found_and_nothing_else(shared: Callable[[str], Path], tmp_path: Path) -> None:
    photos = sorted(shared("coco_tiny").rglob("*.jpg"))[::5]
    edited = tmp_path / "edited"
    edited.mkdir()
    for photo in photos:
        with Image.open(photo) as opened:
            image = opened.convert("RGB")
        for name, edit in EDITS.items():
            edit(image).save(edited / f"{photo.stem}.{name}.jpg", quality=60)
    pairs = _find(photos, edited, tmp_path)
    is_right = pairs["set_item"].str.removesuffix(".jpg") == pairs["other_item"].str.partition(".")[0]
    assert is_right.all()
    found = pairs["other_item"].str.split(".").str[1].value_counts()
    assert found.reindex(list(EDITS)).min() >= np.floor(0.99 * len(photos)), found.to_dict()


@pytest.mark.thorough
def test_captions_of_coco_are_found_in_another_sample_of_it_by_their_ids(shared: Callable[[str], Path]) -> None:
    def read(file: Path) -> dict[str, str]:
        found = json.loads(file.read_text("utf-8"))["annotations"]
        return {f"{one['image_id']}:{one['id']}": one["caption"] for one in found}

    other = read(shared("captions") / "coco_captions_val2017.json")
    train, val = (read(shared("coco_tiny") / f"annotations/captions_{part}2017.json") for part in ("train", "val"))
    pairs = list(TextOverlap(train | val).find_pairs(other.items()))
    assert {(own, own) for own in val} <= {(own, item) for own, item, _, _ in pairs}
    others = [(own, item) for own, item, _, _ in pairs if own.partition(":")[0] != item.partition(":")[0]]
    assert len(pairs) == 259 and len(others) == 9
    plain = {name: re.findall("[a-z]+", text.lower()) for name, text in (other | train | val).items()}
    assert all(plain[own] == plain[item] for own, item in others)
