"""The logs of a set's decisions (decisions.jsonl, captions.jsonl), and what shows that nothing was lost.

Each line holds a digest of itself and of the chain before it: a changed, missing, added or moved line breaks the chain
at that place. The end of a log that is cut off leaves a valid chain; a manifest records for that how many lines the log
had, and which decisions its version holds.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from querytruth.backends.files.bucket_urls import refuse_fetched_copy
from querytruth.backends.files.durable_files import append_lines, open_log, read_last_line, read_lines
from querytruth.backends.files.safe_paths import contained_path
from querytruth.defaults import hold_value
from querytruth.errors import LintFinding, UserError, first_line, translate_read_errors
from querytruth.sets.decision_records import Decision, DecisionT, HumanCaption, latest_by_target, parse_decision
from querytruth.sets.manifest import LogRecord, read_manifest
from querytruth.sets.published_files import describe_lost_versions, is_own_version

_CHAINED = re.compile(r', "chain": "([0-9a-f]{32})"\}\Z')  # in a string of the line, the quotes would be escaped
_SHOWN = 3  # ids of lost decisions
CAPTION_LOG_NAME = "captions.jsonl"
DECISION_LOG_NAME = "decisions.jsonl"
_pinned_ids: ContextVar[Collection[str] | None] = ContextVar("pinned_ids", default=None)
LOG_NAMES = (DECISION_LOG_NAME, CAPTION_LOG_NAME)
CHAIN_START = hashlib.sha256().hexdigest()[:32]  # the chain before the first line


def split_chain(line: str) -> tuple[str, str]:
    """Return a line without its chain (a hash of it and the lines before), and the chain, "" where it has none."""
    match = _CHAINED.search(line)
    return (line[: match.start()] + "}", match[1]) if match else (line, "")


def chain_lines(lines: Iterable[str], previous: str) -> list[str]:
    """Return JSON objects of one line each with their chains; `previous` is the chain before them."""
    chained = []
    for line in lines:
        previous = _link(previous, line)
        chained.append(f'{line[:-1]}, "chain": "{previous}"}}')
    return chained


def find_chain_breaks(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and problem of each line that does not continue the chain."""
    previous = CHAIN_START
    for number, line in enumerate(lines, start=1):
        plain, chain = split_chain(line)
        if not chain:
            yield number, "has no chain: it was changed or added by hand"
            continue
        if chain != _link(previous, plain):
            yield number, "does not continue the log: it was changed, or earlier lines are missing, changed or moved"
        previous = chain


def _link(previous: str, line: str) -> str:
    return hashlib.sha256(f"{previous}\n{line}".encode()).hexdigest()[:32]


def list_decision_ids(lines: Sequence[str]) -> set[str]:
    """Return the ids of the decisions in these lines; damaged lines have none."""
    ids = set()
    for line in lines:
        try:
            ids.add(parse_decision(split_chain(line)[0]).decision_id)
        except (ValueError, RecursionError):
            continue
    return ids


def find_log_problems(
    lines: Sequence[str], record: Mapping[str, Any] | None, expected_ids: Collection[str], version: str
) -> list[str]:
    """Return the losses of a log since a version was published, one text for each kind. `record`: of the log in the
    version's manifest (None: of a log that was empty); `expected_ids`: the decisions in effect there."""
    problems = []
    if lost := sorted(set(expected_ids) - list_decision_ids(lines)):
        more = ", …" if len(lost) > _SHOWN else ""
        shown = f"({', '.join(lost[:_SHOWN])}{more})"
        problems.append(f"{len(lost)} of the {len(expected_ids)} decisions in effect in {version} are missing {shown}")
    if record is not None and len(lines) < record["lines"]:
        gone = record["lines"] - len(lines)
        problems.append(f"{gone} of its {record['lines']} lines at the time of {version} are missing")
    elif record is not None and _chain_at(lines[: record["lines"]]) != record["chain"]:
        problems.append(f"line {record['lines']} has changed since {version} was published")
    breaks = list(find_chain_breaks(lines))
    if len(breaks) > (record["breaks"] if record is not None else 0):
        problems.append(f"line {breaks[-1][0]} {breaks[-1][1]}")
    return problems


