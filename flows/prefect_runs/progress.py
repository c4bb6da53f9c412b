"""Reports the progress of a run: lines in its log, and a progress artifact per step.

Without an answer of the server the run goes on without artifacts.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.steps import Advance, Reporter

R = TypeVar("R")
_PAUSE_SECONDS = 300.0
_REPORT_INTERVAL = 5.0  # seconds between two reports of a step: each is a call of the server


class _ServerPause:
    """The time, by the monotonic clock, until which the server is not called."""

    until = 0.0


def artifact_key(*parts: str) -> str:
    """An artifact's key from names: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


@contextmanager
def retrying_once() -> Iterator[None]:
    """Within the block Prefect's client retries once. Settings take a tenth of a second to copy: several calls of
    `call_server_if_available` share one block."""
    if PREFECT_CLIENT_MAX_RETRIES.value() <= 1:
        yield
        return
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}):
        yield


def call_server_if_available(call: Callable[[], R]) -> R | None:
    """The answer of the server; None where it fails, so that no build is lost with its server. After a failure it is
    not called for minutes; the client retries once."""
    if time.monotonic() < _ServerPause.until:
        return None
    try:
        with retrying_once():
            return call()
    except (httpx.HTTPError, PrefectException, OSError, RuntimeError) as error:
        _ServerPause.until = time.monotonic() + _PAUSE_SECONDS
        get_run_logger().warning("Prefect's server takes no artifact (%s)", type(error).__name__)
        return None


@dataclass(frozen=True, slots=True)
class ProgressReporter:
    """Reports to `inner` and to Prefect's server. `name`: the first part of the artifacts' keys."""

    inner: Reporter
    name: str

    def log(self, text: str) -> None:
        """Report one line, also in the run's log."""
        get_run_logger().info("%s", text)
        self.inner.log(text)

    @contextmanager
    def bar(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        """A progress bar; its artifact is created when the step has taken some seconds."""
        progress = _Progress(artifact_key(self.name, title), f"{title}: {total:,} {unit}", max(total, 1))
        with self.inner.bar(title, total, unit) as shown:

            def advance(count: int) -> None:
                shown(count)
                progress.add(count)

            yield advance
        progress.report()


class _Progress:
    """Counts units from any thread, and reports every few seconds."""

    def __init__(self, key: str, about: str, total: int) -> None:
        self._key, self._about, self._total = key, about, total
        self._lock = threading.Lock()
        self._done, self._reported = 0, time.monotonic()
        self._artifact: Any = None

    def add(self, count: int) -> None:
        """Add units; the first thread to do so after some seconds reports."""
        with self._lock:
            self._done += count
            due = time.monotonic() - self._reported >= _REPORT_INTERVAL
            if due:
                self._reported = time.monotonic()
        if due:
            self._send()

    def report(self) -> None:
        """Report the final count, if the artifact exists."""
        if self._artifact is not None:
            self._send()

    def _send(self) -> None:
        share = min(100.0, 100.0 * self._done / self._total)
        artifact_id = self._artifact
        if artifact_id is None:
            self._artifact = call_server_if_available(lambda: create_progress_artifact(share, self._key, self._about))
        else:
            call_server_if_available(lambda: update_progress_artifact(artifact_id, share))
