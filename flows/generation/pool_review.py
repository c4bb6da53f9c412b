"""Tables of pools handed to people as CSV, and what they wrote taken back.

Each table is kept as it was handed out, so that a filled-in file is checked cell by cell however the pools have
changed since. Decisions go to a log of their own; a newer table comes with those that still apply filled in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from backends.sets import decision_log, review_csv
from backends.sets.review_csv import Filled
from builders.decisions import Decision
from builders.errors import UserError
from builders.generated.pool_review import unsaid_again, with_answers
from builders.review_tables import Allow, Export, Reading, read_back
from flows.definitions.generated import GeneratedDefinition
from flows.generation.generation_rounds import folder_of
from flows.steps import current

_SHOWN_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Filling:
    """How a filled-in CSV is read: what it may lack, and its encoding where it does not say."""

    allow: Allow = field(default_factory=Allow)
    encoding: str | None = None


def review_file(definition: GeneratedDefinition, stage: str) -> Path:
    """Where a stage's table is handed out."""
    return definition.out / definition.name / "review" / f"{stage}.csv"


def hand_out(definition: GeneratedDefinition, stage: str, export: Export, filling: Filling) -> Path:
    """Write the table for people to fill in. One that they have been given already stays as it is; what they wrote
    into an older one is taken back first."""
    path = review_file(definition, stage)
    if path.exists():
        filled = review_csv.read_csv(path, filling.encoding)
        if filled.export_id == export.export_id:
            return path
        _take(definition, stage, filled, path, filling.allow)
    _write(export, _pristine(definition, stage, export.export_id))
    log = decision_log.read_log(folder_of(definition) / stage)
    _write(with_answers(export, log), path)
    return path


def take_back(
    definition: GeneratedDefinition, stage: str, next_step: str, filling: Filling
) -> tuple[Export, list[Decision]]:
    """The table as it was handed out, and the decisions in the file that people have."""
    path = review_file(definition, stage)
    if not path.exists():
        raise UserError("read review CSV", path, "is not there yet", next_step)
    return _take(definition, stage, review_csv.read_csv(path, filling.encoding), path, filling.allow)


def _take(
    definition: GeneratedDefinition, stage: str, filled: Filled, path: Path, allow: Allow
) -> tuple[Export, list[Decision]]:
    export = _handed_out(definition, stage, filled, path)
    reading = read_back(export, filled.rows, allow)
    if reading.problems:
        raise _refused(path, reading)
    folder = folder_of(definition) / stage
    decision_log.append(folder, unsaid_again(export, reading.decisions, decision_log.read_log(folder)))
    return export, reading.decisions


def _handed_out(definition: GeneratedDefinition, stage: str, filled: Filled, path: Path) -> Export:
    kept = _pristine(definition, stage, filled.export_id)
    if filled.set_name != f"{definition.name}/v0" or not kept.exists():
        reason = f"is the export {filled.export_id} of {filled.set_name}, which this stage did not hand out"
        raise UserError("read review CSV", path, reason, f"give the {stage} of {definition.name}, or move it away")
    pristine = review_csv.read_csv(kept)
    return Export(pristine.export_id, pristine.set_name, pristine.view, pristine.rows.reset_index(drop=True))


def _pristine(definition: GeneratedDefinition, stage: str, export_id: str) -> Path:
    return folder_of(definition) / stage / f"{export_id}.csv"


def _write(export: Export, path: Path) -> None:
    try:
        review_csv.write_csv(export, path)
    except OSError as error:
        reason = f"cannot be written ({error.strerror})"
        raise UserError("hand out review CSV", path, reason, "mend that, then run the same command") from None


def _refused(path: Path, reading: Reading) -> UserError:
    for problem in reading.problems[:_SHOWN_PROBLEMS]:
        current().reporter.say(f"{path} {problem}")
    count = len(reading.problems)
    reason = f"{count} problems, the first: {reading.problems[0]}; no decision was taken"
    return UserError("read review CSV", path, reason, "mend those cells, or allow just that (see --help)")
