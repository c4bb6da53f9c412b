"""The answers in a bucket: stored one by one, read one by one, by a list of their names, or from packs.

What this machine has read of a reply store in a bucket: replies, which never change there. It may be deleted at any
time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from querytruth.backends.files.bucket import Bucket, map_at_once
from querytruth.backends.models import bucket_objects
from querytruth.backends.models.bucket_objects import MAX_ANSWER_BYTES, MAX_INDEX_BYTES, AnswerPlace, BucketAnswer
from querytruth.errors import UserError

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
T = TypeVar("T")
R = TypeVar("R")
_REQUESTS_AT_ONCE = 16
_PACK_MOST, _PACK_CHARACTERS = 8192, 32 << 20  # of one pack: replies, and their texts
_FEW = 32  # answers that are read without a list
_LISTED_AT_ONCE = 1000  # names in one answer of the service
_LIST_IN_PARTS = 16 * _LISTED_AT_ONCE
_ANSWERS_TO_A_RACE = 10


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


class BucketAnswers:
    """The answers below a folder of a bucket, which `full_key` puts before a name, and what the cache has of them. May
    be used by several threads. Methods raise UserError for errors of the service and for damaged objects."""

    def __init__(self, bucket: Bucket, full_key: Callable[[str], str], cache: AnswerCache) -> None:
        self._bucket, self._full_key = bucket, full_key
        self._cache, self._count = cache, cache.count()  # of answers, about

    def read_index(self) -> None:
        """Reads packs and refreshes that the cache lacks."""
        names = {key.rpartition("/")[2]: key for key in self._bucket.list_sizes(self._full_key("index/"))}
        unread = self._cache.list_unread(names)

        def fetch(name: str) -> bytes | None:
            return self._bucket.read(names[name], MAX_INDEX_BYTES)

        for start in range(0, len(unread), _REQUESTS_AT_ONCE):
            part = unread[start : start + _REQUESTS_AT_ONCE]
            for name, data in zip(part, run_at_once(fetch, part), strict=True):
                url = self._bucket.url_of(names[name])
                if name.startswith("pack-"):
                    answers = bucket_objects.unpack_answers(url, data or b"")
                    self._cache.add(answers, is_packed=True, index_object=name)
                elif name.startswith("refresh-"):
                    self._cache.set_aside(*bucket_objects.read_set_aside(url, data or b""), name)

    def read(self, places: Sequence[AnswerPlace]) -> dict[AnswerPlace, BucketAnswer]:
        """Returns those of the answers that are stored, and adds them to the cache."""
        wanted = set(places)
        if len(wanted) > max(_FEW, self._count // _LISTED_AT_ONCE):
            wanted &= self._list({place.key[:1] for place in wanted})
        found = run_at_once(lambda place: self.read_one(bucket_objects.answer_name(place), place), sorted(wanted))
        answers = [answer for answer in found if answer is not None and answer.kind in bucket_objects.LASTING]
        self._cache.add(answers)
        return {answer.place: answer for answer in answers}

    def read_all(self) -> list[BucketAnswer]:
        """Returns all answers that hold."""
        self.read_index()
        places = self._list(None)
        keys = sorted({place.key for place in places})
        set_aside, known = self._cache.read_set_aside(keys), self._cache.read(keys)
        known |= self.read(sorted(places - known.keys()))
        gone = {AnswerPlace(key, number) for key, ended in set_aside.items() for number, _ in ended}
        return [answer for place, answer in known.items() if place not in gone]

    def read_one(self, name: str, place: AnswerPlace) -> BucketAnswer | None:
        """Returns the answer in an object; None where it is not there."""
        key = self._full_key(name)
        data = self._bucket.read(key, MAX_ANSWER_BYTES)
        return None if data is None else bucket_objects.read_answer(self._bucket.url_of(key), data, place)

    def store(self, row: dict[str, Any], place: AnswerPlace) -> BucketAnswer | None:
        """Stores an answer, given as a row of the database. Returns the one that holds now, which may be another
        process's; None where no lasting one is stored."""
        data, name = bucket_objects.write_answer(row, place.generation), bucket_objects.answer_name(place)
        if row["kind"] not in bucket_objects.LASTING:
            self._bucket.put(self._full_key(bucket_objects.passing_name(place)), data)
            return self.read_one(name, place)
        key = self._full_key(name)
        url = self._bucket.url_of(key)
        for _ in range(_ANSWERS_TO_A_RACE):
            if self._bucket.put_new(key, data):
                return bucket_objects.read_answer(url, data, place)
            if (tagged := self._bucket.read_tagged(key, MAX_ANSWER_BYTES)) is None:
                continue
            stored = bucket_objects.read_answer(url, tagged[0], place)
            if stored.kind == "reply" or tagged[0] == data:  # ours: the answer to an earlier attempt was lost
                return stored
            if self._bucket.put_changed(key, data, tagged[1]):
                return bucket_objects.read_answer(url, data, place)
        raise UserError("reply store", url, "other runs keep replacing it", "run the same command")

    def pack(self) -> None:
        """Stores copies of the replies in the cache that are in no pack yet."""
        while replies := self._cache.read_unpacked(_PACK_MOST):
            chosen, characters = list[BucketAnswer](), 0
            for one in replies:
                characters += len(one.text)
                if chosen and characters > _PACK_CHARACTERS:
                    break
                chosen.append(one)
            name, data = bucket_objects.pack_answers(chosen)
            self._bucket.put(self._full_key(name), data)
            self._cache.add(chosen, is_packed=True, index_object=name.rpartition("/")[2])

    def _list(self, first_characters: Iterable[str] | None) -> set[AnswerPlace]:
        """Returns all stored answers, or at least those whose keys begin with one of these characters."""
        if first_characters is None or self._count < _LIST_IN_PARTS:
            prefixes = ["answers/"]
        else:
            prefixes = [f"answers/{one}/" for one in sorted(first_characters)]
        listed = run_at_once(lambda prefix: self._bucket.list_sizes(self._full_key(prefix)), prefixes)
        places = {place for names in listed for name in names if (place := bucket_objects.place_of(name)) is not None}
        self._count = max(self._count, len(places))
        return places


def run_at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Returns the results of several requests at a time, in the order of the items. Raises the first error."""
    return list(map_at_once(work, items, _REQUESTS_AT_ONCE))
