"""The queue of queries for review: filtered, and sorted with the most doubtful first."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from querytruth.array_types import RowIndices
from querytruth.records import RowsById, codes_of, stable_hash
from querytruth.review.deck import CardFilter, ShortText
from querytruth.review.page_parts import labels_or_empty, text_or_empty
from querytruth.sets import benchmark_set, query_texts

Judgment = tuple[str, int, str, str]  # image id, relevance, judge, evidence
QUERY_FLAGS = {  # reasons to doubt a query, the most serious first
    "ambiguous": "a caption that fits other images, too, or an image that may be relevant waits for a judgment",
    "few_images": "at most a quarter of the relevant images that are usual in this set",
    "near_the_cut": "at least half of the relevant images have only the lowest grade",
    "worded_by_model": "a chat model reworded one of its texts",
}
_WEIGHTS = {"ambiguous": 4, "few_images": 2, "near_the_cut": 1, "worded_by_model": 1}


class QueryEntry(NamedTuple):
    """A query with the counts and flags that the queue sorts and filters by."""

    query_id: str
    text: str
    language: str
    style: str
    level: int
    topic: str
    labels: tuple[str, ...]
    relevant_count: int
    judged_count: int
    candidate_count: int
    source_image_id: str | None
    flags: frozenset[str]
    priority: int  # the weight of the flags and candidates; higher comes first


class EquivalentEntries(NamedTuple):
    """Equivalent queries, which are judged on one card; a single query where it has no equivalent."""

    members: tuple[QueryEntry, ...]

    @property
    def key(self) -> str:
        """Return the id of the first query, under which decisions on all of them are logged."""
        return self.members[0].query_id

    @property
    def flags(self) -> frozenset[str]:
        """Return the flags of all queries."""
        return frozenset[str]().union(*(entry.flags for entry in self.members))

    @property
    def priority(self) -> int:
        """Return the highest priority of the queries."""
        return max([entry.priority for entry in self.members])


class QueryFilter(CardFilter):
    """A filter and an order of groups of queries; an empty text excludes none."""

    level: int | None = None
    topic: ShortText = ""
    language: ShortText = ""
    flag: Literal["", "disagreements", "ambiguous", "few_images", "near_the_cut", "worded_by_model"] = ""
    order: Literal["priority", "text", "images"] = "priority"


def build_query_entries(tables: benchmark_set.Tables, judgments: "JudgmentIndex") -> list[QueryEntry]:
    """Return all queries with their counts, in the set's order."""
    grades = judgments.count_by_grade(tables.queries["query_id"])
    right = grades[[grade for grade in grades.columns if grade > 0]].sum(axis=1).to_numpy()
    lowest = grades[1].to_numpy() if {1, 2} <= set(grades.columns) else np.zeros(len(grades), dtype=int)
    usual = float(np.median(right[right > 0])) if (right > 0).any() else 0.0
    queries, waiting = tables.queries, benchmark_set.open_candidate_judgments(tables)["query_id"].value_counts()
    candidates = queries["query_id"].map(waiting).fillna(0).to_numpy(int)
    raised = {
        "ambiguous": (candidates > 0) | (queries["source_image_id"].notna().to_numpy() & (right > 1)),
        "few_images": (right == 0) | ((right * 4 <= usual) & (usual > 1)),
        "near_the_cut": (right > 0) & (2 * lowest >= right),
        "worded_by_model": (queries["style"] == "llm").to_numpy(),
    }
    flags = sum(is_raised.astype(int) << bit for bit, is_raised in enumerate(raised.values()))
    flag_sets = [frozenset(name for bit, name in enumerate(raised) if one >> bit & 1) for one in range(16)]
    weights = np.array([sum(_WEIGHTS[name] for name in one) for one in flag_sets])[flags]
    texts = [queries[name].tolist() for name in ("query_id", "text", "language", "style", "level")]  # read faster
    topics, labels = map(text_or_empty, queries["topic"].tolist()), map(labels_or_empty, queries["labels"].tolist())
    counts = [one.tolist() for one in (right, grades.sum(axis=1), candidates)]
    sources = queries["source_image_id"].astype("object").where(queries["source_image_id"].notna(), None)
    marks, priorities = [flag_sets[one] for one in flags.tolist()], (weights + np.minimum(candidates, 8)).tolist()
    rows = zip(*texts, topics, labels, *counts, sources.tolist(), marks, priorities, strict=True)
    return list(map(QueryEntry._make, rows))


def group_entries(entries: list[QueryEntry], queries: pd.DataFrame) -> list[EquivalentEntries]:
    """Return the groups of equivalent queries, those that matter most first."""
    members: dict[query_texts.Meaning, list[QueryEntry]] = {}
    for entry, meaning in zip(entries, query_texts.list_meanings(queries), strict=True):
        members.setdefault(meaning, []).append(entry)
    for group in members.values():
        if len(group) > 1:
            group.sort(key=lambda one: query_texts.order_equivalent(one.language, one.text, one.query_id))
    groups = [EquivalentEntries(tuple(group)) for group in members.values()]
    return sorted(groups, key=lambda one: (-one.priority, one.members[0].level, stable_hash("review", one.key)))


