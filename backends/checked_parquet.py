"""Parquet files that contain a checksum.

The digest of all other bytes is stored between the last page and the footer. Nothing in the file refers to that
position, so every Parquet reader can read the file.
"""

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backends.durable_files import write_atomically

_DIGEST = 32
_TAIL = 8  # bytes: the footer's length, and "PAR1"


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
