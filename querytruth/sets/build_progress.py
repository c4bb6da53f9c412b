"""The progress of a running build, in `<set>/.progress.json`: for other processes that look at the folder."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import msgspec

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.steps import Advance, Reporter, current_run, use_run

PROGRESS_FILE = ".progress.json"
_EVERY, _RUNS_NOW = 1.0, 300.0  # seconds between two writes, and since the last one until a build counts as gone


class BuildProgress(msgspec.Struct):
    """The step that runs now: `done` of `total` units at the time `at`; `run`: its address in Prefect, or ""."""

    step: str
    done: int
    total: int
    unit: str
    at: float
    run: str = ""


@dataclass(frozen=True, slots=True)
class _FileReporter:
    inner: Reporter
    file: Path
    run: str

    def log(self, text: str) -> None:
        self.inner.log(text)

    @contextmanager
    def bar(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        done, written, lock = 0, time.monotonic(), Lock()
        with self.inner.bar(title, total, unit) as shown:

            def advance(count: int) -> None:
                nonlocal done, written
                shown(count)
                with lock:
                    done += count
                    if time.monotonic() - written < _EVERY:
                        return
                    written = time.monotonic()
                    progress = BuildProgress(title, done, total, unit, time.time(), self.run)
                    with suppress(OSError):  # nobody can look, and the build goes on
                        write_atomically(self.file, json.dumps(msgspec.to_builtins(progress)).encode(), sync=False)

            yield advance


@contextmanager
def write_progress(set_folder: Path) -> Iterator[None]:
    """Have the steps of this context write how far they are into the set's folder; at the end the file is gone."""
    run, file = current_run(), set_folder / PROGRESS_FILE
    with use_run(replace(run, reporter=_FileReporter(run.reporter, file, run.run_url))):
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink(missing_ok=True)


def read_progress(set_folder: Path) -> BuildProgress | None:
    """Return how far the build of a set is; None where none runs."""
    with suppress(OSError, msgspec.MsgspecError):
        found = msgspec.json.decode((set_folder / PROGRESS_FILE).read_bytes(), type=BuildProgress)
        return found if time.time() - found.at <= _RUNS_NOW else None
    return None
