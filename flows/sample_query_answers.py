"""The sample album's generated set: what people would answer at its two reviews, and whether its judgments are true."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from backends.sets import review_csv, set_files
from builders.decisions.review_tables import ReviewExport
from builders.errors import UserError
from flows.sample_album_files import SAMPLE_DEFINITIONS_FOLDER
from sample_album import AlbumImage
from sample_album.query_evaluation import QueryEvaluation, evaluate_queries


def fill_in_answers(table: Path, stage: str) -> int:
    """Write the answers kept with the sample album into a table that a stage handed out, as a person would who opens
    it in a spreadsheet, and return how many. The next stage reads it like any other."""
    with (SAMPLE_DEFINITIONS_FOLDER / "answers.csv").open(encoding="utf-8", newline="") as file:
        answers = {(row["topic"], row["text"]): row for row in csv.DictReader(file) if row["stage"] == stage}
    filled = review_csv.read_review_csv(table)
    rows = filled.rows.reset_index(drop=True)
    matched_answers = [answers.pop(key, {}) for key in zip(rows["topic"], rows["text"], strict=True)]
    if answers:
        reason = f"has no row {', '.join(text for _, text in answers)}"
        raise UserError("fill in answers", table, reason, "mend datasets/sample-album/answers.csv")
    for column in ("decision", "new_text", "note"):
        rows[column] = [
            answer.get(column) or current_value
            for answer, current_value in zip(matched_answers, rows[column], strict=True)
        ]
    review_csv.write_review_csv(
        ReviewExport(filled.export_id, filled.set_name, filled.view, rows, filled.sample), table
    )
    return sum(bool(answer) for answer in matched_answers)


def check_sample_queries(path: Path, album_images: Iterable[AlbumImage]) -> QueryEvaluation:
    """The generated set at `path` beside what was drawn."""
    return evaluate_queries(set_files.read_set(path, ("queries", "images", "qrels")).tables, album_images)
