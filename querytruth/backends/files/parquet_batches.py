"""The part of a worker process that reads an untrusted Parquet file, one batch after the other.

The file stays open between two batches. The length of repeated texts is known before they are expanded; the worker's
memory limit stops any other expansion.
"""

import errno
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querytruth.backends.images.worker_messages import open_file

_MAX_COLUMNS = 1000
_BUFFER = 1 << 20
_BYTES_WRITTEN_OUT = 8  # a value; a code takes up to 4, and a text that is written out has 4 more than its own
_ROWS, _CODES = 1 << 16, 1 << 22  # of a batch
_open: dict[str, Iterator[bytes]] = {}


class ParquetPart(NamedTuple):
    """A part of a file of `size` bytes: number 0 is the schema, then come batches of at most `rows` rows (None: as many
    as fit in little memory) of these columns (None: all), of `most` bytes at most. After the last, and for -1, there is
    no part."""

    location: str
    columns: Sequence[str] | None
    rows: int | None
    size: int
    most: int
    number: int


def read_part(part: ParquetPart) -> bytes | str:
    """Return the next part of a stream as Arrow writes it between processes, a dictionary once, b"" after the last, or
    why the file cannot be read. Raises OSError for one that is too large."""
    if part.number <= 0:
        _open.clear()
    if part.number == 0:
        _open[""] = _iterate(part)
    try:
        return next(_open.get("", iter(())), b"")
    except MemoryError:  # of Arrow's, too
        _open.clear()
        raise
    except (pa.ArrowException, UnicodeDecodeError) as error:  # a name that is not UTF-8, for one
        return str(error)


def _iterate(part: ParquetPart) -> Iterator[bytes]:
    with open(open_file(part.location, 0), "rb") as opened:  # noqa: PTH123 - a descriptor
        with pq.ParquetFile(opened) as file:
            metadata = file.metadata
            if metadata.num_columns > _MAX_COLUMNS:
                raise OSError(errno.EFBIG, f"has {metadata.num_columns} columns, more than {_MAX_COLUMNS}")
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            refuse_size(max(sum(group.total_byte_size for group in groups), metadata.num_rows), part.size, part.most)
            schema, columns = file.schema_arrow, part.columns
            leaves = [file.schema.column(number) for number in range(len(file.schema))]
            chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
            plain_texts = {chunk.path_in_schema for chunk in chunks if "DELTA_" in str(chunk.encodings)}
            plain_texts |= _written_out(chunks) - {one.name for one in schema if pa.types.is_dictionary(one.type)}
        yield schema.serialize().to_pybytes()
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.path not in plain_texts]
        rows = _small_batch(schema) if part.rows is None else part.rows
        names = None if columns is None else list(columns)
        with pq.ParquetFile(opened, read_dictionary=texts, buffer_size=_BUFFER) as file:
            total, sink, stream = 0, io.BytesIO(), None
            for group in range(file.num_row_groups):  # with all groups at once, Arrow holds all of them
                for batch in file.iter_batches(rows, [group], names, use_threads=False):
                    total += sum(_decoded_bytes(column) for column in batch.columns)
                    refuse_size(total, part.size, part.most)
                    plain = batch.cast(pa.schema([schema.field(name) for name in batch.schema.names], schema.metadata))
                    stream = stream or pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), plain.schema)
                    stream.write_batch(plain)
                    yield sink.getvalue()
                    sink.seek(sink.truncate(0))


def _written_out(chunks: Sequence[pq.ColumnChunkMetaData]) -> set[str]:
    """Return the columns with eight bytes a value and more: most values are written out, and to look each of them up
    takes several times as long as to read it."""
    size, values = Counter[str](), Counter[str]()
    for chunk in chunks:
        size[chunk.path_in_schema] += chunk.total_uncompressed_size
        values[chunk.path_in_schema] += chunk.num_values
    return {path for path in size if size[path] >= _BYTES_WRITTEN_OUT * values[path]}


def _small_batch(schema: pa.Schema) -> int:
    """Return how many rows are small in memory. Arrow takes in the dictionary of a column once for every batch, so a
    table of codes, however long its texts are, comes in few."""
    is_coded = all(pa.types.is_dictionary(kind) or pa.types.is_primitive(kind) for kind in schema.types)
    return max(_ROWS, _CODES // max(1, len(schema))) if is_coded else _ROWS


def _decoded_bytes(column: pa.Array) -> int:
    """Return the bytes of a column without dictionaries, also in its structs and lists."""
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(_decoded_bytes(field) for field in column.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _decoded_bytes(column.flatten()) + 8 * len(column)
    if not pa.types.is_dictionary(kind):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(lengths).as_py() or 0) + 8 * len(column)


def refuse_size(in_memory: int, size: int, most: int) -> None:
    """Raise OSError for a file of `size` bytes that unpacks to more than `most`."""
    if in_memory > most:
        raise OSError(errno.EFBIG, f"expands from {size >> 10:,} KB to more than {in_memory >> 20:,} MB")
