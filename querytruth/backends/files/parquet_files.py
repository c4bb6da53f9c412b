"""Parquet files: a stranger's, read in a worker process with little memory and no rights, and ours, with a checksum.

A few megabytes can hold gigabytes: pages compress, a dictionary repeats one long value for millions of rows, a run of
equal values takes a few bytes however long it is. What the file states about this is not to be relied on: the worker
finds out, and where it runs out of memory, or dies, the file is refused.

Our checksum, the digest of all other bytes, is stored between the last page and the footer. Nothing in the file refers
to that position, so every Parquet reader can read the file.
"""

import errno
import hashlib
import io
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querytruth.backends.files.durable_files import file_sha256, write_atomically
from querytruth.backends.files.parquet_batches import ParquetPart, read_part, refuse_size
from querytruth.backends.files.safe_paths import contained_file, open_regular, read_regular
from querytruth.backends.images.worker_main import WorkerJob, limit_rights
from querytruth.backends.images.worker_starts import WorkerFailure, WorkerLimits, keep_worker, start_worker
from querytruth.errors import UserError, translate_read_errors

_SMALL_TABLE = 256 << 20  # bytes in memory that any file may have
_EXPANSION = 200  # bytes in memory for each byte of a larger file
_LARGEST_TABLE = 16 << 30
_LIMITS = WorkerLimits(seconds=120.0, memory=2 << 30)  # of a batch, which is in memory several times
_BATCH_ROWS = 1 << 16
_DIGEST = 32
_TAIL = 8  # bytes: the footer's length, and "PAR1"


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table of a regular file, or these columns of it. Raises OSError, also for a table that is too large
    for its file, and pa.ArrowException."""
    schema, *batches = _read_parts(path, columns, None)
    if not batches:
        table = schema.empty_table()
        return table if columns is None else table.select(list(columns))
    return _join_codes(pa.Table.from_batches(batches))


def _join_codes(table: pa.Table) -> pa.Table:
    """Return the table with dictionary columns in one chunk: others compare a million texts for each."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field, table.column(place).combine_chunks())
    return table


