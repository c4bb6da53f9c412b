"""Tables that people fill in, and the decisions or problems of a filled-in table."""

import hashlib
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from querytruth.backends.files import safe_paths
from querytruth.errors import UserError
from querytruth.records import content_id, list_rows
from querytruth.sets.benchmark_set import Tables, open_candidate_judgments
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.judgment_rows import InvalidAddition, JudgmentAdditions, sample_rows

ANSWER_COLUMNS = ["decision", "new_text", "note"]
DIGEST_COLUMN = "row_digest"
QUERY_EXPORT_COLUMNS = ["query_id", "text", "language", "style", "level", "labels"]

QUERY_EXPORT_COLUMNS += ["relevant", "not_relevant", "examples"]
JUDGMENT_EXPORT_COLUMNS = ["query_id", "image_id", "text", "relevance", "judged_by", "evidence", "image"]
DEFAULT_GRADES = (0, 1, 2)
_EXAMPLES = 3
_FIRST_ROW = 2  # in a spreadsheet: below the columns' names
_SPREADSHEET_FAULT = re.compile(r"#[A-Z0-9/_]+[!?]|#N/A|#{3,}|Err:[0-9]{3}|\?{2,}", re.IGNORECASE)
_CUT_OFF_AT = (255, 32767)  # characters: the limits of a cell in old and new spreadsheets


@dataclass(frozen=True, slots=True)
class ReviewExport:
    """An exported table, all text: ids, the data to judge, empty answer columns, the digest of the row."""

    export_id: str
    set_name: str  # name/v3
    view: str  # queries | judgments | audit
    rows: pd.DataFrame
    sample: int = 0
    grades: tuple[int, ...] = DEFAULT_GRADES  # of the set

    @property
    def key_columns(self) -> list[str]:
        """Return the columns that identify a row."""
        return ["query_id"] if self.view == "queries" else ["query_id", "image_id"]

    @property
    def read_only_columns(self) -> list[str]:
        """Return the columns that nobody may change."""
        return [column for column in self.rows.columns if column not in (*ANSWER_COLUMNS, DIGEST_COLUMN)]

    @property
    def decision_choices(self) -> tuple[str, ...]:
        """Return the values of the column decision."""
        if self.view == "audit":  # blind: there is nothing to keep
            return tuple(map(str, self.grades))
        return ("keep", "drop", "edit") if self.view == "queries" else ("keep", "drop", *map(str, self.grades))


@dataclass(slots=True)
class ReviewImportResult:
    """The decisions of a filled-in table, or its problems: with any problem no decision is accepted. `added_count`:
    number of decisions on pairs that a person added and that nobody had judged."""

    decisions: list[QueryDecision] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    added_count: int = 0


@dataclass(frozen=True, slots=True)
class ImportTolerances:
    """Problems that an import ignores."""

    missing: bool = False  # rows that were deleted
    doubled: bool = False  # rows that are there twice and are the same
    unknown: bool = False  # rows that are not in the export
    changed: bool = False  # cells of read-only columns


def export_queries(tables: Tables, set_name: str, digest: str) -> ReviewExport:
    """Return all queries with their numbers of judgments and three example images, the highest grades first."""
    qrels, ids = tables.qrels, tables.queries["query_id"]
    judged = dict(qrels["query_id"].value_counts())
    relevant = dict(qrels.loc[qrels["relevance"] > 0, "query_id"].value_counts())
    examples = _examples(tables)
    rows = tables.queries.assign(
        labels=[" & ".join(labels) if labels is not None else "" for labels in tables.queries["labels"]],
        relevant=[relevant.get(query, 0) for query in ids],
        not_relevant=[judged.get(query, 0) - relevant.get(query, 0) for query in ids],
        examples=[" ".join(examples[query]) for query in ids],
    )
    return build_export("queries", rows[QUERY_EXPORT_COLUMNS], set_name, digest)


def export_judgments(
    tables: Tables, set_name: str, digest: str, sample: int, grades: tuple[int, ...] = DEFAULT_GRADES
) -> ReviewExport:
    """Return all open candidate judgments, highest scores first, then a sample of judgments, chosen by hash."""
    waiting = open_candidate_judgments(tables).assign(relevance="", judged_by="")
    sampled = tables.qrels.iloc[sample_rows(tables.qrels, sample)]
    chosen = pd.concat([waiting.astype("object"), sampled.astype("object")], ignore_index=True)
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    rows = chosen.assign(text=chosen["query_id"].map(texts), image=chosen["image_id"].map(_image_names(tables)))
    return replace(build_export("judgments", rows[JUDGMENT_EXPORT_COLUMNS], set_name, digest, sample), grades=grades)


