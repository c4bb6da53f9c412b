"""The answers of search systems: many queries at a time, with retries, measured and recorded.

A search function can be shown as an HTTP service on 127.0.0.1, so that what asks a live service works without one.
"""

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from querytruth.backends.plugins import ModelIdentity
from querytruth.backends.search_systems import SearchFailure, SearchHit, SearchSystemOptions, SystemFile
from querytruth.backends.steps import current_run
from querytruth.backends.web.host_rules import LONGEST_PAUSE
from querytruth.errors import UserError

if TYPE_CHECKING:
    from querytruth.backends.files.object_store import DatabaseObjects

ASK_STAGE = "ask search system"
TRY_ONE = "try one query: querytruth search TEXT --system FILE --trial"
_FILE = Path(".systems") / "answers.sqlite"
MAX_ANSWER_BYTES = 64 << 20
_RECORDED_AT_ONCE = 20  # answers
_FIRST = 12  # queries without an answer to any of which the service is taken to be down
ReadAnswers = Callable[[Sequence[str]], Mapping[str, bytes]]  # those of the keys that are recorded
PutAnswers = Callable[[Mapping[str, bytes]], object]


@dataclass(frozen=True, slots=True)
class SystemAnswer:
    """The answer to one query: hits and milliseconds, or the failure's code and detail."""

    hits: tuple[SearchHit, ...] = ()
    milliseconds: float = 0.0
    failure: str = ""
    detail: str = ""

    def to_bytes(self) -> bytes:
        """Return the form in which the answer is stored."""
        plain = {"hits": [[hit.id, hit.score] for hit in self.hits], "ms": self.milliseconds}
        return json.dumps(plain | {"failure": self.failure, "detail": self.detail}, ensure_ascii=True).encode()


def parse_system_answer(data: bytes) -> SystemAnswer:
    """Return a stored answer."""
    plain = json.loads(data)
    hits = tuple(SearchHit(name, score) for name, score in plain["hits"])
    return SystemAnswer(hits, plain["ms"], plain["failure"], plain["detail"])


def answer_key(identity: ModelIdentity, question: str, k: int) -> str:
    """Return the key of an answer."""
    fields = [identity.as_record(), question, k]
    return hashlib.sha256(json.dumps(fields, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def open_answer_store(folder: Path) -> "DatabaseObjects":
    """Return the recorded answers beside the sets of a folder, by key; several processes may use them."""
    from querytruth.backends.files.object_store import DatabaseObjects  # of no use where no service is asked

    return DatabaseObjects(folder / _FILE, "record answers", "check the path, or delete the file")


@dataclass(frozen=True, slots=True)
class QuerySearch:
    """One query of a set: its id, what the recorded answer depends on (a text, or the digest of an image), and the
    search."""

    query_id: str
    question: str
    search: Callable[[], list[SearchHit]]


@dataclass(frozen=True, slots=True)
class AskOptions:
    """`is_offline`: only recorded answers; `is_refreshed`: every query is asked again."""

    is_offline: bool = False
    is_refreshed: bool = False


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The size of the index and the answers to a probe, before and after the queries; None where unknown."""

    before: str | None
    after: str | None
    items: int | None


def ask_and_record(
    described: SystemFile, asked: Sequence[QuerySearch], k: int, options: AskOptions, read: ReadAnswers, put: PutAnswers
) -> tuple[list[SystemAnswer], IndexCheck]:
    """Return the answers in the order of the searches, and the check of the index. `read` and `put`: the
    recorded ones by key. Failures are asked again while online. Raises UserError where the service answers none of the
    first queries, and offline for queries without a recorded answer."""
    system, identity = described.system, described.system.identity
    keys = [answer_key(identity, one.question, k) for one in asked]
    check_key = answer_key(identity, "\n".join(["index", *keys]), k)
    found = {} if options.is_refreshed else read([*keys, check_key])
    answers = {key: parse_system_answer(found[key]) for key in keys if key in found}
    # What is asked for the first time shows whether anybody is there.
    known, first = set(answers), list[SystemAnswer]()
    waiting = {key: one for key, one in zip(keys, asked, strict=True) if key not in answers or answers[key].failure}
    if options.is_offline:
        if missing := sum(key not in answers for key in keys):
            reason = f"has no recorded answer for {missing:,} of {len(keys):,} queries"
            raise UserError(ASK_STAGE, described.name, reason, "run once without --offline")
        waiting = {}
    if not waiting:
        stated = json.loads(found[check_key]) if check_key in found else (None, None, None)
        return [answers[key] for key in keys], IndexCheck(*stated)
    before, fresh = _probe(described, asked[0]), dict[str, bytes]()
    places = list(waiting)
    with current_run().reporter.bar("ask", len(waiting), "queries") as advance:

        def keep(place: int, answer: SystemAnswer) -> None:
            answers[places[place]] = answer
            fresh[places[place]] = answer.to_bytes()
            advance(1)
            if places[place] not in known and len(first) < _FIRST:
                first.append(answer)
                if len(first) == _FIRST and all(one.failure for one in first):
                    reason = f"answered none of the first {_FIRST} queries ({describe_failures(first)})"
                    raise UserError(ASK_STAGE, described.name, reason, TRY_ONE)
            if len(fresh) >= _RECORDED_AT_ONCE:
                put(fresh)
                fresh.clear()

        try:
            ask_system(system.options, [one.search for one in waiting.values()], keep)
        finally:
            put(fresh)
    check = IndexCheck(before[0], _probe(described, asked[0])[0], before[1])
    put({check_key: json.dumps(astuple(check)).encode()})
    return [answers[key] for key in keys], check


def _probe(described: SystemFile, asked: QuerySearch) -> tuple[str | None, int | None]:
    """Return a digest of the index: its size, and the ids that it answers a query with; None where it does not
    answer."""
    try:
        items = described.system.count_items()
        ids = [hit.id for hit in asked.search()]
    except SearchFailure:
        return None, None
    return hashlib.sha256(json.dumps([items, ids]).encode()).hexdigest(), items


def describe_failures(answers: Sequence[SystemAnswer]) -> str:
    """Return the most frequent failure, and the detail of the first."""
    (reason, _), *_ = Counter(answer.failure for answer in answers).most_common(1)
    return f"{reason}: {next(answer.detail for answer in answers if answer.failure)}"


def ask_system(
    options: SearchSystemOptions,
    searches: Sequence[Callable[[], list[SearchHit]]],
    on_answer: Callable[[int, SystemAnswer], None],
) -> None:
    """Make all searches, `concurrency` at a time; `on_answer` gets the place of a search and its answer as it comes,
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
    """Return the answer of one search. The time is that of the successful attempt, without pauses."""
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
    """Serve `GET /search?q=TEXT&size=K` on a free port during the block and yield its address; the answer is JSON:
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
                self._send(400, {"error": "call it with ?q=TEXT&size=K"})
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

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler
