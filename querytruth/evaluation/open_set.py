"""Scores beyond order: precision over a threshold, queries without an answer, and distances read as likeness.

A product may show no result rather than a wrong one. Pairs with a score of at least the threshold are shown;
precision is the share of relevant pairs among them, recall the share of all relevant pairs that is shown. Unjudged
pairs count as wrong, for `precision_upper` as right; results shown for a query without an answer are wrong. Only pairs
that the run returned can be shown. Scores that are distances give the correct order when read backwards.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.evaluation.ranking import UNJUDGED, RankedRun
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL
from querytruth.records import stable_hash

# A run is called reversed by both: relevant images stand behind three of four others (a system that knows nothing has
# one half), and chance alone would not do that in a million runs.
_HIGHEST_AUC = 0.25
_HIGHEST_Z = -5.0
_QUERIES = 200  # of a matrix


@dataclass(frozen=True, slots=True)
class OpenSetThreshold:
    """The lowest threshold with the target precision, and its figures. `queries_empty`: queries with no result shown;
    `queries_cut_off`: queries with all returned results shown, so that there may be more. `elsewhere`: the precision
    on one half of the queries at the threshold of the other half (both ways), an estimate for new queries; NaN where a
    half cannot reach the precision, or shows nothing."""

    threshold: float
    precision: float
    precision_upper: float
    recall: float
    shown: int
    queries_empty: int
    queries_cut_off: int
    elsewhere: float


NO_SCORES = pd.Series(dtype=np.float64)


def compute_threshold_curve(ranked: RankedRun, absent: pd.Series = NO_SCORES) -> pd.DataFrame:
    """Return threshold, precision, precision_upper, recall and shown for every distinct score, the highest first.
    `absent`: the scores of results of queries without an answer, by query id; each shown one is wrong."""
    scores, grades = _join_wrong(ranked.score, ranked.grade, absent.to_numpy())
    return _curve(scores, grades, int(ranked.truth.relevant_counts.sum()))


def _join_wrong(
    scores: FloatArray, grades: NDArray[np.int16], wrong: FloatArray
) -> tuple[FloatArray, NDArray[np.int16]]:
    return np.concatenate([scores, wrong]), np.concatenate([grades, np.zeros(len(wrong), grades.dtype)])


def is_order_alone(ranked: RankedRun) -> bool:
    """Return whether the scores are ranks, -1, -2 …: what states an order alone has no threshold, and nothing to
    compare between queries."""
    first = ranked.score[ranked.rank == 1]
    return bool(len(first) and (first == -1).all() and (ranked.score == np.floor(ranked.score)).all())


def measure_absent(
    run: pd.DataFrame, ranked: RankedRun, absent: Collection[str], thresholds: Mapping[str, OpenSetThreshold | None]
) -> dict[str, Any]:
    """Return `auroc`: how often the best score of a query with an answer is above that of an absent one (ties count a
    half), with its 95% interval `low`, `high` (the score interval of Newcombe, Statistics in Medicine 25, 2006, part 2,
    method 5); and `shows_nothing`: the share of absent queries without a result that reaches the threshold, by target
    precision. `run` (query_id, image_id, score) has the absent queries, too."""
    best = run.groupby(run["query_id"].astype("str"))["score"].max()
    answered = best.reindex(ranked.truth.query_ids.to_pylist()).fillna(-np.inf).to_numpy()
    empty = best.reindex(sorted(absent)).fillna(-np.inf).to_numpy()
    ranks = pd.Series(np.concatenate([answered, empty])).rank().to_numpy()[: len(answered)]
    auroc = float((ranks.sum() - len(answered) * (len(answered) + 1) / 2) / (len(answered) * len(empty)))
    low, high = _bound_auroc(auroc, len(answered), len(empty))
    return {
        "auroc": auroc,
        "low": low,
        "high": high,
        "shows_nothing": {
            wanted: float((empty < cut.threshold).mean()) for wanted, cut in thresholds.items() if cut is not None
        },
    }


def _bound_auroc(auroc: float, answered: int, empty: int) -> tuple[float, float]:
    """Return the least and the greatest true value within 1.96 of its own standard errors of `auroc`."""
    true = np.linspace(0, 1, 10_001)
    half = (answered + empty) / 2 - 1
    variance = true * (1 - true) * (1 + half * ((1 - true) / (2 - true) + true / (1 + true))) / (answered * empty)
    reach = -float(ndtri((1 - CONFIDENCE_LEVEL) / 2)) * np.sqrt(variance)
    within = true[np.abs(true - auroc) <= reach + 1 / len(true)]
    return float(min(within[0], auroc)), float(max(within[-1], auroc))


def thin_curve(curve: pd.DataFrame, points: int = 200) -> pd.DataFrame:
    """Return at most `points` rows of a curve, evenly spread over `shown`, the last one included."""
    if len(curve) <= points:
        return curve
    wanted = np.searchsorted(curve["shown"], np.linspace(curve["shown"].iloc[0], curve["shown"].iloc[-1], points))
    return curve.iloc[np.unique(wanted)].reset_index(drop=True)


def find_threshold(
    ranked: RankedRun, curve: pd.DataFrame, precision: float, absent: pd.Series = NO_SCORES
) -> OpenSetThreshold | None:
    """Return the threshold for a precision (0 to 1) from the run's whole curve, None where no threshold reaches it.
    `absent`: as in `compute_threshold_curve`."""
    row = _find_lowest_threshold(curve, precision)
    if row is None:
        return None
    cut = float(row["threshold"])
    shown = np.bincount(ranked.query[ranked.score >= cut], minlength=len(ranked.truth.query_ids))
    all_there_is = len(ranked.truth.image_ids) if ranked.truth.is_gallery else np.inf
    full = (shown == ranked.returned_counts) & (shown > 0) & (shown < all_there_is)
    return OpenSetThreshold(
        threshold=cut,
        precision=float(row["precision"]),
        precision_upper=float(row["precision_upper"]),
        recall=float(row["recall"]),
        shown=int(row["shown"]),
        queries_empty=int((shown == 0).sum()),
        queries_cut_off=int(full.sum()),
        elsewhere=_held_out_precision(ranked, precision, absent),
    )


def _curve(score: FloatArray, grade: NDArray[np.int16], relevant: int) -> pd.DataFrame:
    order = np.argsort(-score, kind="stable")
    score, grade = score[order], grade[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True)[: len(score)])  # pairs of one score stay together
    shown = last + 1
    right, unjudged = np.cumsum(grade > 0)[last], np.cumsum(grade == UNJUDGED)[last]
    return pd.DataFrame(
        {
            "threshold": score[last],
            "precision": right / shown,
            "precision_upper": (right + unjudged) / shown,
            "recall": right / max(relevant, 1),
            "shown": shown,
        }
    )


def _find_lowest_threshold(curve: pd.DataFrame, precision: float) -> pd.Series | None:
    enough = np.flatnonzero(curve["precision"] >= precision)
    return curve.iloc[enough[-1]] if enough.size else None


def _held_out_precision(ranked: RankedRun, precision: float, absent: pd.Series) -> float:
    half = _split(ranked.truth.query_ids.to_pylist())[ranked.query]
    scores, grades = _join_wrong(ranked.score, ranked.grade, absent.to_numpy())
    right, shown, half = 0, 0, np.concatenate([half, _split(absent.index)])
    for mine in (half, ~half):
        row = _find_lowest_threshold(_curve(scores[mine], grades[mine], 0), precision)
        if row is None:
            return float("nan")
        there = ~mine & (scores >= row["threshold"])
        right, shown = right + int((grades[there] > 0).sum()), shown + int(there.sum())
    return right / shown if shown else float("nan")


def _split(query_ids: Iterable[str]) -> BoolArray:
    return np.array([stable_hash("0", "half", name) % 2 for name in query_ids], dtype=bool)


# The mean share of the other images that a relevant one stands before (AUC), and the number of queries.
ReversedScores = tuple[float, int]


def find_reversed_scores(ranked: RankedRun) -> ReversedScores | None:
    """Return how far a run is below chance among its results; None where it is not below, or has too few queries. A
    list of the nearest images with their distances reads backwards, and so does a whole gallery."""
    hits, returned = ranked.hits, ranked.returned_counts
    relevant = hits.sum_per_query()
    behind = (returned[hits.query] - hits.rank) - (relevant[hits.query] - hits.ordinal)
    return judge_direction(hits.sum_per_query(behind.astype(np.float64)), relevant, returned - relevant)


def judge_direction(pairs_in_order: FloatArray, relevant: FloatArray, others: FloatArray) -> ReversedScores | None:
    """Judge by each query's pairs of a relevant and another image that are in order, of `relevant` x `others`, with
    the variance of the Mann-Whitney U statistic (Mann and Whitney, 1947)."""
    pairs = relevant * others
    counted = pairs > 0
    if not counted.any():
        return None
    auc = float((pairs_in_order[counted] / pairs[counted]).mean())
    difference = (pairs_in_order - pairs / 2)[counted].sum()
    variance = (pairs * (relevant + others + 1) / 12)[counted].sum()
    is_reversed = auc <= _HIGHEST_AUC and difference / np.sqrt(variance) <= _HIGHEST_Z
    return (auc, int(counted.sum())) if is_reversed else None


def find_reversed_matrix(
    similarity: Any, query_ids: Sequence[str], image_ids: Sequence[str], qrels: pd.DataFrame
) -> ReversedScores | None:
    """Return how far a matrix (queries, images) is below chance, by the first 200 of its queries that have a relevant
    image: the highest of each row, which a run keeps, are meaningless where its numbers are distances."""
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
    """Return how many pairs of a relevant image (`columns`) and another are in order; equal scores count half."""
    others, relevant = np.sort(np.delete(scores, columns)), scores[columns]
    return float((np.searchsorted(others, relevant, "left") + np.searchsorted(others, relevant, "right")).sum() / 2)