def read_filled_table(
    export: ReviewExport,
    edited: pd.DataFrame,
    allow: ImportTolerances,
    reviewer: str = "",
    at: str = "",
    additions: JudgmentAdditions | None = None,
) -> ReviewImportResult:
    """Return the answers of a filled-in table (text cells, rows by their spreadsheet numbers), or the problems found
    when each cell is compared with the export. The order of rows and columns has no influence. With `additions`, a row
    without a digest adds a judgment."""
    wanted = list(export.rows.columns)
    for column in (*wanted, *edited.columns):
        if column not in edited.columns:
            return ReviewImportResult(problems=[f"row 1, {column}: the column is missing"])
        if column not in wanted:
            return ReviewImportResult(problems=[f"row 1, {_short(column)}: the column was not in the export"])
    reading = ReviewImportResult()
    for number, exported, row in _matched(export, edited[wanted], allow, additions, reading.problems):
        try:
            decision = _answer(export, exported, row)
        except _InvalidAnswer as refused:
            reading.problems.append(f"row {number}, {refused}")
            continue
        if decision is not None:
            reading.decisions.append(replace(decision, reviewer=reviewer, at=at))
            if additions is not None and _is_added(exported):
                reading.added_count += not additions.is_judged(exported["query_id"], exported["image_id"])
    return ReviewImportResult(problems=reading.problems) if reading.problems else reading


def count_decisions(decisions: list[QueryDecision]) -> dict[str, int]:
    """Return the number of decisions by kind."""
    kinds = Counter(f"{'judgment' if d.image_id else 'query'} {d.decision}" for d in decisions)
    return dict(sorted(kinds.items()))


def describe_import(reading: ReviewImportResult) -> str:
    """Return the numbers of decisions as a text: 2 judgment grade, 1 query drop; 1 added."""
    counted = ", ".join(f"{number} {kind}" for kind, number in count_decisions(reading.decisions).items())
    return f"{counted}; {reading.added_count} added" if reading.added_count else counted


_Row = dict[str, str]


class _InvalidAnswer(Exception):
    """An answer that is not accepted: the column and the reason."""


# The options that accept a problem, by words of its line.
_ACCEPTING = {
    " of the export, ": "--allow-missing",
    " occurs twice": "--allow-doubled",
    " is not in the export": "--allow-unknown",
    " was exported as ": "--allow-changed",
}


def suggest_tolerances(problems: Sequence[str]) -> str:
    """Return what to do about the problems of a filled-in table, with the options that accept some of them."""
    options = [option for words, option in _ACCEPTING.items() if any(words in problem for problem in problems)]
    return f"fix those cells, or accept them with {' '.join(options)}" if options else "fix those cells"


def _matched(
    export: ReviewExport,
    edited: pd.DataFrame,
    allow: ImportTolerances,
    additions: JudgmentAdditions | None,
    problems: list[str],
) -> Iterator[tuple[int, _Row, _Row]]:
    """Yield number, exported row and edited row of each row that is there; adds problems to `problems`. An added row
    is as if it had been exported, without a digest."""
    exported = {_key(export, row): row for row in list_rows(export.rows)}
    seen: dict[tuple[str, ...], _Row] = {}
    for number, row in zip(edited.index, list_rows(edited), strict=True):
        if not any(cell.strip() for cell in row.values()):
            continue  # blank rows that spreadsheets leave below the table
        key = _key(export, row)
        if additions is not None and key not in exported and _is_added(row):
            try:
                row = additions.resolve_row(row, allow.changed)
            except InvalidAddition as refused:
                problems += [] if allow.unknown else [f"row {number}, {refused}"]
                continue
            if (key := _key(export, row)) in exported:
                problems.append(f"row {number}, image_id: {' '.join(key)} has its own row in the export; answer there")
                continue
            if key not in seen:
                seen[key] = row
                yield int(number), row, row
                continue
        where = f"row {number}, {export.key_columns[0]}: {_short(' '.join(key))}"
        if key in seen:
            if seen[key] != row or not allow.doubled:
                problems.append(f"{where} occurs twice{', not the same' if seen[key] != row else ''}")
        elif key in exported:
            seen[key] = row
            problems += [] if allow.changed else _changed_cells(export, number, exported[key], row)
            yield int(number), exported[key], row
        elif not allow.unknown:
            problems.append(f"{where} is not in the export")
    for number, key in enumerate(exported, start=_FIRST_ROW):
        if key not in seen and not allow.missing:
            problems.append(f"row {number} of the export, {export.key_columns[0]}: {' '.join(key)} is missing")


def _is_added(row: _Row) -> bool:
    return not row[DIGEST_COLUMN].strip()


def _changed_cells(export: ReviewExport, number: object, exported: _Row, row: _Row) -> list[str]:
    return [
        f"row {number}, {name}: {_short(row[name])} was exported as {_short(exported[name])}"
        for name in [*export.read_only_columns, DIGEST_COLUMN]
        if _one_line_end(row[name]) != _one_line_end(exported[name])
    ]


