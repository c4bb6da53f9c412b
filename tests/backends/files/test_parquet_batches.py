"""Columns with a dictionary, from a worker in many batches: each dictionary comes once, and is checked."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.backends.files import parquet_files
from querytruth.backends.files.parquet_batches import ParquetPart, read_part
from querytruth.backends.files.parquet_files import iterate_parquet, read_parquet

ROWS, NAMES = 20_000, [f"img_{n:020x}" for n in range(5_000)]


def write_judgments(path: Path) -> pa.Table:
    codes = pa.array(np.random.default_rng(3).integers(0, len(NAMES), ROWS, dtype=np.int32))
    table = pa.table({"image_id": pa.DictionaryArray.from_arrays(codes, NAMES), "relevance": np.arange(ROWS) % 3})
    pq.write_table(table, path, row_group_size=ROWS // 2)
    return table


def test_twenty_batches_do_not_bring_the_dictionary_twenty_times(tmp_path: Path) -> None:
    table, part = write_judgments(tmp_path / "t.parquet"), ParquetPart("", None, ROWS // 20, 1 << 20, 1 << 30, 0)
    part = part._replace(location=str(tmp_path / "t.parquet"))
    assert isinstance(read_part(part), bytes), "the schema"
    sent = 0
    while data := read_part(part._replace(number=1)):
        sent += len(data)
    assert sent < 2 * table.nbytes


def test_the_table_is_the_one_that_was_written(tmp_path: Path) -> None:
    table = write_judgments(tmp_path / "t.parquet")
    read = read_parquet(tmp_path / "t.parquet")
    assert read.column("image_id").num_chunks == 1
    assert read.to_pydict() == table.to_pydict()
    assert pa.Table.from_batches(iterate_parquet(tmp_path / "t.parquet", rows=999)).to_pydict() == table.to_pydict()


def test_codes_come_in_few_batches_and_texts_in_small_ones(tmp_path: Path) -> None:
    """Arrow takes in a dictionary once for every batch: 24 million judgments of a million images took twice as long."""
    codes = pa.DictionaryArray.from_arrays(pa.array(np.arange(200_000, dtype=np.int32) % 5_000), NAMES)
    for column, batches in ((codes, 1), (codes.dictionary_decode(), 4)):
        pq.write_table(pa.table({"image_id": column}), path := tmp_path / "t.parquet")
        part = ParquetPart(str(path), None, None, 1 << 20, 1 << 30, 0)
        assert isinstance(read_part(part), bytes), "the schema"
        assert len(list(iter(lambda part=part: read_part(part._replace(number=1)), b""))) == batches


def test_a_later_batch_may_not_point_beyond_the_dictionary() -> None:
    """What a worker sends that a file has taken over."""
    sink, stream = pa.BufferOutputStream(), parquet_files._BatchStream()
    known = pa.array(["a", "b"])
    forged = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), known, safe=False)
    writer = pa.ipc.new_stream(sink, pa.schema([("x", forged.type)]))
    written = [0]
    for column in (pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), known), forged):
        writer.write_batch(pa.record_batch([column], ["x"]))
        written.append(sink.tell())
    data = sink.getvalue().to_pybytes()
    assert stream.read(data[: written[1]])["x"].to_pylist() == ["a", "b"]
    with pytest.raises(pa.ArrowInvalid):
        stream.read(data[written[1] : written[2]])
