"""Tables for people: exported as CSV, imported as a whole or not at all."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, Field

from querytruth.errors import UserError, translate_write_errors
from querytruth.sets import decision_log, decision_records, judgment_rows, review_csv, review_tables, set_files
from querytruth.sets.manifest import read_manifest
from querytruth.sets.review_csv import ReviewTableOptions
from querytruth.sets.set_files import StoredSet
from querytruth.sets.set_thumbnails import make_set_thumbnails

SAMPLED_JUDGMENTS = 500  # judgments in a CSV, besides all pairs that wait for one


def build_review_export(path: Path, view: str, sample: int) -> review_tables.ReviewExport:
    """Return the queries or judgments of a version for review, the same at every call. Raises UserError where it has
    no queries."""
    return _export_tables(_read_reviewed_set(path), view, sample)


def write_review_export(export: review_tables.ReviewExport, path: Path, file: Path, xlsx: bool) -> list[Path]:
    """Write a table as CSV and, with `xlsx`, also as .xlsx beside it; return the files. Raises UserError."""
    with translate_write_errors("export review CSV", file, "or give another path as --to (to=…)"):
        review_csv.write_review_csv(export, file, path)
        if not xlsx:
            return [file]
        _write_review_sheet(export, path, sheet := file.with_suffix(".xlsx"))
        return [file, sheet]


def _write_review_sheet(export: review_tables.ReviewExport, path: Path, file: Path) -> None:
    """Write a table as .xlsx with a thumbnail in each row: of a judgment its image, of a query its best one."""
    stored = set_files.read_set(path, ("images", "qrels"))
    if export.view == "queries":
        relevant = stored.tables.qrels[stored.tables.qrels["relevance"] > 0]
        best = relevant.sort_values("relevance", ascending=False, kind="stable").drop_duplicates("query_id")
        image_of = dict(zip(best["query_id"].astype(str), best["image_id"].astype(str), strict=True))
        shown = [image_of.get(query) for query in export.rows["query_id"]]
    else:
        shown = export.rows["image_id"].tolist()
    thumbnails = make_set_thumbnails(stored, sorted({one for one in shown if one is not None}))
    review_csv.write_review_xlsx(export, file, [thumbnails.get(one or "") for one in shown])


def _read_reviewed_set(path: Path) -> StoredSet:
    names = ("queries", "images", "qrels", "duplicates", "candidate_judgments", "query_aliases")
    stored = set_files.read_set(path, names)
    if not len(stored.tables.queries):
        raise UserError("review", path, "contains no queries", "open it with querytruth show SET --page FILE")
    return stored


def _export_tables(stored: StoredSet, view: str, sample: int) -> review_tables.ReviewExport:
    manifest = stored.manifest
    name, digest = f"{manifest['name']}/v{manifest['version']}", manifest["content_digest"]
    if view == "queries":
        return review_tables.export_queries(stored.tables, name, digest)
    grades = tuple(sorted(int(grade) for grade in manifest["grades"]))
    return review_tables.export_judgments(stored.tables, name, digest, sample, grades)


def read_filled_export(
    path: Path, file: Path, reviewer: str, options: ReviewTableOptions, allow_other_export: bool
) -> review_tables.ReviewImportResult:
    """Return the decisions of a filled-in CSV about the set at `path`, or the problems because of which all are
    refused; stores nothing. A row without a digest in a table of judgments adds a judgment. Raises UserError where it
    is not an export of that version."""
    filled = review_csv.read_review_csv(file, options.encoding)
    if filled.view == "audit":
        raise UserError(
            "import review CSV", file, "is the sample of an audit", "querytruth review import-csv SET FILE --audit NAME"
        )
    stored = _find_exported_version(path, filled, file, allow_other_export)
    export = _export_tables(stored, filled.view, filled.sample)
    if (export.export_id, export.sample) != (filled.export_id, filled.sample):
        reason = f"has export id {filled.export_id}, but the set has {export.export_id}"
        raise UserError("import review CSV", file, reason, "export again")
    additions = _read_additions(stored, filled.rows, file) if filled.view == "judgments" else None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return review_tables.read_filled_table(export, filled.rows, options.allow, reviewer, now, additions)


def _read_additions(stored: StoredSet, rows: pd.DataFrame, file: Path) -> judgment_rows.JudgmentAdditions:
    """Return what resolves the rows without a digest. Raises UserError for an ambiguous name."""
    additions = judgment_rows.JudgmentAdditions(stored.tables)
    if not {review_tables.DIGEST_COLUMN, "query_id", "image_id", "image"} <= set(rows):
        return additions  # the problem is named where the rows are read
    added = rows[rows[review_tables.DIGEST_COLUMN].str.strip() == ""].map(str.strip)
    images = {name for name in {*added["image_id"], *added["image"]} if name and not additions.has_name(name)}
    from querytruth.review.foreign_judgments import SetNames  # it loads what evaluates: a second, where a page opens

    names = SetNames(stored.tables, file)
    found = names.match_images(images) | names.match_queries(set(added["query_id"]) - {""}) if len(added) else {}
    return judgment_rows.JudgmentAdditions(stored.tables, found)


def _find_exported_version(
    path: Path, filled: review_tables.ReviewExport, file: Path, allow_other_export: bool
) -> StoredSet:
    """Return the version that a CSV names. Raises UserError for another set or version."""
    manifest = read_manifest(path)
    current = f"{manifest['name']}/v{manifest['version']}"
    name, version = filled.set_name.split("/")
    if name != manifest["name"]:
        reason = f"is an export of {filled.set_name}, not of {current}"
        raise UserError("import review CSV", file, reason, f"import it into {filled.set_name}")
    if filled.set_name != current and not allow_other_export:
        reason = f"is an export of {filled.set_name}, but the set is at {current}"
        raise UserError("import review CSV", file, reason, "export again, or add --allow-other-export")
    return _read_reviewed_set(set_files.find_set(str(path.parent / version)))


def take_decisions(folder: Path, decisions: Sequence[decision_records.DecisionT]) -> int:
    """Add the decisions of an export to the log of the set at `folder`, but none that was imported from this export
    before: a second import would supersede what people decided since. Return the number of those."""
    if not decisions:
        return 0
    known = {replace(decision, at="") for decision in decision_log.read_decisions(folder, type(decisions[0]))}
    new = [decision for decision in decisions if replace(decision, at="") not in known]
    decision_log.append_decisions(folder, new)
    return len(decisions) - len(new)


class CsvUploadOptions(BaseModel, extra="forbid"):
    """The file name, the problems to allow, and the encoding of a file that does not state its own."""

    file: Annotated[str, Field(max_length=200)] = "upload.csv"
    dry_run: bool = True
    allow_missing: bool = False
    allow_doubled: bool = False
    allow_unknown: bool = False
    allow_changed: bool = False
    allow_other_export: bool = False
    encoding: Literal["", "utf-8", "gb18030", "big5", "latin-1"] = ""


def list_relaxed_options(options: CsvUploadOptions) -> dict[str, CsvUploadOptions]:
    """Return the options with one more problem allowed, by the name of the option."""
    flags = [name for name in CsvUploadOptions.model_fields if name.startswith("allow_") and not getattr(options, name)]
    relaxed = {name: options.model_copy(update={name: True}) for name in flags}
    if not options.encoding:
        relaxed["encoding"] = options.model_copy(update={"encoding": "latin-1"})  # reads any bytes
    return relaxed


def export_review_csv(path: Path, view: str) -> bytes:
    """Return a view's CSV, as `review export-csv` writes it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{view}.csv"
        review_csv.write_review_csv(build_review_export(path, view, SAMPLED_JUDGMENTS), file)
        return file.read_bytes()


