"""The review page's CSV: a table handed out, and taken back as a whole or not at all."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builders.errors import UserError

if TYPE_CHECKING:
    from builders.review_tables import ReviewImportResult
    from review.server.csv_upload import CsvUploadOptions

_SAMPLED_JUDGMENTS = 500  # judgments in the CSV, besides all pairs that wait for one


def export_review_csv(path: Path, view: str) -> bytes:
    """A view's CSV, as `review export-csv` writes it."""
    from backends.sets import review_csv
    from querytruth.review_commands import build_review_export

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{view}.csv"
        review_csv.write_review_csv(build_review_export(path, view, _SAMPLED_JUDGMENTS), file)
        return file.read_bytes()


def import_review_csv(path: Path, data: bytes, upload: CsvUploadOptions, reviewer: str) -> dict[str, Any]:
    """What a filled-in CSV decides, taken unless it is a dry run; or all its problems, nothing taken, and what would
    overlook some of them (`offers`)."""
    from backends.sets import decision_log
    from builders.review_tables import count_decisions
    from review.server.csv_upload import list_relaxed_options

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "upload.csv"  # never by the name that it was sent with
        file.write_bytes(data)
        reading = _read(path, file, upload, reviewer)
        if reading.problems:
            problems = [problem.replace(str(file), upload.file) for problem in reading.problems]
            others = {name: _read(path, file, other, reviewer) for name, other in list_relaxed_options(upload).items()}
            offers = [name for name, other in others.items() if other.problems != reading.problems]
            return {"problems": problems, "offers": offers, "decisions": [], "taken": False}
    if not upload.dry_run:
        decision_log.append_decisions(path.parent, reading.decisions)
    shown = [
        asdict(decision) | {"new": decision.new_text or ("" if decision.relevance is None else decision.relevance)}
        for decision in reading.decisions
    ]
    decision_counts = ", ".join(f"{number} {kind}" for kind, number in count_decisions(reading.decisions).items())
    return {"problems": [], "offers": [], "decisions": shown, "tally": decision_counts, "taken": not upload.dry_run}


def _read(path: Path, file: Path, upload: CsvUploadOptions, reviewer: str) -> ReviewImportResult:
    from builders.review_tables import ImportTolerances, ReviewImportResult
    from querytruth.review_commands import read_review_csv

    allow = ImportTolerances(upload.allow_missing, upload.allow_doubled, upload.allow_unknown, upload.allow_changed)
    try:
        return read_review_csv(path, file, reviewer, allow, upload.allow_other_export, upload.encoding)
    except UserError as error:
        return ReviewImportResult(problems=[str(error)])
