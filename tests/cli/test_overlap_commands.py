"""`querytruth overlap` as a user types it: planted copies are found, other photos are not."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageOps

from tests.publisher_files import make_tar
from tests.small_sets import publish_small_set, small_tables
from tests.tiny_text_models import save_text_model

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
def test_edited_copies_are_found_also_in_an_index_and_other_images_are_not(
    run: Run, tmp_path: Path, album: Path
) -> None:
    training = tmp_path / "training"
    training.mkdir()
    _noise(0).resize((160, 120)).save(training / "half.jpg", quality=60)
    ImageOps.mirror(_noise(1)).save(training / "mirrored.png")
    _noise(2).crop((16, 12, 304, 228)).save(training / "cropped.jpg", quality=60)
    for seed in range(10, 20):
        _noise(seed).save(training / f"other{seed}.png")
    assert "13 images indexed" in run("overlap", "index", "training", "--out", "hashes.parquet")[0]
    for against in ("training", "hashes.parquet"):
        run("overlap", "small", "--out", "sets", "--against", against, "--to", "found")
        page = Path("found/pairs.html").read_text("utf-8")
        assert page.count("data:image/jpeg") == (6 if against == "training" else 3)
        assert page.count("an index has hashes alone") == (0 if against == "training" else 3)
        pairs = pd.read_csv("found/pairs.csv")
        first, second, third = [file.stem for file in sorted(album.glob("images/*/*.jpg"))][:3]
        found = set(pairs[["set_item", "other_item", "evidence"]].itertuples(index=False, name=None))
        assert found == {
            (first, "half.jpg", "hash"),
            (second, "mirrored.png", "mirrored hash"),
            (third, "cropped.jpg", "cropped hash"),
        }


def _texture(seed: int) -> Image.Image:
    """Coarse and fine noise, as photos have."""
    rng = np.random.default_rng(seed)
    layers = [Image.fromarray(rng.uniform(0, 40, (cells, cells)).astype(np.float32)) for cells in (4, 8, 16, 24, 40)]
    total = sum(np.asarray(layer.resize((320, 240), Image.Resampling.BICUBIC)) for layer in layers)
    return Image.fromarray(np.clip(total, 0, 255).astype(np.uint8))


@pytest.mark.thorough
def test_a_copy_with_a_bar_over_it_is_found_by_pdq_alone(run: Run, tmp_path: Path, album: Path) -> None:
    training = tmp_path / "training"
    training.mkdir()
    for seed, file in enumerate(sorted(album.glob("images/*/*.jpg"))[:2]):
        _texture(seed).save(file, "JPEG", quality=95)
    for seed, name in ((0, "bar.jpg"), (1, "mirrored.jpg"), (10, "other.jpg")):
        image = _texture(seed)
        image.paste(0, (0, 228, 320, 240))
        (ImageOps.mirror(image) if seed == 1 else image).save(training / name, quality=60)
    compare = "overlap", "small", "--out", "sets", "--json", "--against"
    assert json.loads(run(*compare, "training")[0])["pairs"] == {}
    assert json.loads(run(*compare, "training", "--hash", "pdq")[0])["pairs"] == {"PDQ": 1, "mirrored PDQ": 1}
    run("overlap", "index", "training", "--out", "plain.parquet")
    wrong = run(*compare, "plain.parquet", "--hash", "pdq", code=1)[1]
    assert "has no PDQ hashes" in " ".join(wrong.split()) and "index the images with it" in " ".join(wrong.split())
    run("overlap", "index", "training", "--out", "pdq.parquet", "--hash", "pdq")
    assert json.loads(run(*compare, "pdq.parquet")[0])["pairs"] == {"PDQ": 1, "mirrored PDQ": 1}


@pytest.mark.thorough
def test_a_set_against_itself_and_captions(run: Run, tmp_path: Path, album: Path) -> None:
    shown = json.loads(run("overlap", "small", "--out", "sets", "--against", "small", "--json")[0])
    assert shown["pairs"] == {"bytes": 4, "text": 4} and shown["leaked"] == 4
    assert shown["images_compared"] == 4
    next(album.glob("images/*/*.jpg")).unlink()
    out, _ = run("overlap", "small", "--out", "sets", "--against", "small")
    assert "3 of 4 images of the set were compared" in out
    assert "without a hash, so that no edited copy is found: 1 whose file in the set was not read" in out
    Path("captions.csv").write_text("id,caption\n1,A DOG wet\n2,a bird\n", "utf-8")
    out, _ = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--page-language", "zh")
    page = Path("sets/small/overlap/v1/pairs.html").read_text("utf-8")
    assert "1 / 4 条泄漏的查询" in page and "a dog, wet" in page and "row 1" in page
    assert "1 of 4 queries are leaked (0 by an image, 1 by the text)" in out and "not searched for" in out
    for name, wrong in (("notes.md", "is no folder, set, index, table"), ("notes.txt", "holds no image")):
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
    assert "1 queries decided to be dropped; next: querytruth apply small" in shown
    warning = "1 query is leaked: another collection (captions.csv) has the same image or text."
    assert f"warning: {warning}" in run("show", "small", "--out", "sets", "--page", "small.html")[0]
    assert warning in Path("small.html").read_text("utf-8")
    again = run("overlap", "small", "--out", "sets", "--against", "captions.csv", "--drop")[0]
    assert "0 queries decided" in again
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
    for text in ("{}", result.read_text("utf-8").replace("{", '{"leaked_queries": [], ', 1)):
        result.write_text(text, "utf-8")
        assert "is damaged" in run("evaluate", "small", "--out", "sets", "--baseline", "oracle", code=1)[1]


@pytest.mark.thorough
def test_shards_are_compared_and_indexed_without_unpacking_them(run: Run, tmp_path: Path, album: Path) -> None:
    files = sorted(album.glob("images/*/*.jpg"))
    (tmp_path / "shards").mkdir()
    for number, file in enumerate(files[:2]):
        members = {f"{number}.jpg": file.read_bytes(), f"{number}.txt": b"A DOG wet", f"{number}.json": b"{}"}
        (tmp_path / f"shards/0{number}.tar").write_bytes(make_tar(members | {"cut.png": b"\x89PNG"}))
    expected = {(files[0].stem, "00.tar/0.jpg"), (files[1].stem, "01.tar/1.jpg")}
    compare = "overlap", "small", "--out", "sets", "--to", "found", "--against"
    for against in ("shards", "shards/{00..01}.tar", "shards/*.tar"):
        _, progress = run(*compare, against)
        assert f"{against}: not compared: not_an_image 2" in " ".join(progress.split())
        pairs = pd.read_csv("found/pairs.csv")
        images = pairs[pairs["kind"] == "image"]
        assert set(images[["set_item", "other_item"]].itertuples(index=False, name=None)) == expected
        assert set(pairs.loc[pairs["kind"] == "text", "other_item"]) == {"00.tar/0", "01.tar/1"}
        assert Path("found/pairs.html").read_text("utf-8").count("data:image/jpeg") == 4
    assert "2 images indexed" in run("overlap", "index", "shards/{00..01}.tar", "--out", "hashes.parquet")[0]
    assert json.loads(run(*compare, "hashes.parquet", "--json")[0])["pairs"] == {"bytes": 2}
    Path("texts.tar").write_bytes(make_tar({"0.json": b'{"caption": "a dog wet"}'}))
    assert json.loads(run(*compare, "texts.tar", "--json")[0])["pairs"] == {"text": 1}
    for name, data, reason in (("cut.tar", b"x" * 512, "cut or damaged"), ("empty.tar", make_tar({}), "no image")):
        Path(name).write_bytes(data)
        assert reason in " ".join(run(*compare, name, code=1)[1].split())


@pytest.mark.thorough
def test_texts_are_compared_by_an_embedder_of_texts(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    Path("captions.csv").write_text('caption\n"a dog, weet"\n"a dog, weet"\nA DOG wet\na bird\n\n', "utf-8")
    compare = "overlap", "small", "--out", "sets", "--against", "captions.csv", "--to", "found"
    options = "--embedder", "char_ngrams", "--min-cosine", "0.6"
    shown = json.loads(run(*compare, *options, "--json")[0])
    assert shown["pairs"] == {"text": 1, "vectors": 2} and shown["leaked"] == 1
    assert shown["embedder"]["min_cosine"] == {"texts": 0.6}
    pairs = pd.read_csv("found/pairs.csv", dtype=str)
    assert pairs["other_item"].tolist() == ["row 3", "row 1", "row 2"]
    assert pairs.loc[pairs["evidence"] == "text", "distance"].tolist() == ["0"]
    assert pairs.loc[pairs["evidence"] == "vectors", "distance"].str.match(r"0\.\d{1,4}$").all()
    assert "with a cosine below 0.6" in run(*compare, *options)[0]
    assert json.loads(run(*compare, "--embedder", "char_ngrams", "--json")[0])["pairs"] == {"text": 1}
    assert "needs an embedder" in run(*compare, "--min-cosine", "0.6", code=1)[1]
    index = "overlap", "index", "sets/small/v1", "--out", "index.parquet", "--embedder"
    assert "reads texts, but no images" in " ".join(run(*index, "char_ngrams", code=1)[1].split())
    chinese = str(save_text_model(tmp_path / "text", alphabet="一"))
    assert "does not know" in " ".join(run(*compare, "--embedder", chinese, code=1)[1].split())
