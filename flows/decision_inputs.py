"""What people said of a set's pictures and rejects, as a build of the set takes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from backends.sets import decision_log
from builders.image_decisions import ImageDecision, effective_image_decisions
from builders.overrides import Override, effective_overrides

_pinned_ids: ContextVar[Collection[str] | None] = ContextVar("only", default=None)


def load_image_decisions(folder: Path) -> list[ImageDecision]:
    """The last words on pictures in the log of the set at `folder`; while a version is built again, those that it
    holds."""
    log, pinned_ids = decision_log.read_image_decisions_from(folder)[0], _pinned_ids.get()
    return effective_image_decisions(
        log if pinned_ids is None else [decision for decision in log if decision.decision_id in pinned_ids]
    )


def load_overrides(folder: Path) -> Mapping[str, Override]:
    """The last words on rejects by what they are about, as `told_pictures`."""
    log, pinned_ids = decision_log.read_overrides_from(folder)[0], _pinned_ids.get()
    return effective_overrides(
        log if pinned_ids is None else [override for override in log if override.decision_id in pinned_ids]
    )


@contextmanager
def pinned_decisions(decision_ids: Collection[str]) -> Iterator[None]:
    """Build with these decisions and no other."""
    token = _pinned_ids.set(decision_ids)
    try:
        yield
    finally:
        _pinned_ids.reset(token)
