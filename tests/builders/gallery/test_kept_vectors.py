"""Vectors that are exchanged with a bucket: encoded once, and believed only where they are whole."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.array_types import Vectors
from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.files.parquet_files import write_checked
from querytruth.backends.models.vector_store import VectorStore, is_sound_vector_file
from querytruth.backends.steps import Advance, BuildRun, active_run, keep_work_at
from querytruth.sets.image_vectors import encode_with_cache
from tests.object_service import ObjectService

IDS = [f"img_{number:020}" for number in range(5)]


def encode(work: BucketFolder, folder: Path, ids: list[str]) -> tuple[Vectors, list[str]]:
    """The vectors of the ids on the machine with this folder, and which of them were encoded there."""
    asked: list[str] = []

    def encode_new(new: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        asked.extend(new)
        advance(len(new))
        rows = np.array([[int(one[4:]), 1, 0.5] for one in new], np.float32).reshape(-1, 3)
        return list(range(len(new))), rows

    with active_run(BuildRun()), keep_work_at(work):
        vectors, known = encode_with_cache(ids, 3, encode_new, folder, "a model", "images")
    assert known.all()
    return vectors, asked


@pytest.mark.thorough
def test_another_machine_encodes_only_what_is_new(tmp_path: Path, object_service: ObjectService) -> None:
    work = BucketFolder.parse(f"s3://{object_service.bucket}/work/album")
    first, asked = encode(work, tmp_path / "here", IDS[:3])
    assert asked == IDS[:3]
    second, asked = encode(work, tmp_path / "there", IDS)
    assert asked == IDS[3:] and np.array_equal(second[:3], first)
    object_service.asked.clear()
    third, asked = encode(work, tmp_path / "here", IDS)
    assert asked == [] and np.array_equal(third, second)
    assert sum(method == "GET" and key.endswith(".parquet") for method, key in object_service.asked) == 1


@pytest.mark.thorough
def test_vectors_that_lie_here_are_given_to_the_bucket(tmp_path: Path, object_service: ObjectService) -> None:
    work = BucketFolder.parse(f"s3://{object_service.bucket}/work/album")
    VectorStore(tmp_path / "here", "a model").add(IDS, np.ones((5, 3), np.float32))
    assert encode(work, tmp_path / "here", IDS)[1] == []
    assert encode(work, tmp_path / "there", IDS)[1] == []


@pytest.mark.thorough
def test_damaged_vectors_are_encoded_again(tmp_path: Path, object_service: ObjectService) -> None:
    work = BucketFolder.parse(f"s3://{object_service.bucket}/work/album")
    vectors, _ = encode(work, tmp_path / "here", IDS)
    (key,) = (key for key in object_service.list_keys() if key.endswith(".parquet"))
    object_service.ask("PUT", key, object_service.ask("GET", key)[:-1])
    again, asked = encode(work, tmp_path / "there", IDS)
    assert asked == IDS and np.array_equal(again, vectors)
    assert encode(work, tmp_path / "elsewhere", IDS)[1] == []


def test_a_file_with_other_columns_or_values_holds_no_vectors(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, "a model")
    path = store.add(IDS[:1], np.ones((1, 2), np.float32))
    assert is_sound_vector_file(path)
    whole = pq.read_table(path)
    assert store.add(IDS[:1], np.full((1, 2), np.nan, np.float32)) == path and not is_sound_vector_file(path)
    for table in (whole.select(["vector", "image_id"]), whole.set_column(1, "vector", pa.array(["x"]))):
        write_checked(path, table)
        assert not is_sound_vector_file(path)
    pq.write_table(whole, path)  # without the checksum
    assert not is_sound_vector_file(path)
    path.write_bytes(b"\x80\x04N.")
    assert not is_sound_vector_file(path)
