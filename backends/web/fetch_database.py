"""The store's SQLite database: durable, and with the writes of many threads in one transaction."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backends.durable_files import make_durable_folder
from backends.web.web_records import StoreWriteError

Statement = tuple[str, tuple[Any, ...]]
_BUSY_SECONDS = 60
_AT_ONCE = 500  # keys in one statement


class FetchDatabase:
    """One connection for all threads; `tables` is the SQL that creates the tables, before the first write."""

    def __init__(self, path: Path, tables: str) -> None:
        self._path, self._tables = path, tables
        self._lock, self._waiting_lock = threading.RLock(), threading.Lock()
        self._waiting: list[Statement] = []
        self._written, self._taken = 0, 0
        self._connection: sqlite3.Connection | None = None

    def read(self, query: str, keys: Sequence[str], *values: str) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a query with `values`, which ends with a column `in` the keys; none where there is no
        database yet. Raises StoreWriteError."""
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            with self._lock:
                if self._connection is None and not self._path.exists():
                    return
                with translate_write_errors():
                    rows = self._opened().execute(f"{query} ({','.join('?' * len(some))})", [*values, *some]).fetchall()
            yield from rows

    def write(self, statements: Sequence[Statement]) -> None:
        """Writes the statements, together with those of waiting threads; they are on disk when the call returns."""
        with self._waiting_lock:
            self._waiting += statements
            self._taken += len(statements)
            mine = self._taken
        with self._lock:
            if self._written >= mine:
                return
            with self._waiting_lock:
                batch, self._waiting = self._waiting, []
            try:
                connection = self._opened()
                with connection:
                    connection.execute("begin immediate")
                    for statement, row in batch:
                        connection.execute(statement, row)
            except BaseException:
                with self._waiting_lock:  # the waiting threads try again and get the error, too
                    self._waiting[:0] = batch
                raise
            self._written += len(batch)

    def close(self) -> None:
        """Closes the connection; the next call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            make_durable_folder(self._path.parent)
            options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
            self._connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, **options)
            for pragma in ("journal_mode=wal", "synchronous=full"):
                self._connection.execute(f"pragma {pragma}")
            self._connection.executescript(self._tables)
        return self._connection


@contextmanager
def translate_write_errors() -> Iterator[None]:
    """Raises StoreWriteError with the system's message for a full disk or a read-only folder."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreWriteError(str(error)) from error
    except OSError as error:
        raise StoreWriteError(error.strerror or str(error)) from error
