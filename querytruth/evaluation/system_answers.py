"""The answers of search systems: many queries at a time, with retries, measured and recorded.

A search function can be shown as an HTTP service on 127.0.0.1, so that what asks a live service works without one.
"""

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from querytruth.backends.files.durable_files import make_durable_folder
from querytruth.backends.plugins import ModelIdentity
from querytruth.backends.search_systems import SearchFailure, SearchHit, SearchSystemOptions
from querytruth.backends.web.host_rules import LONGEST_PAUSE
from querytruth.errors import UserError

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


def ask_system(
    options: SearchSystemOptions,
    searches: Sequence[Callable[[], list[SearchHit]]],
    on_answer: Callable[[int, SystemAnswer], None],
) -> None:
    """Makes all searches, `concurrency` at a time; `on_answer` gets the place of a search and its answer as it comes,
    in this thread. A failed search is an answer with a failure's code."""
    stopped = threading.Event()
    pool = ThreadPoolExecutor(options.concurrency, thread_name_prefix="search")
    try:
        running = {pool.submit(_ask, options, search, stopped): place for place, search in enumerate(searches)}
        for done in as_completed(running):
            on_answer(running[done], done.result())
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _ask(options: SearchSystemOptions, search: Callable[[], list[SearchHit]], stopped: threading.Event) -> SystemAnswer:
    """The answer of one search. The time is that of the attempt that answered, without pauses."""
    answer = SystemAnswer(failure="stopped")
    for attempt in range(options.tries):
        if stopped.is_set():
            break
        start = time.perf_counter()
        try:
            hits = search()
        except SearchFailure as failed:
            answer = SystemAnswer((), round((time.perf_counter() - start) * 1000, 3), failed.reason, failed.detail)
            if failed.retry_after is None or attempt + 1 == options.tries:
                break
            stopped.wait(min(max(failed.retry_after, options.pause * 2**attempt), LONGEST_PAUSE))
            continue
        return SystemAnswer(tuple(hits), round((time.perf_counter() - start) * 1000, 3))
    return answer


@contextmanager
def serve_search(search: Callable[[str, int], list[tuple[str, float]]]) -> Iterator[str]:
    """Serves `GET /search?q=TEXT&size=K` on a free port during the block and yields its address; the answer is JSON:
    {"hits": [{"file": name, "score": number}, …]}."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(search))
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/search"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _make_handler(search: Callable[[str, int], list[tuple[str, float]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            try:
                text, k = asked["q"][0], int(asked["size"][0])
            except (KeyError, ValueError):
                self._send(400, {"error": "ask for ?q=TEXT&size=K"})
                return
            self._send(200, {"hits": [{"file": name, "score": score} for name, score in search(text, k)]})

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer).encode()
            with suppress(OSError):  # whoever has hung up needs no answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Logs nothing."""

    return Handler
