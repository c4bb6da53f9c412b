"""Parquet files whose sizes are lies, in the footer or in the headers of pages: refused before Arrow allocates."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.backends.files.parquet_files import read_page_headers, read_parquet

ROWS = 40_000_000
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
    assert_refused(tmp_path / "t.parquet", data, "unpacks .* to more than")
    assert_refused(tmp_path / "t.parquet", forge(data, ROWS, 1, in_footer=True), "unpacks .* to more than")


def test_a_row_with_a_list_of_millions_is_refused(tmp_path: Path) -> None:
    data = write(pa.table({"n": pa.ListArray.from_arrays([0, 100_000], np.zeros(100_000, np.int64))}), **ONE_PAGE)
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    assert len(read_parquet(path)["n"][0]) == 100_000
    assert_refused(path, forge(data, 100_000, 1 << 30, in_footer=False), "unpacks .* to more than")


def test_a_page_whose_header_asks_for_two_gigabytes_is_refused(tmp_path: Path) -> None:
    data = write(pa.table({"t": [b"x" * 5000]}), use_dictionary=False, write_statistics=False)
    assert data[4:7] == b"\x15\x00\x15" and data[7] > 127 and data[8] < 128, "two bytes of size"
    forged = data[:7] + varint((1 << 31) - 1) + data[9:]
    assert_refused(tmp_path / "t.parquet", forged, "unpacks 0 KB to more than 2,047 MB")
    assert_refused(tmp_path / "t.parquet", data[:4] + b"\xff" * 16 + data[20:], "without a readable header")


def test_a_dictionary_that_asks_for_gigabytes_of_texts_is_refused(tmp_path: Path) -> None:
    data = write(pa.table({"t": [str(number) for number in range(3000)]}), write_statistics=False)
    forged = forge(data, 3000, 1 << 30, in_footer=False)
    assert_refused(tmp_path / "t.parquet", forged, "unpacks .* to more than 16,384 MB")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", None])
@pytest.mark.parametrize("has_checksums", [False, True])
def test_headers_are_those_that_arrow_writes(version: str, encoding: str | None, has_checksums: bool) -> None:
    texts = [f"text {number}" if number % 3 else None for number in range(5000)]
    table = pa.table({"t": texts, "of": [[text, text] if text else [] for text in texts]})
    options = {"use_dictionary": True} if encoding is None else {"use_dictionary": False, "column_encoding": encoding}
    data = write(table, data_page_version=version, data_page_size=4000, write_page_checksum=has_checksums, **options)
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    for leaf, values in enumerate([5000, sum(2 if text else 1 for text in texts)]):
        chunk = metadata.row_group(0).column(leaf)
        pages = list(read_page_headers(io.BytesIO(data), chunk))
        assert sum(page.values for page in pages if not page.is_dictionary) == chunk.num_values == values
        assert any(page.is_dictionary for page in pages) == (encoding is None)
        assert any(page.is_delta for page in pages) == (encoding == "DELTA_BYTE_ARRAY")
        assert sum(page.stored_size for page in pages) < chunk.total_compressed_size
    assert pq.read_table(io.BytesIO(data)).equals(table)


@pytest.mark.thorough
def test_texts_that_each_repeat_the_one_before_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    texts = ["x" * 1_000_000 + str(number) for number in range(280)]
    delta = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", **ONE_PAGE}
    (tmp_path / "t.parquet").write_bytes(data := write(pa.table({"t": texts}), **delta))
    assert len(data) < 100_000
    with pytest.raises(OSError, match=r"unpacks .* to more than 2\d\d MB"):
        read_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(write(pa.table({"t": texts[:9]}), **delta))
    assert read_parquet(tmp_path / "t.parquet")["t"].to_pylist() == texts[:9]
