"""The generated set of the sample album: answers for its two reviews, and an evaluation of its judgments."""

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
    """Write the sample album's answers into a review table of the stage, as a person would in a spreadsheet, and return
    how many. Raises UserError where the table lacks a row."""
    with (SAMPLE_DEFINITIONS_FOLDER / "answers.csv").open(encoding="utf-8", newline="") as file:
        answers = {(row["topic"], row["text"]): row for row in csv.DictReader(file) if row["stage"] == stage}
    filled = review_csv.read_review_csv(table)
    rows = filled.rows.reset_index(drop=True)
    matched_answers = [answers.pop(key, {}) for key in zip(rows["topic"], rows["text"], strict=True)]
    if answers:
        reason = f"has no row {', '.join(text for _, text in answers)}"
        raise UserError("fill in answers", table, reason, "fix datasets/sample-album/answers.csv")
    for column in ("decision", "new_text", "note"):
        pairs = zip(matched_answers, rows[column], strict=True)
        rows[column] = [answer.get(column) or current for answer, current in pairs]
    answered = ReviewExport(filled.export_id, filled.set_name, filled.view, rows, filled.sample)
    review_csv.write_review_csv(answered, table)
    return sum(bool(answer) for answer in matched_answers)


def check_sample_queries(path: Path, album_images: Iterable[AlbumImage]) -> QueryEvaluation:
    """The judgments of the generated set at `path`, evaluated against the album's scenes."""
    return evaluate_queries(set_files.read_set(path, ("queries", "images", "qrels")).tables, album_images)
