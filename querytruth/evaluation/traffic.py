"""Figures of a sample of a search log, weighted back to the whole log: its mean question, and its mean search.

A set of own queries draws head, torso and tail with known chances (`stratum`, `inclusion`), and knows how often each
query was asked (`searches`). The plain mean over its queries is neither that of the log's questions nor that of its
searches: frequent questions are drawn more often than they are many, and less often than they are asked.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv, stdtrit

from querytruth.array_types import FloatArray
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL

TRAFFIC_COLUMNS = ["metric", "over", "value", "low", "high"]
MEANS = ("questions", "searches")
_SAMPLED = ["searches", "stratum", "inclusion"]


def select_log_sample(
    queries: pd.DataFrame | None, judged: Collection[str], strata: Sequence[Mapping[str, Any]]
) -> pd.DataFrame | None:
    """Return the `judged` queries that were sampled from a log, by id: `searches`, `stratum`, `inclusion`, and the
    `questions` and `all_searches` of its stratum in the log, from `strata`, or estimated from all sampled queries.
    None where a judged query does not know its chances."""
    if queries is None or not {*_SAMPLED} <= {*queries}:
        return None
    drawn = queries.set_index("query_id")[_SAMPLED]
    if drawn.loc[drawn.index.isin(judged)].isna().to_numpy().any() or not drawn.index.isin(judged).any():
        return None
    of_query = pd.DataFrame(
        {"questions": 1 / drawn["inclusion"], "all_searches": drawn["searches"] / drawn["inclusion"]}
    )
    totals = of_query.groupby(drawn["stratum"]).sum()
    for row in strata:
        totals.loc[row["stratum"]] = [row["queries"], row["searches"]]
    return drawn.join(totals, on="stratum")[drawn.index.isin(judged)]


def measure_traffic(per_query: pd.DataFrame, sample: pd.DataFrame | None, names: list[str]) -> pd.DataFrame:
    """Return a row (TRAFFIC_COLUMNS) per metric and mean; none without a sample of a log. `per_query`: a column per
    metric by query id. A query of the sample that is not in it has no relevant image, and is excluded from means."""
    if sample is None or not per_query.index.isin(sample.index).all():
        return pd.DataFrame(columns=TRAFFIC_COLUMNS)
    rows = []
    for name in names:
        values = per_query[name].reindex(sample.index).to_numpy(dtype=np.float64)
        rows += [(name, over, *estimate_log_mean(values, sample, over)) for over in MEANS]
    return pd.DataFrame(rows, columns=TRAFFIC_COLUMNS)


def estimate_log_mean(values: FloatArray, sample: pd.DataFrame, over: str) -> tuple[float, float, float]:
    """Return the mean over the log's `questions` or `searches` that have an answer, and its 95% interval. `values`
    (n,): 0 to 1, nan for a query without an answer; `sample` (n rows): see `select_log_sample`.

    The mean is that of values weighted by 1 / inclusion, with the weights of a stratum scaled to its size in the log
    (Holt and Smith, "Post Stratification", J. R. Statist. Soc. A 142, 1979). Its variance is that of its residuals
    within strata, each with a correction where much of it was judged. The interval is Clopper and Pearson's
    with the effective number of queries (Korn and Graubard, "Confidence Intervals for Proportions with Small Expected
    Number of Positive Counts Estimated From Survey Data", Survey Methodology 24, 1998), at most that of equal variances
    (Kish). Where the whole log was judged the mean is known, and the interval is a point.
    """
    inclusion = np.array(sample["inclusion"], dtype=np.float64)
    weights = 1 / inclusion * (sample["searches"].to_numpy(dtype=np.float64) if over == "searches" else 1)
    totals = sample["all_searches" if over == "searches" else "questions"].to_numpy(dtype=np.float64)
    questions = sample["questions"].to_numpy(dtype=np.float64)
    strata = list(sample.reset_index(drop=True).groupby("stratum", sort=True).indices.values())
    for rows in strata:
        weights[rows] *= totals[rows] / weights[rows].sum()
    answered = ~np.isnan(values)
    weights /= weights[answered].sum()
    mean = float(np.clip(weights[answered] @ values[answered], 0, 1))
    for rows in strata:  # of what was drawn, not all need be judged
        inclusion[rows] = min(len(rows) / questions[rows[0]], 1.0)
    kish = ((1 - inclusion) * weights**2)[answered].sum()
    if not kish:
        return mean, mean, mean
    residuals = np.where(answered, values - mean, 0)
    variances, freedoms = [], []
    for rows in strata:
        if len(rows) > 1:
            around = weights[rows] * (residuals[rows] - np.average(residuals[rows], weights=weights[rows]))
            variances.append((1 - inclusion[rows[0]]) * len(rows) * around.var(ddof=1))
            freedoms.append(len(rows) - 1)
    variance = float(np.sum(variances))
    spread = mean * (1 - mean)
    effective = 1 / kish if variance <= spread * kish else spread / variance
    if variance > 0:
        freedom = variance**2 / float(np.sum(np.square(variances) / freedoms))
        tail = (1 - CONFIDENCE_LEVEL) / 2
        effective *= min((stdtrit(max(answered.sum() - 1, 1), tail) / stdtrit(max(freedom, 1), tail)) ** 2, 1)
    return mean, *_bound_share(mean, effective)


def _bound_share(share: float, draws: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a share seen in this number of draws, which may be fractional."""
    tail = (1 - CONFIDENCE_LEVEL) / 2
    hits, misses = share * draws, (1 - share) * draws
    low = float(betaincinv(hits, misses + 1, tail)) if hits > 0 else 0.0
    return low, (float(betaincinv(hits + 1, misses, 1 - tail)) if misses > 0 else 1.0)
