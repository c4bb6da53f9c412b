"""A Parquet file that knows whether it is whole."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.backends.files.parquet_files import read_checked, write_checked

TABLE = pa.table({"item": ["a", "b", None], "size": [1, 2, 3], "turned": [[1, 2], None, [3]]})


def test_what_is_written_is_read_back_and_any_reader_reads_it(tmp_path: Path) -> None:
    write_checked(tmp_path / "a.parquet", TABLE)
    assert read_checked(tmp_path / "a.parquet") == TABLE == pq.read_table(tmp_path / "a.parquet")
    assert read_checked(tmp_path / "a.parquet", ["size"]) == TABLE.select(["size"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_no_damage_goes_unseen(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_checked(path, TABLE)
    whole = path.read_bytes()
    bits = random.Random(7)
    for place in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bits.randrange(8)
        path.write_bytes(flipped)
        assert read_checked(path) is None, place
    for length in range(0, len(whole), 17):
        path.write_bytes(whole[:length])
        assert read_checked(path) is None, length
    path.write_bytes(whole + b"\x00")
    assert read_checked(path) is None


@pytest.mark.parametrize("name", ["gone.parquet", "gone/a.parquet"])
@pytest.mark.thorough
def test_a_file_that_is_not_there_is_no_table(tmp_path: Path, name: str) -> None:
    assert read_checked(tmp_path / name) is None
