"""The review page's CSV: a table handed out, and taken back as a whole or not at all."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builders.errors import UserError

if TYPE_CHECKING:
    from builders.review_tables import Reading
    from review.server.upload import Upload

_SAMPLE = 500  # judgments in the CSV, besides all pairs that wait for one


def handed_out(path: Path, view: str) -> bytes:
    """A view's CSV, as `review export-csv` writes it."""
    from backends.sets import review_csv
    from querytruth.judging import export_of

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{view}.csv"
        review_csv.write_csv(export_of(path, view, _SAMPLE), file)
        return file.read_bytes()


def taken(path: Path, data: bytes, upload: Upload, reviewer: str) -> dict[str, Any]:
    """What a filled-in CSV decides, taken unless it is a dry run; or all its problems, nothing taken, and what would
    overlook some of them (`offers`)."""
    from backends.sets import decision_log
    from builders.review_tables import tally
    from review.server.upload import overlooking

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "upload.csv"  # never by the name that it was sent with
        file.write_bytes(data)
        reading = _read(path, file, upload, reviewer)
        if reading.problems:
            problems = [problem.replace(str(file), upload.file) for problem in reading.problems]
            others = {name: _read(path, file, other, reviewer) for name, other in overlooking(upload).items()}
            offers = [name for name, other in others.items() if other.problems != reading.problems]
            return {"problems": problems, "offers": offers, "decisions": [], "taken": False}
    if not upload.dry_run:
        decision_log.append(path.parent, reading.decisions)
    shown = [
        asdict(decision) | {"new": decision.new_text or ("" if decision.relevance is None else decision.relevance)}
        for decision in reading.decisions
    ]
    counted = ", ".join(f"{number} {kind}" for kind, number in tally(reading.decisions).items())
    return {"problems": [], "offers": [], "decisions": shown, "tally": counted, "taken": not upload.dry_run}


def _read(path: Path, file: Path, upload: Upload, reviewer: str) -> Reading:
    from builders.review_tables import Allow, Reading
    from querytruth.judging import read_filled

    allow = Allow(upload.allow_missing, upload.allow_doubled, upload.allow_unknown, upload.allow_changed)
    try:
        return read_filled(path, file, reviewer, allow, upload.allow_other_export, upload.encoding)
    except UserError as error:
        return Reading(problems=[str(error)])