def filter_groups(
    groups: list[EquivalentEntries],
    query_filter: QueryFilter,
    text_of: Callable[[QueryEntry], str],
    is_decided: Callable[[EquivalentEntries], bool],
) -> list[EquivalentEntries]:
    """Return the groups (of `group_entries`) with a query that passes the filter, in its order; `text_of` returns the
    text that the reviewer sees."""
    search = query_filter.search.strip().casefold()

    def is_match(entry: QueryEntry) -> bool:
        return (
            (query_filter.level is None or entry.level == query_filter.level)
            and (not query_filter.topic or query_filter.topic in (entry.topic, *entry.labels))
            and (not query_filter.language or entry.language == query_filter.language)
            and (not query_filter.flag or query_filter.flag in entry.flags)
            and (not search or search in text_of(entry).casefold() or search == entry.query_id)
        )

    state = query_filter.state
    matching = [
        group
        for group in groups
        if any(map(is_match, group.members)) and (state == "all" or (state == "decided") == is_decided(group))
    ]
    if query_filter.order == "text":
        matching.sort(key=lambda group: (text_of(group.members[0]), group.key))
    elif query_filter.order == "images":
        matching.sort(key=lambda group: (group.members[0].relevant_count, group.key))
    return matching


def list_filter_choices(entries: list[QueryEntry]) -> dict[str, list[Any]]:
    """Return the values of each filter; filters with a single value are left out."""
    names: dict[str, list[Any]] = {
        "level": sorted({entry.level for entry in entries}),
        "language": sorted({entry.language for entry in entries}),
        "topic": sorted({name for entry in entries for name in (entry.topic, *entry.labels) if name}),
        "flag": [name for name in QUERY_FLAGS if any(name in entry.flags for entry in entries)],
    }
    return {name: values for name, values in names.items() if len(values) > (name != "flag")}


class JudgmentIndex:
    """An index of the judgments by query: where the rows of each begin, among those in the order of queries."""

    def __init__(self, qrels: pd.DataFrame) -> None:
        queries = codes_of(qrels["query_id"])
        self._relevance = qrels["relevance"].to_numpy()
        self._texts = [
            (pa.array(qrels[name].cat.categories, pa.string()), codes_of(qrels[name]))
            for name in ("image_id", "judged_by", "evidence")
        ]
        self._ids = qrels["query_id"].cat.categories
        self._code_of = RowsById(self._ids)
        self._order: RowIndices | None = None
        starts = _list_run_starts(queries)
        if len(starts) > len(np.unique(queries[starts])):  # no table that we publish: a query's rows are together there
            self._order = np.argsort(queries, kind="stable")
            queries = queries[self._order]
            starts = _list_run_starts(queries)
        self._bounds = np.zeros((len(self._ids) + 1, 2), dtype=np.int64)  # the last one: rows without a query
        self._bounds[queries[starts]] = np.stack([starts, np.append(starts, len(queries))[1:]], axis=1)

    def rows(self, query_id: str) -> RowIndices:
        """Return the row numbers (n,) of a query's judgments."""
        code = self._code_of.get(query_id)
        start, end = (0, 0) if code is None else self._bounds[code].tolist()
        return np.arange(start, end) if self._order is None else self._order[start:end]

    def __call__(self, query_id: str) -> Iterator[Judgment]:
        """Yield image id, relevance, judge and evidence of each judgment, the highest grade first."""
        rows = self.rows(query_id)
        rows = rows[np.argsort(-self._relevance[rows], kind="stable")]
        texts = (names.take(pa.array(codes[rows], mask=codes[rows] < 0)) for names, codes in self._texts)
        images, judges, evidence = (one.to_pylist() for one in texts)
        for image, relevance, judge, why in zip(images, self._relevance[rows].tolist(), judges, evidence, strict=True):
            yield image, relevance, judge, text_or_empty(why)

    def count_by_grade(self, query_ids: pd.Series | list[str]) -> pd.DataFrame:
        """Return the number of judgments, a row per query and a column per grade."""
        known, ids = (pa.array(one, pa.string()) for one in (self._ids, query_ids))
        codes = pc.fill_null(pc.index_in(ids, known), -1).to_numpy()  # -1, the last one: queries without judgments
        grades = self._relevance if self._order is None else self._relevance[self._order]
        judged = np.flatnonzero(self._bounds[:, 1] > self._bounds[:, 0])
        judged = judged[np.argsort(self._bounds[judged, 0])]
        counts = {}
        for grade in range(grades.min(initial=0), grades.max(initial=0) + 1):
            if (is_grade := grades == grade).any():
                of_query = np.zeros(len(self._bounds), dtype=np.int32)  # as narrow as that, 12 times as fast
                of_query[judged] = np.add.reduceat(is_grade, self._bounds[judged, 0], dtype=np.int32)
                counts[grade] = of_query[codes]
        return pd.DataFrame(counts, index=range(len(codes)))


def _list_run_starts(values: RowIndices) -> RowIndices:
    """Return where a value differs from the one before."""
    starts: RowIndices = np.flatnonzero(np.append(len(values) > 0, values[1:] != values[:-1]))
    return starts
