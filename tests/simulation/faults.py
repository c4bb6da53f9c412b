"""Faults by a seed: a full disk, a time-out, or the end of the process, at any operation on files, replies or clocks.

A killed process does nothing more: what would clean up after an exception raises the end again.
"""

import errno
import io
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow.parquet as pq
import pytest

from querytruth.backends.files import parquet_files
from querytruth.backends.images import scan_parts, worker_processes
from querytruth.backends.models import question_leases
from querytruth.backends.models.question_leases import QuestionLeases
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.errors import UserError

_FILE_CALLS = ("fsync", "replace", "rename", "link", "mkdir", "unlink", "write", "ftruncate", "rmdir")
_YEARS = 10**9  # seconds


class Killed(BaseException):
    """The end of the process."""


class Faults:
    """One process with its faults. `kill_rate` and `fault_rate`: per operation."""

    def __init__(self, seed: str, kill_rate: float, fault_rate: float) -> None:
        self.rng = random.Random(seed)
        self.seed, self.is_dead, self.operation_count = seed, False, 0
        self._kill_rate, self._fault_rate = kill_rate, fault_rate

    def survive(self) -> None:
        """Raise Killed, now or because it was raised before."""
        self.operation_count += 1
        self.is_dead = self.is_dead or self.rng.random() < self._kill_rate
        if self.is_dead:
            raise Killed

    def is_due(self) -> bool:
        """Whether a fault is due at this operation. Raises Killed."""
        self.survive()
        return self.rng.random() < self._fault_rate

    def use_disk(self) -> None:
        """Raise OSError for a full disk, or Killed."""
        if self.is_due():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _FaultyFile(io.RawIOBase):
    """A new file of which a write may arrive in part. Nothing is buffered: a killed process leaves what it wrote."""

    def __init__(self, raw: Any, faults: Faults) -> None:
        self._raw, self._faults = raw, faults

    def write(self, data: Any) -> int:
        try:
            self._faults.use_disk()
        except BaseException:
            if not self._raw.closed:
                self._raw.write(memoryview(data).cast("B")[: len(data) // 2])
            raise
        view = memoryview(data).cast("B")
        while view:
            view = view[self._raw.write(view) :]
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def tell(self) -> int:
        return int(self._raw.tell())

    def flush(self) -> None:
        pass


@contextmanager
def injected(faults: Faults) -> Iterator[None]:
    """Let the faults happen to everything that a build does within."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _FILE_CALLS:
            patch.setattr(os, name, _behind(faults.use_disk, getattr(os, name)))
        patch.setattr(io, "open", _faulty_open(faults, io.open))
        patch.setattr(scan_parts, "finish_in_workers", _finish_here(faults))
        patch.setattr(worker_processes, "map_in_workers", _map_here(faults))
        patch.setattr(parquet_files, "_read_parts", _read_here(faults))
        _break_reply_store(patch, faults)
        jump, now = faults.rng.randrange(-_YEARS, _YEARS), time.time
        patch.setattr(time, "time", lambda: now() + jump)
        yield


def _behind(gate: Callable[[], None], work: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        gate()
        return work(*args, **kwargs)

    return call


def _faulty_open(faults: Faults, work: Callable[..., Any]) -> Callable[..., Any]:
    def call(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not any(letter in mode for letter in "wax"):
            return work(file, mode, *args, **kwargs)
        faults.use_disk()
        if mode not in ("wb", "xb"):
            return work(file, mode, *args, **kwargs)
        return _FaultyFile(work(file, mode, buffering=0), faults)

    return call


def _map_here(faults: Faults) -> Callable[..., Any]:
    def work_on(work: Any, items: Any, *_limits: object, **_options: object) -> Iterator[Any]:
        for item in items:
            faults.survive()
            yield work(item)

    return work_on


def _finish_here(faults: Faults) -> Callable[..., Any]:
    def work_on(work: Any, finish: Any, items: Any) -> Iterator[Any]:
        return (next(iter(finish([done]))) for done in _map_here(faults)(work, items))

    return work_on


def _read_here(faults: Faults) -> Callable[..., Any]:
    def read(path: Any, columns: Any, _rows: int) -> Iterator[Any]:
        faults.survive()
        table = pq.read_table(path, columns=columns)
        yield pq.read_schema(path)
        yield from table.to_batches()

    return read


def _break_reply_store(patch: pytest.MonkeyPatch, faults: Faults) -> None:
    """A kill before or after a commit, or a full disk in place of it."""
    save, change = ReplyStore.save, QuestionLeases._change

    def faulty_save(store: ReplyStore, identity: Any, answered: Sequence[Any]) -> Any:
        if faults.is_due():
            raise UserError("reply store", "replies.sqlite", "database or disk is full", "make room")
        stored = save(store, identity, answered)
        faults.survive()
        return stored

    patch.setattr(ReplyStore, "save", faulty_save)
    patch.setattr(QuestionLeases, "_change", _behind(faults.survive, change))
    patch.setattr(question_leases, "process_start", lambda _process: faults.seed.replace(" ", "-"))
