"""Audits whose sample is of whole queries: every pooled pair of a query is judged, so that all its metrics are known.

Pairs of one query are alike, so a query is one draw. Intervals are Gaffke's bounds (`evaluation/bounds.py`), as those
of `evaluate`: where few of the drawn queries have what is counted, an unseen one may have as much as its pool holds. A
draw of a finite number of queries N is worth (N - 1) / (N - n) draws, at most 3; the interval of a census is a point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import FloatArray
from querytruth.audit.pair_audit import TruthEstimates
from querytruth.audit.pool import PAIR
from querytruth.evaluation import ground_truth, metrics, ranking
from querytruth.evaluation.bounds import bound_mean, find_unseen_size
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL, IntervalEstimate, find_extremes

_TAIL = (1 + CONFIDENCE_LEVEL) / 2
_FEWEST_DRAWN = 16  # fewer do not show how much an unseen query may have
_FEWEST_FITTED = 40  # a factor that is fitted to fewer fits these alone
_MOST_WORTH = 3.0
METRICS = ("p@1", "p@5", "p@10", "hit@1", "hit@5", "hit@10", "r@5", "r@10", "ndcg@10", "ap")


def estimate_ratio(tops: FloatArray, bottoms: FloatArray, queries: int, most: Any) -> IntervalEstimate:
    """Returns the ratio of two totals over all `queries` from those of the drawn ones, each (…, drawn); NaN of nothing.
    `most`: the highest top that a query can have, one or (…,)."""
    tops, bottoms = np.moveaxis(np.asarray(tops), -1, 0), np.moveaxis(np.asarray(bottoms), -1, 0)
    shape, (tops, bottoms) = tops.shape[1:], (part.reshape(len(tops), -1) for part in (tops, bottoms))
    lowest, highest = _find_extremes(tops, np.ones_like(tops), (0.0, np.ravel(most)))
    unseen = find_unseen_size(bottoms)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = _estimate(tops, bottoms, lowest / unseen, highest / unseen, queries)
    return IntervalEstimate(*(np.reshape(end, shape) for end in (found.value, found.low, found.high)))


def estimate_share(tops: FloatArray, bottoms: FloatArray, queries: int) -> IntervalEstimate:
    """Returns the same for a part and its whole, within 0 and 1."""
    tops, bottoms = np.moveaxis(np.asarray(tops), -1, 0), np.moveaxis(np.asarray(bottoms), -1, 0)
    shape, (tops, bottoms) = tops.shape[1:], (part.reshape(len(tops), -1) for part in (tops, bottoms))
    found = _estimate(tops, bottoms, *_find_extremes(tops, bottoms, (0.0, 1.0)), queries)
    return IntervalEstimate(*(np.reshape(end, shape) for end in (found.value, found.low, found.high)))


def estimate_mean(
    judged: FloatArray, known: FloatArray, known_mean: float | FloatArray, queries: int
) -> IntervalEstimate:
    """Returns the mean of a figure from 0 to 1 over all `queries` from that of the drawn ones (…, drawn), with the help
    of a figure that is known of all: `known` of the drawn ones, `known_mean` of all.

    This is PPI++ (Angelopoulos, Duchi and Zrnic, "PPI++: Efficient prediction-powered inference", 2023) with the
    uncorrected figure in place of a model's prediction, the factor clipped to 0 to 1."""
    count = judged.shape[-1]
    centred = known - known.mean(axis=-1, keepdims=True)
    covariance = (centred * judged).sum(axis=-1) / max(count - 1, 1)
    variance = (centred**2).sum(axis=-1) / max(count - 1, 1)
    if count < _FEWEST_FITTED:
        variance = np.zeros_like(variance)
    factor = np.clip(np.where(variance > 0, covariance / np.where(variance > 0, variance, 1), 0), 0, 1)
    rest = np.moveaxis(judged - factor[..., None] * known, -1, 0).reshape(count, -1)
    shift, ones = factor * known_mean, np.ones((count, 1))
    extremes = _find_extremes(rest, ones, (-np.ravel(factor), 1.0), _FEWEST_FITTED)
    found = _estimate(rest, ones, *extremes, queries)
    ends = (np.reshape(end, factor.shape) + shift for end in (found.value, found.low, found.high))
    return IntervalEstimate(*(np.clip(end, 0, 1) for end in ends))


def _find_extremes(
    tops: FloatArray, bottoms: FloatArray, ends: tuple[Any, Any], fewest: int = _FEWEST_DRAWN
) -> tuple[FloatArray, FloatArray]:
    """Returns the lowest and the highest ratio that an unseen query may have (columns,)."""
    lowest, highest = find_extremes(tops, bottoms, ends, fewest)
    if len(tops) >= _FEWEST_DRAWN:
        return lowest, highest
    return np.minimum(lowest, ends[0]), np.maximum(highest, ends[1])


