"""Parquet files from outside: read only as far as they do not fill the memory.

A few megabytes can hold gigabytes: pages compress, a dictionary repeats one long value for millions of rows, a run of
equal values takes a few bytes however long it is. What the footer states about this is not to be relied on.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backends.parquet_pages import PageHeader, read_page_headers
from backends.regular_files import open_regular

_SMALL_TABLE = 256 << 20  # bytes in memory that any file may have
_EXPANSION = 200  # bytes in memory for each byte of a larger file
_LARGEST_TABLE = 16 << 30
_MAX_COLUMNS = 1000
_BATCH_ROWS = 1 << 16
_BUFFER = 1 << 20
_DELTA_BYTES = 64 << 20  # of a batch whose values may each be as long as their page
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}


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
