"""Judgments that were made elsewhere, as decisions: qrels of TREC, or a table of query, image and grade, in any ids.

Queries are known by our ids, by the publisher's and by their texts, images by our ids, the publisher's, and the ends of
their paths; a copy is the image that it counts as. All rows become decisions, or none does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.table_rows import TABLE_SUFFIXES, find_usual_column, iterate_rows, read_columns
from querytruth.errors import UserError
from querytruth.evaluation.ground_truth import find_representatives
from querytruth.evaluation.judged_sets import add_copies
from querytruth.evaluation.published_names import add_aliases, match_names
from querytruth.evaluation.run_files import read_trec_qrels
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_tables import DIGEST_COLUMN, ReviewImportResult
from querytruth.sets.set_files import read_set

_STAGE = "import judgments"
_HIGHEST_GRADE = 127
_COLUMNS = {
    "query": ("query_id", "query-id", "qid", "query", "source_id", "text", "查询", "搜索词"),
    "image": ("image_id", "corpus-id", "doc_id", "docid", "image", "file_name", "file", "path", "图片"),
    "grade": ("relevance", "grade", "score", "label", "等级", "相关性"),
}


class SetNames:
    """The queries and images of a set by foreign names. `about`: the source of the names, for an error."""

    def __init__(self, tables: Tables, about: object) -> None:
        self._tables, self._about = tables, (_STAGE, about)

    @cached_property
    def _same(self) -> dict[str, str]:
        return dict(find_representatives(self._tables.duplicates, self._tables.images["image_id"]))

    def match_queries(self, names: Iterable[str]) -> dict[str, str]:
        """Return the query ids by the names that the set has. Raises UserError for a name that could be several."""
        own = {name: name for name in self._tables.queries["query_id"]}
        return own | match_names(sorted(names), own, add_aliases(self._tables), "query_id", about=self._about).ids

    def match_images(self, names: Iterable[str]) -> dict[str, str]:
        """Return the image ids by the names that the set has. Raises UserError for a name that could be several."""
        own = {name: name for name in self._tables.images["image_id"]} | self._same
        images = add_copies(self._tables.images, self._tables.duplicates)
        found = match_names(sorted(names), own, images, "image_id", self._same, about=self._about).ids
        return own | {name: self._same.get(image, image) for name, image in found.items()}


class _Judgment(NamedTuple):
    """A row of the file, with its place there."""

    place: str
    query: str
    image: str
    grade: str


def read_foreign_judgments(
    path: Path, file: Path, reviewer: str, *, allow_unknown: bool = False, encoding: str = "utf-8"
) -> ReviewImportResult:
    """Return the decisions in a file about the set at `path`, or the problems because of which all are refused; stores
    nothing. With `allow_unknown`, rows that match nothing in the set are left out. Raises UserError where the file
    cannot be read, and where a name matches several queries or images, with three examples."""
    stored = read_set(path, ("queries", "images", "qrels", "duplicates", "query_aliases"))
    rows = list(_iterate_judgments(file, encoding))
    names, grades = SetNames(stored.tables, file), sorted({"0", *map(str, stored.manifest["grades"])})
    if not len(stored.tables.qrels):  # the first judgments say which grades there are
        grades = list(map(str, range(_HIGHEST_GRADE + 1)))
    queries = names.match_queries({row.query for row in rows})
    images = names.match_images({row.image for row in rows})
    chosen, problems = dict[tuple[str, str], str](), list[str]()
    for row in rows:
        pair = (queries.get(row.query, ""), images.get(row.image, ""))
        if not all(pair):
            unknown = f"unknown image {row.image!r}" if pair[0] else f"unknown query {row.query!r}"
            problems += [] if allow_unknown else [f"{row.place}: {unknown} in this set"]
        elif row.grade not in grades:
            of = ", ".join(grades) if len(grades) <= _HIGHEST_GRADE else f"0 to {_HIGHEST_GRADE}"
            problems.append(f"{row.place}: unknown grade {row.grade!r}; known grades: {of}")
        elif (before := chosen.setdefault(pair, row.grade)) != row.grade:
            problems.append(f"{row.place}: {row.query} and {row.image} have grade {before} in another row")
    if problems:
        return ReviewImportResult(problems=problems)
    if not chosen:
        raise UserError(_STAGE, file, "contains no query and image of the set", "give judgments made on this set")
    return _to_decisions(chosen, stored.tables, f"j_{file_sha256(file)[0][:20]}", reviewer)


def _to_decisions(chosen: dict[tuple[str, str], str], tables: Tables, source: str, reviewer: str) -> ReviewImportResult:
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    judged = set(zip(tables.qrels["query_id"], tables.qrels["image_id"], strict=True))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    by = QueryDecision("", "", "grade", "", relevance=0, reviewer=reviewer, view="csv", source=source, at=now)
    decisions = [
        replace(by, query_id=query, text=texts[query], image_id=image, relevance=int(grade))
        for (query, image), grade in chosen.items()
    ]
    return ReviewImportResult(decisions, added_count=len(chosen.keys() - judged))


def _iterate_judgments(file: Path, encoding: str) -> Iterator[_Judgment]:
    """Yield the rows of qrels (query 0 image grade), or of a table whose columns have usual names."""
    if file.suffix.lower() not in TABLE_SUFFIXES:
        for row in read_trec_qrels(file).itertuples(index=False):
            yield _Judgment(f"{row.query_id} {row.image_id}", str(row.query_id), str(row.image_id), str(row.relevance))
        return
    header = read_columns(file, _STAGE, encoding, [name for names in _COLUMNS.values() for name in names])
    if DIGEST_COLUMN in header or "# querytruth export" in "".join(header):
        raise UserError(
            _STAGE,
            file,
            "is an export to fill in, not a file of judgments",
            "import it with querytruth review import-csv",
        )
    columns = []
    for what, known in _COLUMNS.items():
        if (name := find_usual_column(header, known)) is None:
            reason = f"has no {what} column (columns: {', '.join(header)[:80] or 'none'})"
            raise UserError(_STAGE, file, reason, f"name a column {known[0]} or {known[1]}")
        columns.append(name)
    for place, cells in iterate_rows(file, columns, stage=_STAGE, encoding=encoding):
        query, image, grade = ("" if cells[name] is None else str(cells[name]).strip() for name in columns)
        yield _Judgment(place.removeprefix(f"{file} "), query, image, grade.removesuffix(".0"))
