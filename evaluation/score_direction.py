"""Whether a system's scores are distances: then its order is a good one, read backwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import FloatArray, RowIndices
from evaluation.ranking import RankedRun

# A run is called reversed by both: relevant images stand behind three of four others (a system that knows nothing has
# one half), and chance alone would not do that in a million runs.
_HIGHEST_AUC = 0.25
_HIGHEST_Z = -5.0
_QUERIES = 200  # of a matrix


@dataclass(frozen=True, slots=True)
class ReversedScores:
    """The mean share of the other images that a relevant one stands before (AUC), and the number of queries."""

    auc: float
    queries: int


def find_reversed_scores(ranked: RankedRun) -> ReversedScores | None:
    """Returns how far a run is below chance among what it returned, None where it is not, or by too few queries. A list
    of the nearest images with their distances is one that reads backwards, and so is a whole gallery."""
    hits, returned = ranked.hits, ranked.returned_counts
    relevant = hits.sum_per_query()
    behind = (returned[hits.query] - hits.rank) - (relevant[hits.query] - hits.ordinal)
    return judge_direction(hits.sum_per_query(behind.astype(np.float64)), relevant, returned - relevant)


def judge_direction(pairs_in_order: FloatArray, relevant: FloatArray, others: FloatArray) -> ReversedScores | None:
    """Judges by each query's pairs of a relevant and another image that are in order, of `relevant` x `others`, with
    the variance of the Mann-Whitney U statistic (Mann and Whitney, 1947)."""
    pairs = relevant * others
    counted = pairs > 0
    if not counted.any():
        return None
    auc = float((pairs_in_order[counted] / pairs[counted]).mean())
    difference = (pairs_in_order - pairs / 2)[counted].sum()
    variance = (pairs * (relevant + others + 1) / 12)[counted].sum()
    is_reversed = auc <= _HIGHEST_AUC and difference / np.sqrt(variance) <= _HIGHEST_Z
    return ReversedScores(auc, int(counted.sum())) if is_reversed else None


def find_reversed_matrix(
    similarity: Any, query_ids: Sequence[str], image_ids: Sequence[str], qrels: pd.DataFrame
) -> ReversedScores | None:
    """Returns how far a matrix (queries, images) is below chance, by the first 200 of its queries that have a relevant
    image: the highest of each row, which a run keeps, say nothing where its numbers are distances."""
    row_of = {query: row for row, query in enumerate(query_ids)}
    column_of = {image: column for column, image in enumerate(image_ids)}
    relevant = qrels[qrels["relevance"] > 0]
    relevant = relevant[relevant["query_id"].isin(row_of.keys()) & relevant["image_id"].isin(column_of.keys())]
    figures = []
    for query, rows in list(relevant.groupby("query_id", observed=True, sort=True))[:_QUERIES]:
        columns = np.array([column_of[image] for image in rows["image_id"]])
        scores = np.asarray(similarity[row_of[str(query)]], dtype=np.float64)
        figures.append((_count_pairs_in_order(scores, columns), len(columns), len(scores) - len(columns)))
    return judge_direction(*np.array(figures, dtype=np.float64).T) if figures else None


def _count_pairs_in_order(scores: FloatArray, columns: RowIndices) -> float:
    """Returns how many pairs of a relevant image (`columns`) and another are in order; equal scores count half."""
    others, relevant = np.sort(np.delete(scores, columns)), scores[columns]
    below = np.searchsorted(others, relevant, "left") + np.searchsorted(others, relevant, "right")
    return float(below.sum() / 2)