def import_review_csv(path: Path, data: bytes, upload: CsvUploadOptions, reviewer: str) -> dict[str, Any]:
    """Import the decisions of a filled-in CSV unless it is a dry run; or returns all its problems, with nothing
    imported, and the options that would tolerate some of them (`offers`)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "upload.csv"  # never by the name that it was sent with
        file.write_bytes(data)
        reading = _read_upload(path, file, upload, reviewer)
        if reading.problems:
            problems = [problem.replace(str(file), upload.file) for problem in reading.problems]
            relaxed = list_relaxed_options(upload).items()
            others = {name: _read_upload(path, file, other, reviewer).problems for name, other in relaxed}
            offers = [name for name, others_problems in others.items() if others_problems != reading.problems]
            return {"problems": problems, "offers": offers, "decisions": [], "taken": False}
    if not upload.dry_run:
        take_decisions(path.parent, reading.decisions)
    shown = [
        asdict(decision) | {"new": decision.new_text or ("" if decision.relevance is None else decision.relevance)}
        for decision in reading.decisions
    ]
    decision_counts = review_tables.describe_import(reading)
    return {"problems": [], "offers": [], "decisions": shown, "tally": decision_counts, "taken": not upload.dry_run}


def _read_upload(path: Path, file: Path, upload: CsvUploadOptions, reviewer: str) -> review_tables.ReviewImportResult:
    allow = review_tables.ImportTolerances(
        upload.allow_missing, upload.allow_doubled, upload.allow_unknown, upload.allow_changed
    )
    options = ReviewTableOptions(allow, upload.encoding)
    try:
        return read_filled_export(path, file, reviewer, options, upload.allow_other_export)
    except UserError as error:
        return review_tables.ReviewImportResult(problems=[str(error)])
