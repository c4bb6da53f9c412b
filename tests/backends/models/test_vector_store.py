"""Vectors are computed once: what was kept comes back, a damaged file costs its own vectors alone."""

from pathlib import Path

import numpy as np
import pytest

from querytruth.backends.models.vector_store import VectorStore


def test_what_is_kept_comes_back_in_the_order_asked_for(tmp_path: Path) -> None:
    vectors = np.eye(4, dtype=np.float32)
    store = VectorStore(tmp_path, "model@1")
    store.add(["img_a", "img_b"], vectors[:2])
    store.add(["img_c", "img_d"], vectors[2:])
    found, known = VectorStore(tmp_path, "model@1").read(["img_d", "img_x", "img_a"], 4)
    assert known.tolist() == [True, False, True]
    assert np.array_equal(found[known], vectors[[3, 0]])


def test_another_model_knows_nothing_of_them(tmp_path: Path) -> None:
    VectorStore(tmp_path, "model@1").add(["img_a"], np.ones((1, 4), np.float32))
    assert not VectorStore(tmp_path, "model@2").read(["img_a"], 4)[1].any()
    assert not VectorStore(tmp_path, "model@1").read(["img_a"], 8)[1].any(), "vectors of another length"


@pytest.mark.thorough
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, "model@1")
    store.add(["img_a"], np.ones((1, 4), np.float32))
    store.add(["img_b"], np.ones((1, 4), np.float32))
    path = min(tmp_path.rglob("*.parquet"))
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    assert store.read(["img_a", "img_b"], 4)[1].sum() == 1
