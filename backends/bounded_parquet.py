"""Parquet files from outside: read only as far as they do not fill the memory.

A few megabytes can hold gigabytes: pages compress, and a dictionary repeats one long value for millions of rows.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backends.regular_files import open_regular

_SMALL_TABLE = 256 << 20  # bytes in memory that any file may have
_EXPANSION = 200  # bytes in memory for each byte of a larger file
_LARGEST_TABLE = 16 << 30
_MAX_COLUMNS = 1000
_BATCH_ROWS = 1 << 16
_BUFFER = 1 << 20


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the table of a regular file, or these columns of it. Raises OSError, also for a table that is too large
    for its file, and pa.ArrowException."""
    batches = list(iterate_parquet(path, columns))
    if batches:
        return pa.Table.from_batches(batches)
    table = read_parquet_schema(path).empty_table()
    return table if columns is None else table.select(list(columns))


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
            schema = file.schema_arrow
            leaves = [file.schema.column(number) for number in range(len(file.schema))]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
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
