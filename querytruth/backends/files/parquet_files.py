"""Parquet files from outside: read only as far as they do not fill the memory.

A few megabytes can hold gigabytes: pages compress, a dictionary repeats one long value for millions of rows, a run of
equal values takes a few bytes however long it is. What the footer states about this is not to be relied on.

The headers of the pages of a Parquet file, which state what the pages unpack to.

The footer states sums, too, but nothing holds a file to them: Arrow allocates what a page's own header asks for. The
headers are in Thrift's compact protocol: https://github.com/apache/parquet-format, PageHeader.

Parquet files that contain a checksum.

The digest of all other bytes is stored between the last page and the footer. Nothing in the file refers to that
position, so every Parquet reader can read the file.
"""

import errno
import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.safe_paths import open_regular

_HEADER_BYTES = (1 << 12, 1 << 20)  # read at first, and at most
_DICTIONARY = 2  # a type of page
_DELTA_STRINGS = 7  # an encoding: values repeat the start of the value before
_MAX_NESTING = 8
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12  # types of the protocol
_PAGE_TYPE, _SIZE, _STORED_SIZE, _DATA, _DICTIONARY_DATA, _DATA_V2 = 1, 2, 3, 5, 7, 8  # fields of PageHeader
_VALUES, _ENCODING, _ENCODING_V2 = 1, 2, 4  # fields of its structs

