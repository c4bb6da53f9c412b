"""Photos of a set that are in a training folder as they were, whatever the set's build made of them."""

import json
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.audit.overlap import OverlapResult, find_overlap, summarize_overlap
from querytruth.audit.overlap_pairs import describe_bytes_alone, find_bytes_alone
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
def test_each_source_file_is_found_by_its_bytes_whatever_the_set_shows_of_it(
    mode: str, photos: Path, tmp_path: Path
) -> None:
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
