"""Asks a search system many queries at a time, with retries, and measures each answer."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from backends.search_systems import SearchFailure, SearchHit, SearchSystemOptions
from backends.system_answers.answer_store import SystemAnswer
from backends.web.host_throttle import LONGEST_PAUSE


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
