"""Vectors and decoded images on disk: what was kept comes back, whole or not at all."""

import os
from pathlib import Path

import numpy as np
import pytest

from querytruth.backends.models.vector_store import VectorStore, open_pixels, write_pixels


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


KNOWN = np.array([True, False, True])


def test_what_was_filled_in_is_mapped_again(tmp_path: Path) -> None:
    def fill(rows: np.ndarray) -> np.ndarray:
        rows[:] = np.arange(3, dtype=np.uint8)[:, None, None, None]
        return KNOWN

    assert open_pixels(tmp_path / "kept", "small") is None
    write_pixels(tmp_path / "kept", "small", (3, 4, 4, 3), fill)
    found = open_pixels(tmp_path / "kept", "small")
    assert found is not None and found[0].shape == (3, 4, 4, 3) and isinstance(found[0], np.memmap)
    assert found[0][2].min() == found[0][2].max() == 2 and np.array_equal(found[1], KNOWN)
    assert open_pixels(tmp_path / "kept", "other") is None
    with pytest.raises(ValueError, match="read-only"):
        found[0][0] = 1


@pytest.mark.thorough
def test_what_was_not_filled_to_the_end_is_not_there(tmp_path: Path) -> None:
    def fill(rows: np.ndarray) -> np.ndarray:
        rows[0] = 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pixels(tmp_path, "small", (3, 4, 4, 3), fill)
    assert open_pixels(tmp_path, "small") is None and not list(tmp_path.iterdir())


def test_images_are_waited_for_before_they_take_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    write_pixels(tmp_path, "small", (3, 4, 4, 3), lambda _rows: KNOWN)
    assert synced == [(tmp_path / name).stat().st_ino for name in ("small-known.npy", "small.npy")]