_Struct = dict[int, Any]
_SMALL_TABLE = 256 << 20  # bytes in memory that any file may have
_EXPANSION = 200  # bytes in memory for each byte of a larger file
_LARGEST_TABLE = 16 << 30
_MAX_COLUMNS = 1000
_BATCH_ROWS = 1 << 16
_BUFFER = 1 << 20
_DELTA_BYTES = 64 << 20  # of a batch whose values may each be as long as their page
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
_DIGEST = 32
_TAIL = 8  # bytes: the footer's length, and "PAR1"


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a page states: its bytes unpacked (`size`) and in the file, and its number of values, nulls too;
    `is_delta`: whether a value may repeat the one before, and so be as long as the page."""

    size: int
    stored_size: int
    values: int
    is_dictionary: bool
    is_delta: bool


def read_page_headers(file: BinaryIO, chunk: Any) -> Iterator[PageHeader]:
    """Yields the headers that Arrow follows in a column chunk (pyarrow's ColumnChunkMetaData) of a file. Raises OSError
    for one that cannot be read, or that lies outside the file."""
    end, seen = file.seek(0, os.SEEK_END), 0
    start = cast(int, chunk.data_page_offset)
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    while seen < chunk.num_values:
        if not 0 < start < end:
            raise OSError(errno.EINVAL, "names a page outside the file")
        length, header = _read_header(file, start)
        yield header
        seen += 0 if header.is_dictionary else header.values
        start += length + header.stored_size


def _read_header(file: BinaryIO, start: int) -> tuple[int, PageHeader]:
    """Returns the length of the header at an offset, and what it states."""
    for size in _HEADER_BYTES:
        file.seek(start)
        reader = _CompactReader(file.read(size))
        try:
            fields = reader.read_struct(_MAX_NESTING)
            header = _describe(fields)
        except IndexError:
            continue
        except (KeyError, TypeError, ValueError):
            break
        return reader.place, header
    raise OSError(errno.EINVAL, "has a page without a readable header")


def _describe(fields: _Struct) -> PageHeader:
    is_dictionary = fields[_PAGE_TYPE] == _DICTIONARY
    if is_dictionary:
        data, encoding = fields[_DICTIONARY_DATA], _ENCODING
    elif _DATA in fields:
        data, encoding = fields[_DATA], _ENCODING
    elif _DATA_V2 in fields:
        data, encoding = fields[_DATA_V2], _ENCODING_V2
    else:  # a page of an index, which Arrow skips
        data, encoding = {_VALUES: 0, _ENCODING: 0}, _ENCODING
    sizes = int(fields[_SIZE]), int(fields[_STORED_SIZE]), int(data[_VALUES])
    if min(sizes) < 0:
        raise ValueError
    return PageHeader(*sizes, is_dictionary, data[encoding] == _DELTA_STRINGS)


class _CompactReader:
    """Reads structs of Thrift's compact protocol. Raises IndexError at the end of the bytes, ValueError for what is
    none."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def read_struct(self, depth: int) -> _Struct:
        """Returns integers and structs by the number of their field; other values are skipped."""
        fields, number = _Struct(), 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._zigzag()
            value = self._value(kind, depth, in_list=False)
            if value is not None:
                fields[number] = value
        return fields

    def _value(self, kind: int, depth: int, *, in_list: bool) -> Any:
        if not depth:
            raise ValueError
        if kind in (_TRUE, _FALSE):
            self.place += in_list
        elif kind == _BYTE:
            self.place += 1
        elif _BYTE < kind < _DOUBLE:
            return self._zigzag()
        elif kind in (_DOUBLE, _BINARY):
            length = 8 if kind == _DOUBLE else self._varint()
            self.place += length
        elif kind in (_LIST, _SET):
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._value(head & 15, depth - 1, in_list=True)
                self._check_end()
        elif kind == _STRUCT:
            return self.read_struct(depth - 1)
        else:
            raise ValueError
        self._check_end()
        return None

    def _check_end(self) -> None:
        if self.place > len(self.data):
            raise IndexError

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the table of a regular file, or these columns of it. Raises OSError, also for a table that is too large
    for its file, and pa.ArrowException."""
    batches = list(iterate_parquet(path, columns))
    if batches:
        return pa.Table.from_batches(batches)
    table = read_parquet_schema(path).empty_table()
    return table if columns is None else table.select(list(columns))


def write_readable(file: BinaryIO, table: pa.Table, **options: Any) -> None:
    """Writes a table by the options of Arrow; without compression where it repeats so much that `read_parquet` would
    take the file for one that is made to fill the memory. Raises OSError for a table that no file may hold."""
    pq.write_table(table, file, **options)
    if 4 * table.nbytes <= max(_SMALL_TABLE, _EXPANSION * file.tell()):  # readers count up to 16 bytes for a short text
        return
    file.seek(0)
    file.truncate()
    pq.write_table(table, file, **{**options, "compression": "none", "use_dictionary": False})
    _check_size(table.nbytes, file.tell())


def read_parquet_schema(source: Path | BinaryIO) -> pa.Schema:
    """Returns the schema of a regular file or an open one. Raises OSError and pa.ArrowException."""
    with (
        _translate_text_errors(),
        open_regular(source) if isinstance(source, Path) else nullcontext(source) as opened,
        pq.ParquetFile(opened) as file,
    ):
        return file.schema_arrow


def iterate_parquet(
    source: Path | BinaryIO, columns: Sequence[str] | None = None, rows: int = _BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a regular file or an open one, or these columns of it, in batches of at most `rows`. Raises
    OSError, also for a table that is too large for its file, and pa.ArrowException."""
    with (
        _translate_text_errors(),
        open_regular(source) if isinstance(source, Path) else nullcontext(source) as opened,
    ):
        size = opened.seek(0, 2)
        with pq.ParquetFile(opened) as file:
            _check_metadata(file, size)
            delta, rows = _check_pages(opened, file, size, columns, rows)
            schema = file.schema_arrow
            leaves = [file.schema.column(number) for number in range(len(file.schema))]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.path not in delta]
        with pq.ParquetFile(opened, read_dictionary=texts, buffer_size=_BUFFER) as file:
            total, names = 0, None if columns is None else list(columns)
            for group in range(file.num_row_groups):  # with all groups at once, Arrow holds all of them
                for batch in file.iter_batches(rows, [group], names):
                    total += sum(_decoded_bytes(column) for column in batch.columns)
                    _check_size(total, size)
                    fields = [schema.field(name) for name in batch.schema.names]
                    plain = batch.cast(pa.schema(fields, schema.metadata))
                    plain.validate(full=True)  # texts are UTF-8, for one
                    yield plain