def _answer(export: ReviewExport, exported: _Row, row: _Row) -> QueryDecision | None:
    """Return the decision of a row, None without one; 2.0 and full-width digits are read as grades."""
    new_text, note = row.get("new_text", "").strip(), _one_line_end(row["note"]).strip()
    choice = unicodedata.normalize("NFKC", row["decision"]).strip().casefold()
    choice = re.sub(r"^([0-9])\.0+$", r"\1", choice)
    if _is_added(exported) and choice in ("", "keep"):
        raise _InvalidAnswer(f"decision: a new row needs a grade ({', '.join(map(str, export.grades))}) or drop")
    if not choice and not new_text:
        if note:
            raise _InvalidAnswer("note: a note without a decision would be lost")
        return None
    choice = choice or "edit"
    if choice not in export.decision_choices:
        raise _InvalidAnswer(f"decision: {_short(row['decision'])} is not one of {', '.join(export.decision_choices)}")
    if choice == "edit" and (not new_text or new_text == exported["text"]):
        raise _InvalidAnswer("new_text: an edit needs a new text")
    if choice != "edit" and new_text:
        raise _InvalidAnswer(f"new_text: only an edit has one, but the decision is {choice}")
    for name, cell, allowed in (("new_text", new_text, ""), ("note", note, "\n\t")):
        if _is_damaged(cell, allowed):
            raise _InvalidAnswer(f"{name}: {_short(cell)} ({len(cell)} characters) looks damaged by another program")
    grade = int(choice) if choice.isdecimal() else None
    return QueryDecision(
        query_id=exported["query_id"],
        text=exported["text"],
        decision=choice if grade is None else "grade",
        image_id=exported.get("image_id"),
        new_text=new_text or None,
        relevance=int(seen) if choice == "keep" and (seen := exported.get("relevance")) else grade,
        note=note,
        view="csv",
        source=export.export_id,
    )


def _is_damaged(text: str, allowed: str) -> bool:
    strange = any(unicodedata.category(c) in ("Cc", "Zl", "Zp") and c not in allowed for c in text)
    return strange or "\ufffd" in text or len(text) in _CUT_OFF_AT or _SPREADSHEET_FAULT.fullmatch(text) is not None


def _one_line_end(text: str) -> str:
    """Return the text with LF for the other line ends that tools write within a cell."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _key(export: ReviewExport, row: _Row) -> tuple[str, ...]:
    return tuple(row[name] for name in export.key_columns)


def build_export(view: str, rows: pd.DataFrame, set_name: str, digest: str, sample: int = 0) -> ReviewExport:
    """Return the export of a view's rows, the same for the same rows."""
    export_id = content_id("e", digest, set_name, view, str(sample))
    rows = rows.astype("str").fillna("").reset_index(drop=True)
    digests = [digest_row(export_id, row) for row in list_rows(rows)]
    answers = {name: "" for name in ANSWER_COLUMNS if view == "queries" or name != "new_text"}
    rows = rows.assign(**answers, **{DIGEST_COLUMN: digests}).astype("str")
    return ReviewExport(export_id, set_name, view, rows, sample)


def digest_row(export_id: str, row: _Row) -> str:
    """Return the digest of an exported row, used to find changed cells on import."""
    text = json.dumps([export_id, *row.values()], ensure_ascii=False)
    return "r_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _examples(tables: Tables) -> defaultdict[str, list[str]]:
    """Return per query the names of three relevant images, highest grades first, without sorting millions of rows."""
    qrels, names = tables.qrels, _image_names(tables)
    examples: defaultdict[str, list[str]] = defaultdict(list)
    for grade in sorted((grade for grade in qrels["relevance"].unique() if grade > 0), reverse=True):
        of_grade = qrels[qrels["relevance"] == grade].groupby("query_id", observed=True, sort=False).head(_EXAMPLES)
        for query, image in zip(of_grade["query_id"], of_grade["image_id"], strict=True):
            if len(examples[query]) < _EXAMPLES:
                examples[query].append(names.get(image, ""))
    return examples


def _image_names(tables: Tables) -> dict[str, str]:
    images = tables.images
    names = images["path"].where(images["path"].notna(), images["file_name"]).fillna("")
    return dict(zip(images["image_id"], names, strict=True))


def _short(text: object) -> str:
    shown = str(text)
    return repr(shown if len(shown) <= 60 else shown[:59] + "…")


def compute_table_digest(path: Path) -> str:
    """Return the sha256 of a table's bytes. Raises UserError for a missing file."""
    try:
        return hashlib.sha256(safe_paths.read_regular(path)).hexdigest()
    except FileNotFoundError:
        raise UserError("review", path, "does not exist", "run the stage that writes it again") from None
    except OSError as error:
        raise UserError("review", path, f"cannot be read ({error.strerror})", "check the path") from None
