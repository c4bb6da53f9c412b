"""The queries on the page of a comparison: those on which two systems differ most, with the results of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from review.evaluation.query_selection import RankedItem, SelectedQuery, build_selected_queries, collect_ids

ONE, OTHER = SIDES = ("one", "other")


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """A query with the results of both systems. `difference`: the figure of `one` minus that of `other`;
    `missed_by_both`: relevant items that neither returned, and `hidden_missed_count` more of them."""

    difference: float
    one: SelectedQuery
    other: SelectedQuery
    missed_by_both: tuple[RankedItem, ...]
    hidden_missed_count: int

    @property
    def better(self) -> str:
        return ONE if self.difference > 0 else OTHER


@dataclass(frozen=True, slots=True)
class ComparisonSelection:
    """The queries shown, the largest difference first."""

    differences: list[QueryDifference]

    @property
    def queries(self) -> list[SelectedQuery]:
        return [side for one in self.differences for side in (one.one, one.other)]

    @property
    def ids(self) -> list[str]:
        """The ids of all queries and items shown, once, in the order of the page."""
        missed = [result.item_id for one in self.differences for result in one.missed_by_both]
        return list(dict.fromkeys([*collect_ids(self.queries), *missed]))


def select_largest_differences(
    query_ids: Sequence[str],
    differences: pd.Series,
    one: pd.DataFrame,
    other: pd.DataFrame,
    qrels: pd.DataFrame | None,
    *,
    queries: int = 20,
    results: int = 10,
    missed: int = 4,
) -> ComparisonSelection:
    """Select the first of `query_ids`, which start with the largest difference; `one` and `other` are ranked
    results."""
    chosen = list(query_ids[:queries])
    ones, others = (
        build_selected_queries(chosen, ranked, qrels, results=results, missed=1 << 30) for ranked in (one, other)
    )
    pairs = zip(chosen, ones, others, strict=True)
    return ComparisonSelection([_query_difference(float(differences[name]), a, b, missed) for name, a, b in pairs])


def _query_difference(difference: float, one: SelectedQuery, other: SelectedQuery, number: int) -> QueryDifference:
    retrieved_ids = {result.item_id for query in (one, other) for result in query.results}
    neither = [
        replace(result, rank=None, score=float("nan"))
        for result in one.missed_relevant
        if result.item_id not in retrieved_ids
    ]
    bare = [replace(query, missed_relevant=(), hidden_missed_count=0) for query in (one, other)]
    return QueryDifference(difference, bare[0], bare[1], tuple(neither[:number]), len(neither[number:]))