@contextmanager
def _translate_text_errors() -> Iterator[None]:
    """Raises pa.ArrowInvalid for a name of a column that is not UTF-8."""
    try:
        yield
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("a name in it is not UTF-8") from None


def _check_metadata(file: pq.ParquetFile, size: int) -> None:
    """Raises OSError where the columns of a file of `size` bytes are too many or unpack to too much."""
    metadata = file.metadata
    if metadata.num_columns > _MAX_COLUMNS:
        raise OSError(errno.EFBIG, f"has {metadata.num_columns} columns, more than {_MAX_COLUMNS}")
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    _check_size(max(sum(group.total_byte_size for group in groups), metadata.num_rows), size)


def _check_pages(
    opened: BinaryIO, file: pq.ParquetFile, size: int, columns: Sequence[str] | None, rows: int
) -> tuple[set[str], int]:
    """Returns the columns whose values repeat the ones before, which Arrow cannot read as dictionaries, and of how many
    rows a batch may be, at most `rows`. Raises OSError where the pages of the columns (None: of all) unpack to too much
    by their own headers."""
    total, metadata, delta = 0, file.metadata, set[str]()
    for leaf in range(metadata.num_columns):
        column = file.schema.column(leaf)
        if columns is not None and column.path.partition(".")[0] not in columns:
            continue
        width = _WIDTHS.get(column.physical_type) or max(1, column.length)
        for group in range(metadata.num_row_groups):
            for page in read_page_headers(opened, metadata.row_group(group).column(leaf)):
                total += _page_bytes(page, width)
                _check_size(total, size)
                if page.is_delta:
                    delta.add(column.path)
                    rows = max(1, min(rows, _DELTA_BYTES // max(1, page.size)))
    return delta, rows


def _page_bytes(page: PageHeader, width: int) -> int:
    """Returns the memory that a page needs at least. Texts of a dictionary take 16 bytes beside their own."""
    return page.size + 16 * page.values if page.is_dictionary else max(page.size, page.values * width)


def _decoded_bytes(column: pa.Array) -> int:
    """Returns the bytes of a column without dictionaries, also in its structs and lists."""
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(_decoded_bytes(field) for field in column.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _decoded_bytes(column.flatten()) + 8 * len(column)
    if not pa.types.is_dictionary(kind):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(lengths).as_py() or 0) + 8 * len(column)


def _check_size(in_memory: int, size: int) -> None:
    if in_memory > min(max(_SMALL_TABLE, _EXPANSION * size), _LARGEST_TABLE):
        raise OSError(errno.EFBIG, f"unpacks {size >> 10:,} KB to more than {in_memory >> 20:,} MB")


def write_checked(path: Path, table: pa.Table) -> None:
    """Replaces the file with the table, atomically."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue()
    footer = _footer_at(data)
    write_atomically(path, data[:footer] + _digest(data[:footer], data[footer:]) + data[footer:])


def read_checked(path: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """Returns the table, or the given columns of it; None where the file is missing or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    footer = _footer_at(data)
    pages = footer - _DIGEST
    if pages < 0 or data[pages:footer] != _digest(data[:pages], data[footer:]):
        return None
    file = pq.ParquetFile(pa.BufferReader(data))
    return file.read(None if columns is None else list(columns), use_threads=False)


def _footer_at(data: bytes) -> int:
    return len(data) - _TAIL - int.from_bytes(data[-_TAIL:-4], "little")


def _digest(pages: bytes, footer: bytes) -> bytes:
    digest = hashlib.sha256(pages)
    digest.update(footer)
    return digest.digest()
