"""The recorded answers of search systems, by a digest of system, query and number of results."""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.durable_files import make_durable_folder
from backends.plugin_loader import ModelIdentity
from backends.search_systems import SearchHit
from builders.errors import UserError

_AT_ONCE = 500  # keys in one statement
_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, system TEXT NOT NULL, answer TEXT NOT NULL)"


@dataclass(frozen=True, slots=True)
class SystemAnswer:
    """The answer to one query: hits and milliseconds, or the failure's code and detail."""

    hits: tuple[SearchHit, ...] = ()
    milliseconds: float = 0.0
    failure: str = ""
    detail: str = ""

    def to_text(self) -> str:
        """Returns the form in which the answer is stored."""
        plain = {"hits": [[hit.id, hit.score] for hit in self.hits], "ms": self.milliseconds}
        return json.dumps(plain | {"failure": self.failure, "detail": self.detail}, ensure_ascii=True)


def parse_system_answer(text: str) -> SystemAnswer:
    """Returns a stored answer."""
    plain = json.loads(text)
    hits = tuple(SearchHit(name, score) for name, score in plain["hits"])
    return SystemAnswer(hits, plain["ms"], plain["failure"], plain["detail"])


def answer_key(identity: ModelIdentity, question: str, k: int) -> str:
    """Returns the key of an answer."""
    fields = [identity.as_record(), question, k]
    return hashlib.sha256(json.dumps(fields, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class AnswerStore:
    """The file of recorded answers, SQLite; several processes may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            make_durable_folder(path.parent)
            self._connection = sqlite3.connect(path, timeout=60, check_same_thread=False)
            self._connection.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise self._error(error) from None
        self._lock = threading.Lock()

    def find(self, keys: Sequence[str]) -> dict[str, str]:
        """Returns the recorded texts of these keys."""
        found: dict[str, str] = {}
        try:
            with self._lock:
                for start in range(0, len(keys), _AT_ONCE):
                    some = keys[start : start + _AT_ONCE]
                    marks = ",".join("?" * len(some))
                    found |= dict(
                        self._connection.execute(f"SELECT key, answer FROM answers WHERE key IN ({marks})", some)
                    )
        except sqlite3.Error as error:
            raise self._error(error) from None
        return found

    def record(self, identity: ModelIdentity, texts: dict[str, Any]) -> None:
        """Records texts by key, in place of older ones; they are on disk when the call returns."""
        system = json.dumps(identity.as_record(), sort_keys=True)
        try:
            with self._lock, self._connection:
                rows = [(key, system, text) for key, text in texts.items()]
                self._connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise self._error(error) from None

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def _error(self, error: Exception) -> UserError:
        return UserError("record answers", self.path, f"cannot be used ({error})", "check the path, or delete the file")