def _chain_at(lines: Sequence[str]) -> str:
    """Return the chain after the last of these lines; after one without a chain, one that depends on it."""
    return (split_chain(lines[-1])[1] or _link(CHAIN_START, lines[-1])) if lines else CHAIN_START


class DecisionLog(Generic[DecisionT]):
    """The decisions of one kind, or of several, in the logs of the set at `folder`."""

    def __init__(self, folder: Path, kind: type[DecisionT] | tuple[type[DecisionT], ...]) -> None:
        self._kind = kind
        name, self._noun = (CAPTION_LOG_NAME, "captions") if kind is HumanCaption else (DECISION_LOG_NAME, "decisions")
        self._path = contained_path(folder, name, f"read {self._noun}")

    def read_from(self, start: int) -> tuple[list[DecisionT], int]:
        """Return the decisions after the first `start` bytes, in order, and the length of the log in bytes. Raises
        UserError for a damaged line."""
        stage = f"read {self._noun}"
        try:
            lines, end = read_lines(self._path, start)
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
        """Add decisions, all or none, and return when they are on disk. Raises UserError."""
        stage = f"save {self._noun}"
        refuse_fetched_copy(self._path, stage)
        try:
            with open_log(self._path, wait=True) as handle:
                last = read_last_line(handle).decode("utf-8", "replace")
                end_of_chain = _chain_at([last] if last else [])
                append_lines(handle, chain_lines([decision.as_json() for decision in decisions], end_of_chain))
        except UnicodeEncodeError:
            raise UserError(stage, self._path, "a text contains half a character", "type that text again") from None
        except OSError as error:
            reason = f"cannot be written ({error.strerror}); no decision was saved"
            raise UserError(stage, self._path, reason, "fix that and try again") from None


def _parse_line(line: bytes, log_name: str) -> Decision:
    """Return the decision of a line of the log `log_name`. Raises ValueError or RecursionError for any other line."""
    decision = parse_decision(split_chain(line.decode())[0])
    if isinstance(decision, HumanCaption) != (log_name == CAPTION_LOG_NAME):
        raise ValueError("is not a caption" if log_name == CAPTION_LOG_NAME else "is not a decision")
    return decision


def verify_logs(folder: Path) -> Iterator[str]:
    """Yield a line per problem of the logs of the set at `folder`: where the chain of a log is broken, and each line
    that is not a decision; every other command stops at such a line."""
    for name in (DECISION_LOG_NAME, CAPTION_LOG_NAME):
        try:
            lines, _ = read_lines(contained_path(folder, name, "verify"))
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
    """Return the whole lines of the log `name` of the set at `folder`; of a missing one none. Raises UserError."""
    path = contained_path(folder, name, "read decisions")
    if not path.exists():
        return []
    with translate_read_errors("read decisions", path, "fix that"):
        return [line.decode("utf-8", "replace") for line in read_lines(path)[0]]


def read_decisions(folder: Path, kind: type[DecisionT]) -> list[DecisionT]:
    """Read all decisions of a kind in the logs of the set at `folder`, in order. Raises UserError for a damaged
    line."""
    return DecisionLog(folder, kind).read_from(0)[0]


def load_decisions(
    folder: Path, kind: type[DecisionT], left_out: Collection[str] = frozenset()
) -> dict[Any, DecisionT]:
    """Return the effective decisions of a kind by target, from the log of the set at `folder`, without those of the ids
    `left_out`; `pinned_decisions` restricts them to its ids. Raises UserError for a damaged line."""
    pinned_ids, log = _pinned_ids.get(), read_decisions(folder, kind)
    if pinned_ids is None:
        return latest_by_target(entry for entry in log if entry.decision_id not in left_out)
    return latest_by_target(entry for entry in log if entry.decision_id in pinned_ids)


