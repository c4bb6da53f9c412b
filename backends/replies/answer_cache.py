"""What this machine has read of a reply store in a bucket: replies, which never change there. It may be deleted at any
time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backends.replies.bucket_objects import AnswerPlace, BucketAnswer
from builders.errors import UserError

_BUSY_SECONDS = 60
_AT_ONCE = 500  # keys in one statement
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT, generation INTEGER, identity TEXT, kind TEXT, reason TEXT, text TEXT,
    prompt_tokens INTEGER, completion_tokens INTEGER, stored_at TEXT, is_packed INTEGER,
    PRIMARY KEY (key, generation)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS unpacked ON answers (is_packed) WHERE NOT is_packed;
CREATE TABLE IF NOT EXISTS set_aside (
    key TEXT, generation INTEGER, refreshed_at TEXT, PRIMARY KEY (key, generation)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS index_objects (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_COLUMNS = "key, generation, identity, kind, reason, text, prompt_tokens, completion_tokens, stored_at"
_CURRENT = "NOT EXISTS (SELECT 1 FROM set_aside s WHERE s.key = answers.key AND s.generation = answers.generation)"


class AnswerCache:
    """A file of SQLite. Several threads and processes may use it at a time. Methods raise UserError."""

    def __init__(self, path: Path) -> None:
        """Creates the file and its folder where they are missing."""
        self._path, self._lock = path, threading.Lock()
        with self._translated():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, _BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")  # the bucket has what a power failure takes
            self._connection.executescript(_TABLES)

    def read(self, keys: Sequence[str]) -> dict[AnswerPlace, BucketAnswer]:
        """Returns the replies to these questions of all generations."""
        found: dict[AnswerPlace, BucketAnswer] = {}
        with self._using() as connection:
            for part in _parts(keys):
                where = f"WHERE key IN ({','.join('?' * len(part))})"
                for row in connection.execute(f"SELECT {_COLUMNS} FROM answers {where}", part):
                    answer = _as_answer(row)
                    found[answer.place] = answer
        return found

    def read_set_aside(self, keys: Sequence[str]) -> dict[str, list[tuple[int, str]]]:
        """Returns the generations that were set aside, each with its time, by the keys that have any."""
        found: dict[str, list[tuple[int, str]]] = {}
        with self._using() as connection:
            if connection.execute("SELECT 1 FROM set_aside LIMIT 1").fetchone() is None:
                return {}
            for part in _parts(keys):
                where = f"WHERE key IN ({','.join('?' * len(part))})"
                for key, *rest in connection.execute(
                    f"SELECT key, generation, refreshed_at FROM set_aside {where}", part
                ):
                    found.setdefault(key, []).append((rest[0], rest[1]))
        return found

    def add(self, answers: Iterable[BucketAnswer], *, is_packed: bool = False, index_object: str = "") -> None:
        """Keeps replies, and that the pack from which they come was read."""
        rows = [
            (*one.place, one.identity, *one.columns, one.stored_at, is_packed) for one in answers if one.kind == "reply"
        ]
        known = "UPDATE SET is_packed = 1" if is_packed else "NOTHING"
        with self._using() as connection:
            insert = f"INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO {known}"
            connection.executemany(insert, rows)
            if index_object:
                connection.execute("INSERT OR IGNORE INTO index_objects VALUES (?)", [index_object])

    def set_aside(self, refreshed_at: str, places: Iterable[AnswerPlace], index_object: str) -> None:
        """Keeps which answers a refresh has set aside; of two refreshes of one answer, the time of the earlier one."""
        with self._using() as connection:
            earlier = "ON CONFLICT DO UPDATE SET refreshed_at = min(refreshed_at, excluded.refreshed_at)"
            rows = [(*place, refreshed_at) for place in places]
            connection.executemany(f"INSERT INTO set_aside VALUES (?, ?, ?) {earlier}", rows)
            connection.execute("INSERT OR IGNORE INTO index_objects VALUES (?)", [index_object])

    def list_unread(self, names: Collection[str]) -> list[str]:
        """Returns those of the index's objects that were not read yet."""
        with self._using() as connection:
            known = {name for (name,) in connection.execute("SELECT name FROM index_objects")}
        return sorted(set(names) - known)

    def count(self) -> int:
        """Returns the number of replies."""
        with self._using() as connection:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])

    def count_unpacked(self) -> int:
        """Returns the number of replies that are in no pack."""
        with self._using() as connection:
            return int(connection.execute("SELECT count(*) FROM answers WHERE NOT is_packed").fetchone()[0])

    def read_unpacked(self, most: int) -> list[BucketAnswer]:
        """Returns replies that are in no pack."""
        with self._using() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM answers WHERE NOT is_packed LIMIT ?", [most])
            return [_as_answer(row) for row in rows]

    def mean_tokens(self, identity: str) -> tuple[float, float] | None:
        """Returns the mean tokens in and out of a model's replies; None where none are counted."""
        means = "avg(prompt_tokens), avg(completion_tokens)"
        with self._using() as connection:
            query = f"SELECT {means} FROM answers WHERE identity = ? AND {_CURRENT}"
            into, out = connection.execute(query, [identity]).fetchone()
        return None if into is None or out is None else (float(into), float(out))

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._translated(), self._lock:
            self._connection.execute("BEGIN")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = f"cannot be used ({' '.join(str(error).split())[:120]})"
            next_step = (
                "delete it: the bucket has all that is in it; or set XDG_CACHE_HOME to a folder that can be written"
            )
            raise UserError("reply store", self._path, reason, next_step) from None


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))


def _as_answer(row: tuple[Any, ...]) -> BucketAnswer:
    return BucketAnswer(AnswerPlace(row[0], row[1]), *row[2:])
