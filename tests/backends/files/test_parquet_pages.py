"""Parquet files whose sizes are lies, in the footer or in the headers of pages: refused, and nothing is needed here."""

import gc
import io
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.backends.files import parquet_files
from querytruth.backends.files.parquet_files import iterate_parquet, read_parquet
from querytruth.backends.images import worker_starts
from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.images.worker_starts import WorkerLimits
from tests.images import make_jpeg

ROWS = 40_000_000
IDLE = worker_starts._idle
ONE_PAGE = {"data_page_size": 1 << 30, "max_rows_per_page": ROWS}


def varint(number: int, length: int = 0) -> bytes:
    """A number as Thrift writes it, or with zeros in front of it that no writer makes and every reader accepts."""
    number, data = number << 1, []
    while number >= 128 or len(data) + 1 < length:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def forge(data: bytes, number: int, forged: int, *, in_footer: bool) -> bytes:
    """The file with another number in its footer, or in the headers of its pages."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    pages, footer = data[:start], data[start:]
    assert varint(number) in (footer if in_footer else pages)
    if in_footer:
        return pages + footer.replace(varint(number), varint(forged, len(varint(number))))
    return pages.replace(varint(number), varint(forged)) + footer


def write(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def assert_refused(path: Path, data: bytes, reason: str) -> None:
    path.write_bytes(data)
    before = pa.total_allocated_bytes()
    with pytest.raises(OSError, match=reason):
        read_parquet(path)
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.thorough
def test_millions_of_rows_in_a_few_bytes_are_refused_whatever_the_footer_states(tmp_path: Path) -> None:
    data = write(pa.table({"n": pa.nulls(ROWS, pa.int64())}), row_group_size=ROWS, **ONE_PAGE)
    assert len(data) < 200_000
    assert_refused(tmp_path / "t.parquet", data, "expands .* to more than")
    (tmp_path / "t.parquet").write_bytes(forge(data, ROWS, 1, in_footer=True))
    assert len(read_parquet(tmp_path / "t.parquet")) == 1, "a row is all that it says to have"


def test_a_row_with_a_list_of_millions_is_refused(tmp_path: Path) -> None:
    data = write(pa.table({"n": pa.ListArray.from_arrays([0, 100_000], np.zeros(100_000, np.int64))}), **ONE_PAGE)
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    assert len(read_parquet(path)["n"][0]) == 100_000
    assert_refused(path, forge(data, 100_000, 1 << 30, in_footer=False), "expands .* to more than|end of stream")


def test_a_page_whose_header_asks_for_two_gigabytes_is_refused(tmp_path: Path) -> None:
    data = write(pa.table({"t": [b"x" * 5000]}), use_dictionary=False, write_statistics=False)
    assert data[4:7] == b"\x15\x00\x15" and data[7] > 127 and data[8] < 128, "two bytes of size"
    forged = data[:7] + varint((1 << 31) - 1) + data[9:]
    assert_refused(tmp_path / "t.parquet", forged, "expands .* to more than|end of stream")
    assert_refused(tmp_path / "t.parquet", data[:4] + b"\xff" * 16 + data[20:], "deserialize")


def test_a_dictionary_that_asks_for_gigabytes_of_texts_is_refused(tmp_path: Path) -> None:
    data = write(pa.table({"t": [str(number) for number in range(3000)]}), write_statistics=False)
    forged = forge(data, 3000, 1 << 30, in_footer=False)
    assert_refused(tmp_path / "t.parquet", forged, "expands from 7 KB to more than 2,048 MB")


def test_a_long_text_that_a_small_file_repeats_is_refused_where_it_is_as_long_as_texts_written_out(
    tmp_path: Path,
) -> None:
    column = pa.DictionaryArray.from_arrays(np.zeros(40_000, np.int32), ["x" * 400_000])  # ten bytes a value
    data = write(pa.table({"t": column}), store_schema=False, dictionary_pagesize_limit=1 << 24)
    assert len(data) < 1000
    assert_refused(tmp_path / "t.parquet", data, "expands .* to more than")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", None])
def test_every_encoding_is_read_as_arrow_reads_it(tmp_path: Path, version: str, encoding: str | None) -> None:
    texts = [f"text {number}" if number % 3 else None for number in range(5000)]
    table = pa.table({"t": texts, "of": [[text, text] if text else [] for text in texts]})
    options = {"use_dictionary": True} if encoding is None else {"use_dictionary": False, "column_encoding": encoding}
    (tmp_path / "t.parquet").write_bytes(write(table, data_page_version=version, data_page_size=4000, **options))
    assert read_parquet(tmp_path / "t.parquet").equals(table)
    assert [len(batch) for batch in iterate_parquet(tmp_path / "t.parquet", ["t"], 2000)] == [2000, 2000, 1000]
    with (tmp_path / "t.parquet").open("rb") as file:
        assert sum(len(batch) for batch in iterate_parquet(file)) == 5000


def test_half_a_table_that_is_left_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(write(pa.table({"n": range(9000)})))
    first = iterate_parquet(tmp_path / "t.parquet", rows=100)
    assert len(next(first)) == 100
    assert len(read_parquet(tmp_path / "t.parquet")) == 9000
    assert sum(len(batch) for batch in first) == 8900


@pytest.mark.parametrize(
    ("harm", "reason"), [(signal.SIGSTOP, "took too long"), (signal.SIGSEGV, r"worker crashed \(SIGSEGV\)")]
)
def test_a_worker_that_hangs_or_dies_costs_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: signal.Signals, reason: str
) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(write(pa.table({"n": range(9000)})))
    before = all_workers()
    reading = iterate_parquet(path, rows=100)
    next(reading)
    [worker] = [one for one in all_workers() if one not in before] or [one for one in before if one not in IDLE]
    os.kill(worker._process.pid, harm)
    with monkeypatch.context() as patch, pytest.raises(OSError, match=reason):
        patch.setattr(parquet_files, "_LIMITS", WorkerLimits(seconds=0.5))
        list(reading)
    assert len(read_parquet(path)) == 9000


def all_workers() -> list[worker_starts.WorkerProcess]:
    return [
        one for one in gc.get_objects() if isinstance(one, worker_starts.WorkerProcess) and one._process.poll() is None
    ]


@pytest.mark.thorough
def test_texts_that_each_repeat_the_one_before_are_refused_where_they_are_many(tmp_path: Path) -> None:
    texts = ["x" * 1_000_000 + str(number) for number in range(280)]
    delta = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", **ONE_PAGE}
    (tmp_path / "t.parquet").write_bytes(data := write(pa.table({"t": texts}), **delta))
    assert len(data) < 100_000
    with pytest.raises(OSError, match=r"expands .* to more than"):
        read_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(write(pa.table({"t": texts[:9]}), **delta))
    assert read_parquet(tmp_path / "t.parquet")["t"].to_pylist() == texts[:9]


def test_a_worker_that_has_read_a_table_reads_images_as_before(tmp_path: Path) -> None:
    worker_starts.end_idle_workers()
    (tmp_path / "t.parquet").write_bytes(write(pa.table({"n": range(9000)})))
    (tmp_path / "a.jpg").write_bytes(make_jpeg())
    read_parquet(tmp_path / "t.parquet")
    [image] = map_in_workers(read_image, [str(tmp_path / "a.jpg")])
    assert isinstance(image, ScannedImage) and image.reason is None


@pytest.mark.parametrize("answer", [7, 1 << 40, None, [b""], b"no message of Arrow", b"x" * 999_999])
def test_a_worker_that_answers_something_else_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    (tmp_path / "t.parquet").write_bytes(write(pa.table({"n": range(9000)})))
    reading = iterate_parquet(tmp_path / "t.parquet", rows=100)
    assert len(next(reading)) == 100
    with monkeypatch.context() as patch, pytest.raises((OSError, pa.ArrowInvalid)):
        patch.setattr(worker_starts.WorkerProcess, "receive", lambda _worker, _limits: answer)
        list(reading)