def read_stated_table(
    folder: Path, name: str, sha256: str, stage: str, next_step: str, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the table of a file below a folder, or these columns of it, and check the digest that a manifest states.
    Raises UserError if the file is missing, is outside the folder, has other bytes, or is not such a table."""
    file = contained_file(folder, name, stage)
    with translate_read_errors(stage, file, next_step, also=(pa.ArrowException, KeyError)):
        _check_digest(file_sha256(file)[0], sha256, file, stage, next_step)
        return read_parquet(file, columns)


def read_own_table(folder: Path, name: str, sha256: str, stage: str, next_step: str) -> pa.Table:
    """Return what `read_stated_table` does, several times as fast, of a table that this user wrote: `sha256` is known
    to be that of its bytes, so no worker needs to stand between. Raises UserError for other bytes."""
    file = contained_file(folder, name, stage)
    with translate_read_errors(stage, file, next_step, also=(pa.ArrowException,)):
        data = read_regular(file, _LARGEST_TABLE)  # what is decoded is what was compared
        _check_digest(hashlib.sha256(data).hexdigest(), sha256, file, stage, next_step)
        return _join_codes(pq.ParquetFile(pa.BufferReader(data)).read())


def _check_digest(digest: str, sha256: str, file: Path, stage: str, next_step: str) -> None:
    if digest != sha256:
        raise UserError(stage, file, "is damaged: its checksum does not match", next_step)


def encode_readable(table: pa.Table, **options: Any) -> pa.Buffer:
    """Return the table as a file by the options of Arrow; without compression where it repeats so much that
    `read_parquet` would take the file for one that is made to fill the memory. Raises OSError for a table that no file
    may hold."""
    for more in ({}, {"compression": "none", "use_dictionary": False}):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, **options | more)
        data = sink.getvalue()
        if 4 * table.nbytes <= _most_bytes(data.size):  # readers count up to 16 bytes for a short text
            return data
    refuse_size(table.nbytes, data.size, _most_bytes(data.size))
    return data


def read_parquet_schema(source: Path | BinaryIO) -> pa.Schema:
    """Return the schema of a regular file or an open one. Raises OSError and pa.ArrowException."""
    return next(_read_parts(source, None, _BATCH_ROWS))


def iterate_parquet(
    source: Path | BinaryIO, columns: Sequence[str] | None = None, rows: int = _BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a regular file or an open one, or these columns of it, in batches of at most `rows`. Raises
    OSError, also for a table that is too large for its file, and pa.ArrowException."""
    parts = _read_parts(source, columns, rows)
    next(parts)
    yield from parts


def _read_parts(source: Path | BinaryIO, columns: Sequence[str] | None, rows: int | None) -> Iterator[Any]:
    """Yield the schema, then the batches: a worker reads one ahead of the caller."""
    with on_disk(source) as path:
        with open_regular(path) as file:
            size = file.seek(0, 2)
        part = ParquetPart(str(path), None if columns is None else list(columns), rows, size, _most_bytes(size), 0)
        worker = start_worker(WorkerJob(read_part, None, _LIMITS.memory, limit_rights(read_part, None, False)))
        if isinstance(worker, WorkerFailure):
            raise OSError(errno.EAGAIN, f"no worker process could be started to read it ({worker.detail})")
        waiting = 0

        def ask(number: int) -> None:
            nonlocal waiting
            worker.send_items([part._replace(number=number)], 1)
            waiting += 1

        def receive() -> bytes:
            nonlocal waiting
            answer = worker.receive(_LIMITS)
            if isinstance(answer, WorkerFailure):
                raise _as_error(answer, size)
            waiting -= 1
            if isinstance(answer, str):
                raise pa.ArrowInvalid(answer)
            if not isinstance(answer, bytes):  # whatever the file has made of the worker
                raise OSError(errno.EINVAL, "cannot be read: the worker sent an unexpected answer")
            return answer

        try:
            ask(0)
            yield pa.ipc.read_schema(pa.py_buffer(receive()))
            ask(1)
            ask(2)
            number, total, stream = 2, 0, _BatchStream()
            while data := receive():
                number += 1
                ask(number)
                total += len(data)
                refuse_size(total, size, 2 * part.most)  # with what Arrow puts around a batch
                yield stream.read(data)
            receive()
            ask(-1)
            receive()
        finally:
            keep_worker(worker) if not waiting else worker.end()


class _BatchStream:
    """The batches of one file as a worker streams them. Each is checked (texts are UTF-8, for one), and a dictionary
    once, however many batches share it."""

    def __init__(self) -> None:
        self._data = io.BytesIO()
        self._reader: pa.RecordBatchStreamReader | None = None
        self._checked: dict[int, pa.Array] = {}  # the last dictionary by column; kept, so that its memory stays its own

    def read(self, data: bytes) -> pa.RecordBatch:
        """Return the next batch. Raises pa.ArrowException."""
        self._data.seek(self._data.truncate(0))
        self._data.write(data)
        self._data.seek(0)
        self._reader = self._reader or pa.ipc.open_stream(pa.PythonFile(self._data, mode="r"))
        batch = self._reader.read_next_batch()
        for place, column in enumerate(batch.columns):
            known = self._checked.get(place)
            if not pa.types.is_dictionary(column.type):
                column.validate(full=True)
            elif known is None or not _is_same_memory(known, column.dictionary):
                column.validate(full=True)
                self._checked[place] = column.dictionary
            else:
                column.indices.validate(full=True)
                span = pc.min_max(column.indices).as_py()
                if span["max"] is not None and not 0 <= span["min"] <= span["max"] < len(known):
                    raise pa.ArrowInvalid("a value is not in its dictionary")
        return batch


def _is_same_memory(first: pa.Array, second: pa.Array) -> bool:
    places = [[buffer and buffer.address for buffer in one.buffers()] for one in (first, second)]
    return len(first) == len(second) and first.offset == second.offset and places[0] == places[1]


def _as_error(failure: WorkerFailure, size: int) -> OSError:
    if failure.reason == "out_of_memory":
        return OSError(errno.EFBIG, f"expands from {size >> 10:,} KB to more than {_LIMITS.memory >> 20:,} MB")
    return OSError(errno.EINVAL, f"cannot be read: {failure.reason.replace('_', ' ')} ({failure.detail})")


def _most_bytes(size: int) -> int:
    """Return the bytes in memory that a file of `size` bytes may have."""
    return min(max(_SMALL_TABLE, _EXPANSION * size), _LARGEST_TABLE)


@contextmanager
def on_disk(source: Path | BinaryIO) -> Iterator[Path]:
    """Yield the path of a file, or that of a copy of what is open."""
    if isinstance(source, Path):
        yield source
        return
    source.seek(0)  # where its columns were read before
    with tempfile.NamedTemporaryFile(prefix="querytruth-") as copy:
        shutil.copyfileobj(source, copy)
        copy.flush()
        yield Path(copy.name)


def write_checked(path: Path, table: pa.Table) -> None:
    """Replace the file with the table, atomically."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue()
    footer = _footer_at(data)
    write_atomically(path, data[:footer] + _digest(data[:footer], data[footer:]) + data[footer:])


def read_checked(path: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """Return the table, or the given columns of it; None where the file is missing or damaged."""
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
