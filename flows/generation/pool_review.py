"""Exports the tables of pools as CSV for people, and imports what they filled in.

Each table is stored as it was exported, so that a filled-in file is checked cell by cell however the pools have changed
since. Decisions go to a log of their own; a newer table starts with those that still apply.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from backends.durable_files import file_sha256
from backends.file_errors import translate_write_errors
from backends.journals.exported_tables import exported_table_path, read_exported_table
from backends.journals.stage_summary import read_summary, write_summary
from backends.sets import review_csv
from backends.sets.decision_log import append_decisions, read_decisions
from builders.decisions.records import QueryDecision
from builders.decisions.review_tables import ImportTolerances, ReviewExport, ReviewImportResult, read_filled_table
from builders.errors import UserError
from builders.self_instruct.pool_exports import complete_decision_log, fill_in_decisions
from flows.definitions.generated import GeneratedDefinition
from flows.generation.generation_rounds import generation_folder
from flows.steps import current_run

_SHOWN_PROBLEMS = 20
_READS = {"topics": "objects", "objects": "collect"}  # the command that goes on from a table


@dataclass(frozen=True, slots=True)
class ReviewTableOptions:
    """How a filled-in CSV is read: what it may lack, and its encoding where the file does not state it. None: the user
    gave no encoding but could; '': there is no way to give one."""

    allow: ImportTolerances = field(default_factory=ImportTolerances)
    encoding: str | None = ""

    @property
    def allowed(self) -> list[str]:
        """Returns the names of what the file may lack."""
        return [name for name, is_allowed in asdict(self.allow).items() if is_allowed]

    @property
    def is_lenient(self) -> bool:
        """Whether a file is accepted that differs from its export."""
        return bool(self.allowed or self.encoding)


def review_table_path(definition: GeneratedDefinition, stage: str) -> Path:
    """Returns the path of a stage's table."""
    return definition.out / definition.name / "review" / f"{stage}.csv"


def export_review_table(
    definition: GeneratedDefinition, stage: str, export: ReviewExport, table_options: ReviewTableOptions
) -> Path:
    """Writes the table for people to fill in. An exported table that is still current stays; decisions in an older one
    are imported first."""
    path = review_table_path(definition, stage)
    if path.exists():
        effective_options = _effective_options(definition, stage, table_options)
        filled = review_csv.read_review_csv(path, effective_options.encoding)
        if filled.export_id == export.export_id:
            return path
        _import_decisions(definition, stage, filled, path, effective_options.allow)
    _write(export, exported_table_path(generation_folder(definition), stage, export.export_id))
    log = read_decisions(generation_folder(definition) / stage, QueryDecision)
    _write(fill_in_decisions(export, log), path)
    return path


def import_review_table(
    definition: GeneratedDefinition, stage: str, next_step: str, table_options: ReviewTableOptions
) -> tuple[ReviewExport, list[QueryDecision]]:
    """Returns the table as it was exported, and the decisions in the filled-in file. The tolerances that a reading used
    hold for all later readings of the same bytes: a build accepts what the stage before it accepted."""
    path = review_table_path(definition, stage)
    if not path.exists():
        raise UserError(review_csv.REVIEW_CSV_STAGE, path, "is not there yet", next_step)
    effective_options = _effective_options(definition, stage, table_options)
    filled = review_csv.read_review_csv(path, effective_options.encoding)
    export_and_decisions = _import_decisions(definition, stage, filled, path, effective_options.allow)
    if table_options.is_lenient:
        stored_options = {"allow": table_options.allowed, "encoding": table_options.encoding}
        write_summary(_allowed_file(definition, stage), {**stored_options, "sha256": file_sha256(path)[0]})
    return export_and_decisions


def _import_decisions(
    definition: GeneratedDefinition, stage: str, filled_table: ReviewExport, path: Path, allow: ImportTolerances
) -> tuple[ReviewExport, list[QueryDecision]]:
    export = read_exported_table(generation_folder(definition), stage, filled_table)
    if export is None:
        reason = f"is the export {filled_table.export_id} of {filled_table.set_name}, which this stage did not hand out"
        raise UserError(
            review_csv.REVIEW_CSV_STAGE, path, reason, f"give the {stage} of {definition.name}, or move it away"
        )
    reading = read_filled_table(export, filled_table.rows, allow)
    if reading.problems:
        raise _rejected_table_error(path, reading, stage)
    folder = generation_folder(definition) / stage
    append_decisions(folder, complete_decision_log(export, reading.decisions, read_decisions(folder, QueryDecision)))
    return export, reading.decisions


def _effective_options(
    definition: GeneratedDefinition, stage: str, table_options: ReviewTableOptions
) -> ReviewTableOptions:
    """Returns how the file is read: as the user says, else as when the same bytes were read before."""
    path, note = review_table_path(definition, stage), _allowed_file(definition, stage)
    if table_options.is_lenient or not path.is_file() or not note.exists():
        return table_options
    stored_options = read_summary(note, f"remove it, and say again what {path.name} may lack")
    if stored_options["sha256"] != file_sha256(path)[0]:
        return table_options
    allow = ImportTolerances(**dict.fromkeys(stored_options["allow"], True))
    as_before = ReviewTableOptions(allow, stored_options["encoding"])
    options = [f"--allow-{name}" for name in as_before.allowed]
    options += [f"--encoding {as_before.encoding}"] if as_before.encoding else []
    current_run().reporter.log(f"{path} is read as before: {' '.join(options)}")
    return as_before


def _allowed_file(definition: GeneratedDefinition, stage: str) -> Path:
    return generation_folder(definition) / stage / "allowed.json"


def _write(export: ReviewExport, path: Path) -> None:
    with translate_write_errors("hand out review CSV", path):
        review_csv.write_review_csv(export, path)


def _rejected_table_error(path: Path, reading: ReviewImportResult, stage: str) -> UserError:
    for problem in reading.problems[:_SHOWN_PROBLEMS]:
        current_run().reporter.log(f"{path} {problem}")
    count = len(reading.problems)
    reason = f"{count} problems, the first: {reading.problems[0]}; no decision was taken"
    next_step = f"fix those cells, or allow just that: querytruth {_READS[stage]} --help"
    return UserError(review_csv.REVIEW_CSV_STAGE, path, reason, next_step)
