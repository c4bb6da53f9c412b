"""Parquet files from outside: read only as far as they do not fill the memory.

A few megabytes can hold gigabytes: pages compress, and a dictionary repeats one long value for millions of rows.
"""

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backends.regular_files import open_regular

_SMALL_TABLE = 256 << 20  # bytes in memory that any file may have
_EXPANSION = 200  # bytes in memory for each byte of a larger file
_LARGEST_TABLE = 16 << 30
_MAX_COLUMNS = 1000
_BATCH_ROWS = 1 << 16


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the table of a regular file, or these columns of it. Raises OSError, also for a table that is too large
    for its file, and pa.ArrowException."""
    with open_regular(path) as opened:
        size = opened.seek(0, 2)
    with pq.ParquetFile(path) as file:
        check_parquet_size(file, size)
        schema = file.schema_arrow
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        names = None if columns is None else list(columns)
        batches = list(_check_batches(file.iter_batches(_BATCH_ROWS, columns=names), size))
        encoded = pa.Table.from_batches(batches, batches[0].schema) if batches else file.read(names)
    fields = [schema.field(name) for name in encoded.column_names]
    return encoded.cast(pa.schema(fields, schema.metadata))


def check_parquet_size(file: pq.ParquetFile, size: int) -> None:
    """Raises OSError where the columns of a file of `size` bytes are too many or unpack to too much."""
    metadata = file.metadata
    if metadata.num_columns > _MAX_COLUMNS:
        raise OSError(errno.EFBIG, f"has {metadata.num_columns} columns, more than {_MAX_COLUMNS}")
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    _check_size(max(sum(group.total_byte_size for group in groups), metadata.num_rows), size)


def _check_batches(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    total = 0
    for batch in batches:
        total += sum(_decoded_bytes(column) for column in batch.columns)
        _check_size(total, size)
        yield batch


def _decoded_bytes(column: pa.Array) -> int:
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(lengths).as_py() or 0) + 8 * len(column)


def _check_size(in_memory: int, size: int) -> None:
    if in_memory > min(max(_SMALL_TABLE, _EXPANSION * size), _LARGEST_TABLE):
        raise OSError(errno.EFBIG, f"unpacks {size >> 10:,} KB to more than {in_memory >> 20:,} MB")
