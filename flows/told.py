"""What people said of a set's pictures and rejects, as a build of the set takes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from backends.sets import decision_log
from builders.picture_decisions import PictureDecision, last_words
from builders.rescues import Rescue, last_rescues

_only: ContextVar[Collection[str] | None] = ContextVar("only", default=None)


def told_pictures(folder: Path) -> list[PictureDecision]:
    """The last words on pictures in the log of the set at `folder`; while a version is built again, those that it
    holds."""
    log, only = decision_log.read_pictures_on(folder)[0], _only.get()
    return last_words(log if only is None else [word for word in log if word.decision_id in only])


def told_rescues(folder: Path) -> Mapping[str, Rescue]:
    """The last words on rejects by what they are about, as `told_pictures`."""
    log, only = decision_log.read_rescues_on(folder)[0], _only.get()
    return last_rescues(log if only is None else [word for word in log if word.decision_id in only])


@contextmanager
def just_those(decision_ids: Collection[str]) -> Iterator[None]:
    """Build with these decisions and no other."""
    token = _only.set(decision_ids)
    try:
        yield
    finally:
        _only.reset(token)
