"""The logs of a set's decisions: datasets/<name>/decisions.jsonl and, for captions, captions.jsonl."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic

from backends import append_log
from backends.contained_paths import contained_path
from backends.file_errors import translate_read_errors
from backends.object_storage.object_cache import refuse_fetched_copy
from builders.decisions.chain import chain_lines, find_chain_breaks, split_chain, start_chain
from builders.decisions.effective import DecisionT, latest_by_target
from builders.decisions.records import Decision, HumanCaption, parse_decision
from builders.errors import UserError, first_line

CAPTION_LOG_NAME = "captions.jsonl"
DECISION_LOG_NAME = "decisions.jsonl"
_pinned_ids: ContextVar[Collection[str] | None] = ContextVar("pinned_ids", default=None)


class DecisionLog(Generic[DecisionT]):
    """The decisions of one kind, or of several, in the logs of the set at `folder`."""

    def __init__(self, folder: Path, kind: type[DecisionT] | tuple[type[DecisionT], ...]) -> None:
        self._kind = kind
        name, self._noun = (CAPTION_LOG_NAME, "captions") if kind is HumanCaption else (DECISION_LOG_NAME, "decisions")
        self._path = contained_path(folder, name, f"read {self._noun}")

    def read_from(self, start: int) -> tuple[list[DecisionT], int]:
        """Returns the decisions after the first `start` bytes, in order, and the length of the log in bytes. Raises
        UserError for a damaged line."""
        stage = f"read {self._noun}"
        try:
            lines, end = append_log.read_lines(self._path, start)
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            raise UserError(stage, self._path, f"cannot be read ({error.strerror})", "fix that") from None
        decisions = []
        for number, line in enumerate(lines, start=1):
            try:
                decision: object = _parse_line(line, self._path.name)
            except (ValueError, RecursionError) as error:
                place = f"{self._path} line {number}" + (f" after byte {start}" if start else "")
                raise UserError(stage, place, first_line(error), "fix or remove the line") from None
            if isinstance(decision, self._kind):
                decisions.append(decision)
        return decisions, end

    def append(self, decisions: Sequence[DecisionT]) -> None:
        """Adds decisions, all or none, and returns when they are on disk. Raises UserError."""
        stage = f"save {self._noun}"
        refuse_fetched_copy(self._path, stage)
        try:
            with append_log.open_log(self._path, wait=True) as handle:
                lines = chain_lines([decision.as_json() for decision in decisions], self._end_of_chain(handle))
                append_log.append_lines(handle, lines)
        except UnicodeEncodeError:
            raise UserError(stage, self._path, "a text holds half a character", "type that text again") from None
        except OSError as error:
            reason = f"cannot be written ({error.strerror}); none was taken"
            raise UserError(stage, self._path, reason, "fix that and do the same again") from None

    def _end_of_chain(self, handle: int) -> str:
        """Returns the chain of the last line; of a log without one, that of all its lines."""
        last = append_log.read_last_line(handle).decode("utf-8", "replace")
        if chain := split_chain(last)[1]:
            return chain
        lines, _ = append_log.read_lines(self._path, lock=False)  # this process holds the lock
        return start_chain(line.decode("utf-8", "replace") for line in lines)


def _parse_line(line: bytes, log_name: str) -> Decision:
    """Returns the decision of a line of the log `log_name`. Raises ValueError or RecursionError for any other line."""
    decision = parse_decision(split_chain(line.decode())[0])
    if isinstance(decision, HumanCaption) != (log_name == CAPTION_LOG_NAME):
        raise ValueError("is none of the captions" if log_name == CAPTION_LOG_NAME else "is none of the decisions")
    return decision


def verify_logs(folder: Path) -> Iterator[str]:
    """Yields a line per problem of the logs of the set at `folder`: where the chain of a log is broken, and each line
    that is no decision, at which every other command would stop."""
    for name in (DECISION_LOG_NAME, CAPTION_LOG_NAME):
        try:
            lines, _ = append_log.read_lines(contained_path(folder, name, "verify"))
        except FileNotFoundError:
            continue
        except UserError as error:
            yield f"{name}: {error.reason}"
            continue
        except OSError as error:
            yield f"{name}: cannot be read ({error.strerror})"
            continue
        for number, problem in find_chain_breaks(line.decode("utf-8", "replace") for line in lines):
            yield f"{name} line {number}: {problem}"
        for number, line in enumerate(lines, start=1):
            try:
                _parse_line(line, name)
            except (ValueError, RecursionError) as error:
                yield f"{name} line {number}: {first_line(error)}"


def read_log_lines(folder: Path, name: str) -> list[str]:
    """Returns the whole lines of the log `name` of the set at `folder`; of a missing one none. Raises UserError."""
    path = contained_path(folder, name, "read decisions")
    if not path.exists():
        return []
    with translate_read_errors("read decisions", path, "fix that"):
        return [line.decode("utf-8", "replace") for line in append_log.read_lines(path)[0]]


def read_decisions(folder: Path, kind: type[DecisionT]) -> list[DecisionT]:
    """Reads all decisions of a kind in the logs of the set at `folder`, in order. Raises UserError for a damaged
    line."""
    return DecisionLog(folder, kind).read_from(0)[0]


def load_decisions(folder: Path, kind: type[DecisionT]) -> dict[Any, DecisionT]:
    """By target the effective decisions of a kind in the log of the set at `folder`; within `pinned_decisions` only
    those that it names. Raises UserError for a damaged line."""
    pinned_ids, log = _pinned_ids.get(), read_decisions(folder, kind)
    return latest_by_target(entry for entry in log if pinned_ids is None or entry.decision_id in pinned_ids)


@contextmanager
def pinned_decisions(decision_ids: Collection[str]) -> Iterator[None]:
    """Make `load_decisions` return these decisions and no others: a version is built again with those that it holds."""
    token = _pinned_ids.set(decision_ids)
    try:
        yield
    finally:
        _pinned_ids.reset(token)


def append_decisions(folder: Path, decisions: Sequence[DecisionT]) -> None:
    """Adds decisions to a log of the set at `folder`, as `DecisionLog.append` does. Raises UserError."""
    if decisions:
        DecisionLog(folder, type(decisions[0])).append(decisions)
