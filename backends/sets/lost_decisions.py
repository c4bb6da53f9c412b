"""Decisions that a version holds and that the logs beside it lost."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.sets.decision_log import CAPTION_LOG_NAME, DECISION_LOG_NAME, read_log_lines, verify_logs
from backends.sets.manifest_reading import read_manifest
from backends.sets.trusted_sources import is_own_version
from backends.sets.version_numbers import describe_lost_versions
from builders.decisions.log_record import find_log_problems, list_decision_ids, make_log_record
from builders.errors import UserError
from builders.lint import LintFinding

LOG_NAMES = (DECISION_LOG_NAME, CAPTION_LOG_NAME)


@dataclass(frozen=True, slots=True)
class LogLoss:
    """A log (its file name) that lost something, and what."""

    log: str
    problems: list[str]

    def __str__(self) -> str:
        return f"{self.log}: {'; '.join(self.problems)}"


def make_log_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the records of the logs of the set at `folder` for a manifest, by file name; of those that hold a line.
    Raises UserError for a log that cannot be read."""
    lines_by_name = {name: read_log_lines(folder, name) for name in LOG_NAMES}
    return {name: make_log_record(lines) for name, lines in lines_by_name.items() if lines}


def find_lost_decisions(version: Path) -> list[LogLoss]:
    """Returns what the logs lost since the version was published. A set from elsewhere may come without its logs, and
    get new ones here: that is no loss. Raises UserError for a log that cannot be read."""
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
    """Whether the log holds anything that the version's log had: some of its decisions or its line at the end."""
    if not list_decision_ids(lines).isdisjoint(in_effect):
        return True
    return record is not None and any(f'"chain": "{record["chain"]}"' in line for line in lines)


def verify_decision_logs(version: Path) -> Iterator[str]:
    """Yields a line per problem beside the version: where the chain of a log is broken, what it lost since the version
    was published, and later versions that are gone."""
    yield from verify_logs(version.parent)
    yield from describe_lost_versions(version.parent)
    with suppress(UserError):  # a damaged manifest or log, which is named already
        yield from map(str, find_lost_decisions(version))


def check_no_decision_is_lost(version: Path, stage: str, *, accept_loss: bool | None) -> list[LogLoss]:
    """Returns what the logs lost since the version was published. Raises UserError where that is something, unless it
    is accepted; None: it cannot be."""
    losses = find_lost_decisions(version)
    if losses and not accept_loss:
        next_step = "restore the log from a backup"
        if accept_loss is not None:
            next_step += ", or say --accept-loss to go on without what is gone"
        raise UserError(stage, version.parent / losses[0].log, "; ".join(losses[0].problems), next_step)
    return losses


def lint_decision_logs(version: Path) -> list[LintFinding]:
    """Returns a finding for each log that lost something since the version was published."""
    says = "a log lost what people decided: a build or an apply would undo it"
    losses = find_lost_decisions(version)
    return [LintFinding("lost_decisions", "error", len(loss.problems), says, (str(loss),)) for loss in losses]
