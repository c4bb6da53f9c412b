"""The sets that a definition reads: the version of each is kept, and `uncovered_by` selects what nobody asks about."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import querytruth as qt
from querytruth.errors import UserError
from querytruth.sets.set_files import read_set
from tests.worlds import build_of

FOLDERS = {"bath": 30, "york": 30, "rome": 2}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in three folders, of which one is small, and 20 queries that ask for photos of Bath alone."""
    top, noise = tmp_path_factory.mktemp("trips"), np.random.default_rng(5)
    for folder, count in FOLDERS.items():
        (top / "photos" / folder).mkdir(parents=True)
        for number in range(count):
            pixels = noise.integers(0, 256, (6, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).resize((160, 120)).save(top / "photos" / folder / f"{number}.jpg")
    lines = [f"the bath number {number},bath/{number}.jpg" for number in range(20)]
    (top / "golden.csv").write_text("\n".join(["query,image", *lines, ""]), "utf-8")
    qt.import_set("pairs", top / "golden.csv", top / "sets" / "golden", images=top / "photos")
    return top


def gallery_of(photos: Path, name: str, uncovered_by: str) -> list[str]:
    return [
        f"name={name}",
        f"images={photos / 'photos'}",
        f"out={photos / 'sets'}",
        f"select.uncovered_by={uncovered_by}",
    ]


def test_a_gallery_takes_the_images_of_folders_that_a_set_never_asks_about(photos: Path) -> None:
    stored = read_set(build_of("gallery", gallery_of(photos, "next", "golden"), "render=null").path)
    # Of 20 images drawn at random, a folder of 2 in 62 is often missed: that Rome is empty shows nothing.
    assert set(stored.tables.images["file_name"].str.split("/").str[0]) == {"york"}
    stage = next(one for one in stored.manifest["funnel"] if one["stage"] == "coverage")
    assert (stage["accepted"], stage["rejected"]) == (30, {"already_covered": 32})
    assert stored.manifest["configuration"]["select"]["uncovered_by"] == "golden/v1"
    assert [one["file"] for one in stored.manifest["inputs"]] == ["photos", "golden/v1"]


def test_queries_for_a_published_gallery_are_asked_about_its_uncovered_images(photos: Path) -> None:
    build_of("gallery", ["name=all", f"images={photos / 'photos'}", f"out={photos / 'sets'}"])
    (photos / "log.csv").write_text("query,count\na gate in York,3\n", "utf-8")
    words = [f"queries={photos / 'log.csv'}", f"out={photos / 'sets'}", "name=asked", "gallery=all"]
    stored = read_set(build_of("queries", words, "select.uncovered_by=golden").path)
    assert len(stored.tables.images) == 30
    chosen = stored.manifest["configuration"]
    assert (chosen["gallery"], chosen["select"]["uncovered_by"]) == ("all/v1", "golden/v1")
    assert stored.manifest["funnel"][0]["rejected"] == {"already_covered": 32}


def test_a_set_that_covers_every_part_or_nothing_is_refused_by_name(photos: Path) -> None:
    lines = [
        f"photo {folder} {number},{folder}/{number}.jpg" for folder, count in FOLDERS.items() for number in range(count)
    ]
    (photos / "every.csv").write_text("\n".join(["query,image", *lines, ""]), "utf-8")
    qt.import_set("pairs", photos / "every.csv", photos / "sets" / "every", images=photos / "photos")
    with pytest.raises(
        UserError, match=r"every/v1 \(coverage\): has queries for every part of these images. Next: remove"
    ):
        build_of("gallery", gallery_of(photos, "none", "every"))
    with pytest.raises(UserError, match="golden2"):
        build_of("gallery", gallery_of(photos, "none", "golden2"))