def pinned_decisions(decision_ids: Collection[str]) -> AbstractContextManager[None]:
    """Make `load_decisions` return these decisions and no others: a version is built again with those that it holds."""
    return hold_value(_pinned_ids, decision_ids)


def append_decisions(folder: Path, decisions: Sequence[DecisionT]) -> None:
    """Add decisions to a log of the set at `folder`, as `DecisionLog.append` does. Raises UserError."""
    if decisions:
        DecisionLog(folder, type(decisions[0])).append(decisions)


@dataclass(frozen=True, slots=True)
class LogLoss:
    """A log (its file name) that lost something, and what."""

    log: str
    problems: list[str]

    def __str__(self) -> str:
        return f"{self.log}: {'; '.join(self.problems)}"


def make_log_records(folder: Path) -> dict[str, LogRecord]:
    """Return the records of the logs of the set at `folder` for a manifest, by file name; of those that hold a line.
    Raises UserError for a log that cannot be read."""
    lines_by_name = {name: read_log_lines(folder, name) for name in LOG_NAMES}
    return {
        name: {"lines": len(lines), "chain": _chain_at(lines), "breaks": sum(1 for _ in find_chain_breaks(lines))}
        for name, lines in lines_by_name.items()
        if lines
    }


def find_lost_decisions(version: Path) -> list[LogLoss]:
    """Return the losses of the logs since the version was published. A set from elsewhere may come without its logs,
    and get new ones here: that is not a loss. Raises UserError for a log that cannot be read."""
    manifest = read_manifest(version)
    losses = []
    for name in LOG_NAMES:
        lines, record = read_log_lines(version.parent, name), manifest.get("decision_logs", {}).get(name)
        in_effect = manifest["decisions"]["in_effect"] if name == DECISION_LOG_NAME else []
        if not is_own_version(version) and not _is_same_log(lines, record, in_effect):
            continue
        if problems := find_log_problems(lines, record, in_effect, version.name):
            losses.append(LogLoss(name, problems))
    return losses


def _is_same_log(lines: list[str], record: Mapping[str, Any] | None, in_effect: list[str]) -> bool:
    """Return whether the log holds anything that the version's log had: some of its decisions or its line at the
    end."""
    if not list_decision_ids(lines).isdisjoint(in_effect):
        return True
    return record is not None and any(f'"chain": "{record["chain"]}"' in line for line in lines)


def verify_decision_logs(version: Path) -> Iterator[str]:
    """Yield a line per problem of the logs and later versions: where the chain of a log is broken, lines lost since the
    version was published, and later versions that are missing."""
    yield from verify_logs(version.parent)
    yield from describe_lost_versions(version.parent)
    with suppress(UserError):  # a damaged manifest or log, which is named already
        yield from map(str, find_lost_decisions(version))


def check_no_decision_is_lost(version: Path, stage: str, *, accept_loss: bool | None) -> list[LogLoss]:
    """Return what the logs lost since the version was published. Raises UserError where that is something, unless it
    is accepted; None: it cannot be."""
    losses = find_lost_decisions(version)
    if losses and not accept_loss:
        next_step = "copy the log from where the set was built; show, evaluate and export work without it"
        if accept_loss is not None:
            next_step = "restore the log from a backup, or give --accept-loss to continue without the lost decisions"
        raise UserError(stage, version.parent / losses[0].log, "; ".join(losses[0].problems), next_step)
    return losses


def lint_decision_logs(version: Path) -> list[LintFinding]:
    """Return a finding for each log that lost something since the version was published."""
    says = "the log lost decisions of people: a build or an apply would undo them"
    losses = find_lost_decisions(version)
    return [LintFinding("lost_decisions", "error", len(loss.problems), says, (str(loss),)) for loss in losses]
