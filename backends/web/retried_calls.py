"""Concurrent calls to an endpoint, each retried while a retry can help."""

import math
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from email.utils import parsedate_to_datetime
from typing import Protocol

from backends.chat import NOT_ASKED, ChatAnswer, ChatRequest, Failure, OnAnswers, Reply, check_reply

_LONGEST_PAUSE = 60.0  # seconds: the most that a server can ask for
_WAIT_TOO_LONG = Failure("rate_limited", "transient", "the endpoint asked to wait for longer than the deadline")


class CallOptions(Protocol):
    """Limits of the calls: how many at a time, how many tries each; `deadline` and `pause` in seconds."""

    @property
    def concurrency(self) -> int: ...
    @property
    def deadline(self) -> float: ...
    @property
    def tries(self) -> int: ...
    @property
    def pause(self) -> float: ...


class Endpoint(Protocol):
    """An endpoint to call."""

    @property
    def options(self) -> CallOptions: ...

    def body(self, request: ChatRequest) -> bytes | Failure:
        """Returns the body to send, or why there is none."""
        ...

    def ask_once(self, body: bytes, ends: float) -> tuple[ChatAnswer, float | None]:
        """Makes one call, which ends by `ends` (monotonic clock). Returns the answer and the shortest pause before a
        retry, in seconds; None where a retry is of no use."""
        ...

    def stop(self) -> None:
        """Ends all running calls."""
        ...


def ask_all(endpoint: Endpoint, requests: Sequence[ChatRequest], on_answers: OnAnswers) -> list[ChatAnswer]:
    """Returns an answer per request, in order. When `on_answers` returns False, no further call starts, and running
    calls, which cost money, are completed; an exception (Ctrl-C) ends them at once."""
    run = _Run(endpoint)
    answers: list[ChatAnswer] = [NOT_ASKED] * len(requests)
    waiting = iter(enumerate(requests))
    running: dict[Future[ChatAnswer], int] = {}
    pool = ThreadPoolExecutor(endpoint.options.concurrency, thread_name_prefix="chat")
    try:
        while True:
            while not run.stopped.is_set() and len(running) < endpoint.options.concurrency:
                if (following := next(waiting, None)) is None:
                    break
                running[pool.submit(run.answer, following[1])] = following[0]
            if not running:
                return answers
            done = [(running.pop(f), f.result()) for f in wait(running, return_when=FIRST_COMPLETED).done]
            for place, answer in done:
                answers[place] = answer
            if not on_answers(done):
                run.stopped.set()
    except BaseException:
        run.stopped.set()
        endpoint.stop()
        while wait(running, timeout=0.1).not_done:  # a call that was about to connect is ended next time
            endpoint.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Run:
    """State that the calls of one round share: whether to go on, and when the endpoint accepts the next call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.stopped = threading.Event()
        self._endpoint, self._options = endpoint, endpoint.options
        self._not_before = 0.0

    def answer(self, request: ChatRequest) -> ChatAnswer:
        body = self._endpoint.body(request)
        if isinstance(body, Failure):
            return body
        ends = time.monotonic() + self._options.deadline
        answer: ChatAnswer = NOT_ASKED
        for attempt in range(self._options.tries):
            if not self._pause(self._not_before - time.monotonic(), ends):
                return answer if attempt or self.stopped.is_set() else _WAIT_TOO_LONG
            answer, pause = self._endpoint.ask_once(body, ends)
            if pause is None:
                return check_reply(request, answer) if isinstance(answer, Reply) else answer
            if pause:
                self._not_before = max(self._not_before, time.monotonic() + pause)
            backing_off = min(self._options.pause * 2**attempt * random.uniform(0.5, 1.5), _LONGEST_PAUSE)
            if attempt + 1 == self._options.tries or not self._pause(backing_off, ends):
                return answer
        return answer

    def _pause(self, seconds: float, ends: float) -> bool:
        """Waits. Returns False where the call's time would be over, or the run has stopped."""
        if time.monotonic() + seconds >= ends:
            return False
        return not self.stopped.wait(max(0.0, seconds))


def retry_after(headers: Mapping[str, str]) -> float:
    """Returns the seconds that the server asks to wait, 0 to 60, given as a number or a date; 0 if not valid."""
    value = headers.get("retry-after", "").strip()
    try:
        if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,9})?", value):
            seconds = float(value)
        else:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return 0.0
    return min(max(seconds, 0.0), _LONGEST_PAUSE) if math.isfinite(seconds) else 0.0
