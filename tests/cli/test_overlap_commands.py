"""`querytruth overlap` as a user types it: planted copies are found, other photos are not."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageOps

from tests.small_sets import publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]


def _noise(seed: int) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((320, 240), Image.Resampling.BICUBIC)


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A set whose images are four different ones."""
    folder = publish_small_set(tmp_path, small_tables(graded=False)).path
    for seed, name in enumerate(sorted(folder.glob("images/*/*.jpg"))):
        name.unlink()
        _noise(seed).save(name, "JPEG", quality=95)
    return folder


@pytest.mark.thorough
def test_edited_copies_are_found_and_other_images_are_not(run: Run, tmp_path: Path, album: Path) -> None:
    training = tmp_path / "training"
    training.mkdir()
    _noise(0).resize((160, 120)).save(training / "half.jpg", quality=60)
    ImageOps.mirror(_noise(1)).save(training / "mirrored.png")
    _noise(2).crop((16, 12, 304, 228)).save(training / "cropped.jpg", quality=60)
    for seed in range(10, 20):
        _noise(seed).save(training / f"other{seed}.png")
    (training / "notes.tar").write_bytes(b"x" * 512)
    _, progress = run("overlap", "small", "--out", "sets", "--against", "training", "--to", "found")
    assert "training: not compared: not_an_image 1" in " ".join(progress.split())
    assert Path("found/pairs.html").read_text("utf-8").count("data:image/jpeg") == 6
    pairs = pd.read_csv("found/pairs.csv")
    first, second, third = [file.stem for file in sorted(album.glob("images/*/*.jpg"))][:3]
    found = set(pairs[["set_item", "other_item", "evidence"]].itertuples(index=False, name=None))
    assert found == {
        (first, "half.jpg", "views"),
        (second, "mirrored.png", "mirrored views"),
        (third, "cropped.jpg", "views"),
    }


@pytest.mark.thorough
def test_a_set_against_itself_and_captions(run: Run, tmp_path: Path, album: Path) -> None:
    shown = json.loads(run("overlap", "small", "--out", "sets", "--against", "small", "--json")[0])
    assert shown["pairs"] == {"bytes": 4, "text": 4} and shown["leaked"] == 4
    assert shown["images_compared"] == 4
    next(album.glob("images/*/*.jpg")).unlink()
    out, _ = run("overlap", "small", "--out", "sets", "--against", "small")
    assert "3 of 4 images of the set were compared" in out
    assert "without a hash, so edited copies are not found: 1 whose file in the set could not be read" in out
    Path("captions.csv").write_text("id,caption\n1,A DOG wet\n2,a bird\n", "utf-8")
    out, _ = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--page-language", "zh")
    page = Path("sets/small/overlap/v1/pairs.html").read_text("utf-8")
    assert "1 / 4 条泄漏的查询" in page and "a dog, wet" in page and "row 1" in page
    assert "1 of 4 queries are leaked (0 by an image, 1 by the text)" in out and "not checked" in out
    for name, wrong in (("notes.md", "is not a folder, a set, a table"), ("notes.txt", "contains no readable image")):
        Path(name).write_text("x")
        assert wrong in run("overlap", "small", "--out", "sets", "--against", name, code=1)[1]


@pytest.mark.thorough
def test_leaked_queries_are_a_slice_and_can_be_dropped(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    Path("captions.csv").write_text("caption\nA DOG wet\n", "utf-8")
    assert (
        "overlap" in run("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--slice", "overlap", code=1)[1]
    )
    shown = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--drop")[0]
    assert "1 queries marked to be dropped; next: querytruth apply small" in shown
    warning = "1 query is leaked: another collection (captions.csv) has the same image or text."
    assert f"warning: {warning}" in run("show", "small", "--out", "sets", "--page", "small.html")[0]
    assert warning in Path("small.html").read_text("utf-8")
    again = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--drop")[0]
    assert "0 queries marked" in again
    scored = run("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--slice", "overlap=leaked", "--json")[0]
    (result,) = json.loads(scored)["results"]
    assert {(row["slice"], row["value"], row["queries"]) for row in result["slices"]} == {("overlap", "leaked", 1)}
    both = "compare", "small", result["folder"], result["folder"], "--out", "sets"
    assert "3 queries" in run(*both, "--slice", "overlap=clean")[0]
    assert "choose from clean, leaked" in run(*both, "--slice", "overlap=other", code=1)[1]
    run("apply", "small", "--out", "sets")
    assert "leaked" not in run("show", "small", "--out", "sets")[0], "of another version"
    assert "a dog, wet" not in set(pd.read_parquet("sets/small/v2/queries.parquet")["text"])
    wrong = run("evaluate", "small", "--out", "sets", "--baseline", "oracle", "--slice", "overlap", code=1)[1]
    assert "run `querytruth overlap` on this version" in wrong


def test_a_damaged_result_is_refused(run: Run, album: Path) -> None:
    Path("captions.csv").write_text("caption\nA DOG wet\n", "utf-8")
    run("overlap", "small", "--out", "sets", "--against", "captions.csv")
    result = Path("sets/small/overlap/v1/overlap.json")
    for text in ("{}", result.read_text("utf-8").replace("{", '{"queries_by_overlap": {}, ', 1)):
        result.write_text(text, "utf-8")
        assert "is damaged" in run("evaluate", "small", "--out", "sets", "--baseline", "oracle", code=1)[1]
