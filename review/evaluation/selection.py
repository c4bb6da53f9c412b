"""Which queries of an evaluation a page shows, with what came back for them: the same whenever the figures are.

A query is a success where a right picture ranks first, in the middle where one is among the first five, else a
failure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from builders.records import stable_hash

SUCCESS, MIDDLE, FAILURE = BINS = ("success", "middle", "failure")
NEAR = 5  # the last rank of the middle
_QUERIES = {SUCCESS: 6, MIDDLE: 10, FAILURE: 16}  # a failure says more than a success
_JUDGMENTS = ["query_id", "image_id", "relevance", "evidence"]
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Judged:
    """What the truth says of a picture: a grade, and why; -1 is unjudged."""

    relevance: int
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A picture that came back. `score` is NaN and `rank` None for a right one that did not, as far as is listed."""

    item_id: str
    rank: int | None
    score: float
    judged: Judged


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with its first results, and the right pictures that are not among them. `first` is the rank of the first
    right picture, None where no listed one is right; `right` is how many there are to find."""

    query_id: str
    bin: str
    first: int | None
    right: int
    results: tuple[Result, ...]
    missed: tuple[Result, ...]
    further: int  # missed ones that are not shown

    @property
    def shown(self) -> tuple[Result, ...]:
        return self.results + self.missed


@dataclass(frozen=True, slots=True)
class EvaluationSelection:
    """Per bin the queries that are shown and how many there are; `listed` results of each query are known."""

    asked: dict[str, list[Asked]]
    there: dict[str, int]
    listed: int

    @property
    def every(self) -> list[Asked]:
        return [one for found in self.asked.values() for one in found]

    @property
    def ids(self) -> list[str]:
        """Every query and picture shown, once, in the order of the page."""
        return ids_of(self.every)


def ids_of(asked: Sequence[Asked]) -> list[str]:
    """Their queries and pictures, once, in order."""
    return list(dict.fromkeys(name for one in asked for name in (one.query_id, *[r.item_id for r in one.shown])))


def bins_of(query_ids: Sequence[str], ranked: pd.DataFrame) -> pd.Series:
    """The bin of each query; one for which nothing came back is a failure."""
    right = ranked[ranked["relevance"] > 0]
    first = right.groupby(right["query_id"].astype("str"))["rank"].min().reindex(list(query_ids))
    bins = np.select([first == 1, first <= NEAR], [SUCCESS, MIDDLE], FAILURE)
    return pd.Series(bins, index=pd.Index(query_ids, dtype="str"), dtype="str")


def select_asked(
    query_ids: Sequence[str],
    ranked: pd.DataFrame,
    qrels: pd.DataFrame | None,
    *,
    queries: Mapping[str, int] = _QUERIES,
    results: int = 10,
    missed: int = 4,
) -> EvaluationSelection:
    """So many queries of each bin, drawn by hashing their ids. `ranked`: query_id, rank, image_id, score, relevance;
    `qrels` are None where there is no set."""
    bins = bins_of(query_ids, ranked)
    chosen = {name: _drawn([str(one) for one in bins.index[bins == name]], queries[name]) for name in BINS}
    shown = asked_of([one for drawn in chosen.values() for one in drawn], ranked, qrels, results=results, missed=missed)
    by_id = {one.query_id: one for one in shown}
    return EvaluationSelection(
        {name: [by_id[one] for one in drawn] for name, drawn in chosen.items()},
        {name: int((bins == name).sum()) for name in BINS},
        int(ranked["rank"].max()) if len(ranked) else 0,
    )


def asked_of(
    query_ids: Sequence[str], ranked: pd.DataFrame, qrels: pd.DataFrame | None, *, results: int, missed: int
) -> list[Asked]:
    """These queries, in this order."""
    mine = ranked[ranked["query_id"].isin(query_ids)].sort_values(["query_id", "rank"])
    rows = {str(name): list(part.itertuples(index=False)) for name, part in mine.groupby("query_id", observed=True)}
    truth = judgments_of(query_ids, qrels)
    return [_asked(name, rows.get(name, []), truth.get(name, {}), results, missed) for name in query_ids]


def judgments_of(query_ids: Sequence[str], qrels: pd.DataFrame | None) -> dict[str, dict[str, Judged]]:
    """Per query and picture what the truth says."""
    found: dict[str, dict[str, Judged]] = {}
    if qrels is None:
        return found
    columns = [name for name in _JUDGMENTS if name in qrels]
    for row in qrels.loc[qrels["query_id"].isin(query_ids), columns].astype("object").itertuples(index=False):
        says = getattr(row, "evidence", "")
        judged = Judged(int(row.relevance), says if isinstance(says, str) else "")
        found.setdefault(str(row.query_id), {})[str(row.image_id)] = judged
    return found


def _drawn(query_ids: list[str], number: int) -> list[str]:
    return heapq.nsmallest(number, query_ids, key=lambda name: (stable_hash("report", name), name))


def _asked(query_id: str, rows: list[Any], truth: dict[str, Judged], number: int, missed: int) -> Asked:
    listed = [_result(row, truth) for row in rows]
    first = next((result.rank for result in listed if result.judged.relevance > 0), None)
    shown = tuple(listed[:number])
    lost = _missed(query_id, listed, {result.item_id for result in shown}, truth)
    right = {name for name, judged in truth.items() if judged.relevance > 0}
    right |= {result.item_id for result in listed if result.judged.relevance > 0}
    where = SUCCESS if first == 1 else MIDDLE if first is not None and first <= NEAR else FAILURE
    return Asked(query_id, where, first, len(right), shown, tuple(lost[:missed]), len(lost[missed:]))


def _result(row: Any, truth: dict[str, Judged]) -> Result:
    """The ranking says the grade, the set adds why."""
    name, grade = str(row.image_id), int(row.relevance)
    judged = replace(truth.get(name, Judged(grade)), relevance=grade)
    return Result(name, int(row.rank), float(row.score), judged)


def _missed(query_id: str, listed: list[Result], shown: set[str], truth: dict[str, Judged]) -> list[Result]:
    """The best grade first, then those that came back at all, then by hash."""
    known = {result.item_id: result for result in listed}
    lost = [
        known.get(name, Result(name, None, float("nan"), judged))
        for name, judged in truth.items()
        if judged.relevance > 0 and name not in shown
    ]
    lost += [r for r in listed if r.judged.relevance > 0 and r.item_id not in shown and r.item_id not in truth]

    def order(one: Result) -> tuple[Any, ...]:
        rank = one.rank if one.rank is not None else np.inf
        return -one.judged.relevance, rank, stable_hash("report", query_id, one.item_id), one.item_id

    return sorted(lost, key=order)
