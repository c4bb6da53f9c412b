"""The decisions of people that a build of a set takes as its input."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from backends.sets.decision_log import read_decisions
from builders.decisions.effective import DecisionT, latest_by_target

_pinned_ids: ContextVar[Collection[str] | None] = ContextVar("pinned_ids", default=None)


def load_decisions(folder: Path, kind: type[DecisionT]) -> dict[Any, DecisionT]:
    """By target the effective decisions of a kind in the log of the set at `folder`; while a version is built again,
    only those that it holds. Raises UserError for a damaged log."""
    pinned_ids = _pinned_ids.get()
    log = read_decisions(folder, kind)
    return latest_by_target(entry for entry in log if pinned_ids is None or entry.decision_id in pinned_ids)


@contextmanager
def pinned_decisions(decision_ids: Collection[str]) -> Iterator[None]:
    """Build with these decisions and no others."""
    token = _pinned_ids.set(decision_ids)
    try:
        yield
    finally:
        _pinned_ids.reset(token)