def _estimate(
    tops: FloatArray, bottoms: FloatArray, lowest: FloatArray, highest: FloatArray, queries: int
) -> IntervalEstimate:
    """Returns the ratio of the totals of each column (drawn, columns), where an unseen query has a ratio from `lowest`
    to `highest`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = tops.sum(axis=0) / bottoms.sum(axis=0)
    if len(tops) >= queries:
        return IntervalEstimate(value, value, value)
    known = np.isfinite(value)
    low, high = np.array(lowest), np.array(highest)
    worth = min((queries - 1) / (queries - len(tops)), _MOST_WORTH)
    if known.any():
        top, bottom = tops[:, known], bottoms[:, known] if bottoms.shape[1] > 1 else bottoms
        low[known] = bound_mean(top, bottom, lowest[known], _TAIL, worth)
        high[known] = -bound_mean(-top, bottom, -highest[known], _TAIL, worth)
    return IntervalEstimate(value, low, high)


def complete_judgments(
    pool: pd.DataFrame, grades: Mapping[tuple[str, str], int], queries: Sequence[str]
) -> pd.DataFrame:
    """Returns the pool's pairs of the drawn queries with `judged` (the set's grade, 0 without one) and `audited`: the
    answer, and 0 where people could not tell."""
    pairs = pool[pool["query_id"].isin(set(queries))].reset_index(drop=True)
    answers = [grades.get(pair, 0) for pair in pairs[PAIR].itertuples(index=False, name=None)]
    return pairs.assign(judged=pairs["relevance"].clip(lower=0), audited=answers)


def estimate_truth_of_queries(pairs: pd.DataFrame, drawn: Sequence[str], query_count: int) -> TruthEstimates:
    """Returns the estimates of a set from completely judged queries (`complete_judgments`)."""
    right, marked = pairs["audited"] > 0, pairs["judged"] > 0
    chosen = (marked, right, right & ~marked, marked & ~right, right | ~right)
    positives, relevant, missing, wrong, pooled = [_count_by_query(pairs[rows], drawn) for rows in chosen]
    most = pooled.max(initial=1)
    return TruthEstimates(
        wrong_share=estimate_share(wrong, positives, query_count),
        missing=estimate_ratio(missing, np.ones(len(drawn)), query_count, most).scale(query_count),
        missing_share=estimate_share(missing, relevant, query_count),
        multiplier=estimate_ratio(relevant, positives, query_count, most),
    )


def estimate_systems_of_queries(
    pairs: pd.DataFrame, qrels: pd.DataFrame, ranks: pd.DataFrame, drawn: Sequence[str], query_ids: Sequence[str]
) -> pd.DataFrame:
    """Returns by system and metric the mean over all queries by the set's own judgments, the corrected one, and the
    ends of its interval. A query without a relevant image counts as 0, before and after. `qrels`: the set's; `ranks`:
    the pooled results of all queries."""
    audited = pairs[[*PAIR, "audited"]].rename(columns={"audited": "relevance"})
    rows: list[tuple[Any, ...]] = []
    for system, results in ranks.groupby("system", sort=True):
        run = results[PAIR].assign(score=-results["rank"].astype("float64"))
        before = score_by_query(run, qrels, query_ids)
        after = score_by_query(run[run["query_id"].isin(set(drawn))], audited, drawn)
        for metric in METRICS:
            known = before[metric]
            estimate = estimate_mean(
                after[metric].to_numpy(), known.reindex(drawn).to_numpy(), float(known.mean()), len(query_ids)
            )
            numbers = (estimate.value, estimate.low, estimate.high)
            rows.append((system, metric, float(known.mean()), *map(float, numbers)))
    return pd.DataFrame(rows, columns=["system", "metric", "before", "value", "low", "high"])


def score_by_query(run: pd.DataFrame, qrels: pd.DataFrame, query_ids: Sequence[str]) -> pd.DataFrame:
    """Returns a row per query and a column per metric; 0 for a query without a relevant image."""
    if not (qrels["relevance"] > 0).any():
        return pd.DataFrame(0.0, index=pd.Index(query_ids), columns=list(METRICS))
    ranked = ranking.rank_run(run, ground_truth.index_qrels(qrels, queries=query_ids))
    values = {name: metrics.compute_metric(ranked, metrics.parse_metric(name)) for name in METRICS}
    return pd.DataFrame(values, index=ranked.truth.query_ids.to_pylist()).reindex(query_ids).fillna(0.0)


def _count_by_query(pairs: pd.DataFrame, drawn: Sequence[str]) -> FloatArray:
    counts: FloatArray = pairs["query_id"].value_counts().reindex(drawn).fillna(0).to_numpy(dtype=np.float64)
    return counts
