"""Tables of pools handed to people as CSV, and what they wrote taken back.

Each table is kept as it was handed out, so that a filled-in file is checked cell by cell however the pools have
changed since. Decisions go to a log of their own; a newer table comes with those that still apply filled in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from backends.durable_files import file_sha256
from backends.journals.handed_out import as_handed_out, kept_table
from backends.journals.stage_summary import read_summary, write_summary
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
_READS = {"topics": "objects", "objects": "collect"}  # the command that goes on from a table


@dataclass(frozen=True, slots=True)
class Filling:
    """How a filled-in CSV is read: what it may lack, and its encoding where it does not say; None where the person
    could have said it, '' where there is no way to."""

    allow: Allow = field(default_factory=Allow)
    encoding: str | None = ""

    @property
    def allowed(self) -> list[str]:
        """The names of what it may lack."""
        return [name for name, is_allowed in asdict(self.allow).items() if is_allowed]

    @property
    def overlooks(self) -> bool:
        """Whether it takes a file that is not as it was handed out."""
        return bool(self.allowed or self.encoding)

    @property
    def told(self) -> str:
        """As options of a command."""
        options = [f"--allow-{name}" for name in self.allowed]
        return " ".join(options + ([f"--encoding {self.encoding}"] if self.encoding else []))


def review_file(definition: GeneratedDefinition, stage: str) -> Path:
    """Where a stage's table is handed out."""
    return definition.out / definition.name / "review" / f"{stage}.csv"


def hand_out(definition: GeneratedDefinition, stage: str, export: Export, filling: Filling) -> Path:
    """Write the table for people to fill in. One that they have been given already stays as it is; what they wrote
    into an older one is taken back first."""
    path = review_file(definition, stage)
    if path.exists():
        used = _as_allowed(definition, stage, filling)
        filled = review_csv.read_csv(path, used.encoding)
        if filled.export_id == export.export_id:
            return path
        _take(definition, stage, filled, path, used.allow)
    _write(export, kept_table(folder_of(definition), stage, export.export_id))
    log = decision_log.read_log(folder_of(definition) / stage)
    _write(with_answers(export, log), path)
    return path


def take_back(
    definition: GeneratedDefinition, stage: str, next_step: str, filling: Filling
) -> tuple[Export, list[Decision]]:
    """The table as it was handed out, and the decisions in the file that people have. What that reading was allowed to
    overlook holds for all later ones of the same bytes: a build follows what the stage before it accepted."""
    path = review_file(definition, stage)
    if not path.exists():
        raise UserError("read review CSV", path, "is not there yet", next_step)
    used = _as_allowed(definition, stage, filling)
    taken = _take(definition, stage, review_csv.read_csv(path, used.encoding), path, used.allow)
    if filling.overlooks:
        _keep_allowed(definition, stage, filling)
    return taken


def _take(
    definition: GeneratedDefinition, stage: str, filled: Filled, path: Path, allow: Allow
) -> tuple[Export, list[Decision]]:
    export = as_handed_out(folder_of(definition), stage, filled)
    if export is None:
        reason = f"is the export {filled.export_id} of {filled.set_name}, which this stage did not hand out"
        raise UserError("read review CSV", path, reason, f"give the {stage} of {definition.name}, or move it away")
    reading = read_back(export, filled.rows, allow)
    if reading.problems:
        raise _refused(path, reading, stage)
    folder = folder_of(definition) / stage
    decision_log.append(folder, unsaid_again(export, reading.decisions, decision_log.read_log(folder)))
    return export, reading.decisions


def _as_allowed(definition: GeneratedDefinition, stage: str, filling: Filling) -> Filling:
    """How the file is read: as asked, or, where nothing is, as when the same bytes were taken before."""
    path, note = review_file(definition, stage), _allowed_file(definition, stage)
    if filling.overlooks or not path.is_file() or not note.exists():
        return filling
    told = read_summary(note, f"remove it, and say again what {path.name} may lack")
    if told["sha256"] != file_sha256(path)[0]:
        return filling
    as_before = Filling(Allow(**dict.fromkeys(told["allow"], True)), told["encoding"])
    current().reporter.say(f"{path} is read as before: {as_before.told}")
    return as_before


def _keep_allowed(definition: GeneratedDefinition, stage: str, filling: Filling) -> None:
    told = {"allow": filling.allowed, "encoding": filling.encoding}
    told["sha256"] = file_sha256(review_file(definition, stage))[0]
    write_summary(_allowed_file(definition, stage), told)


def _allowed_file(definition: GeneratedDefinition, stage: str) -> Path:
    return folder_of(definition) / stage / "allowed.json"


def _write(export: Export, path: Path) -> None:
    try:
        review_csv.write_csv(export, path)
    except OSError as error:
        reason = f"cannot be written ({error.strerror})"
        raise UserError("hand out review CSV", path, reason, "mend that, then run the same command") from None


def _refused(path: Path, reading: Reading, stage: str) -> UserError:
    for problem in reading.problems[:_SHOWN_PROBLEMS]:
        current().reporter.say(f"{path} {problem}")
    count = len(reading.problems)
    reason = f"{count} problems, the first: {reading.problems[0]}; no decision was taken"
    next_step = f"mend those cells, or allow just that: querytruth {_READS[stage]} --help"
    return UserError("read review CSV", path, reason, next_step)
