"""The findings of an audit whose sample is of whole queries: all pooled pairs of a query are judged, so that every
metric of that query is known within the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import FloatArray
from builders.audit.pool import PAIR
from evaluation.audit.clustered import estimate_mean, estimate_ratio, estimate_share
from evaluation.audit.stratified import TruthEstimates
from evaluation.ground_truth import index_qrels
from evaluation.metric_names import compute_metric, parse_metric
from evaluation.ranking import rank_run

METRICS = ("p@1", "p@5", "p@10", "hit@1", "hit@5", "hit@10", "r@5", "r@10", "ndcg@10", "ap")


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
    ranked = rank_run(run, index_qrels(qrels, queries=query_ids))
    values = {name: compute_metric(ranked, parse_metric(name)) for name in METRICS}
    return pd.DataFrame(values, index=ranked.truth.query_ids.to_pylist()).reindex(query_ids).fillna(0.0)


def _count_by_query(pairs: pd.DataFrame, drawn: Sequence[str]) -> FloatArray:
    counts: FloatArray = pairs["query_id"].value_counts().reindex(drawn).fillna(0).to_numpy(dtype=np.float64)
    return counts
