"""Figures of a sample of a search log, weighted back to the whole log: its mean question, and its mean search.

A set of own queries draws head, torso and tail with known chances (`stratum`, `inclusion`), and knows how often each
query was asked (`searches`). The plain mean over its queries is neither that of the log's questions nor that of its
searches: frequent questions are drawn more often than they are many, and less often than they are asked.
"""

import numpy as np
import pandas as pd
from scipy.special import betaincinv, stdtrit

from querytruth.array_types import FloatArray
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL

TRAFFIC_COLUMNS = ["metric", "over", "value", "low", "high"]
MEANS = ("questions", "searches")
_SAMPLED = ["searches", "stratum", "inclusion"]


def measure_traffic(per_query: pd.DataFrame, queries: pd.DataFrame | None, names: list[str]) -> pd.DataFrame:
    """Returns a row (TRAFFIC_COLUMNS) per metric and mean; none where not every query knows its chances. `per_query`:
    a column per metric by query id. Queries without a relevant image are left out of both means."""
    if queries is None or not {*_SAMPLED} <= {*queries}:
        return pd.DataFrame(columns=TRAFFIC_COLUMNS)
    sample = queries.set_index("query_id")[_SAMPLED].reindex(per_query.index)
    if sample.isna().to_numpy().any() or not len(sample):
        return pd.DataFrame(columns=TRAFFIC_COLUMNS)
    rows = []
    for name in names:
        for over in MEANS:
            found = estimate_log_mean(per_query[name].to_numpy(dtype=np.float64), sample, over)
            rows.append((name, over, *found))
    return pd.DataFrame(rows, columns=TRAFFIC_COLUMNS)


def estimate_log_mean(values: FloatArray, sample: pd.DataFrame, over: str) -> tuple[float, float, float]:
    """Returns the mean over the log's `questions` or `searches`, and its 95% interval. `values` (n,): 0 to 1;
    `sample` (n rows): `searches`, `stratum` and `inclusion` of each.

    The mean is Hájek's, of values weighted by 1 / inclusion; its variance is that of its residuals within strata, each
    with the correction for a stratum of which much was drawn. The interval is Clopper and Pearson's with the effective
    number of queries (Korn and Graubard, "Confidence Intervals for Proportions with Small Expected Number of Positive
    Counts Estimated From Survey Data", Survey Methodology 24, 1998), at most that of equal variances (Kish). Where the
    whole log was drawn the mean is known, and the interval is a point.
    """
    inclusion = sample["inclusion"].to_numpy(dtype=np.float64)
    weights = 1 / inclusion
    if over == "searches":
        weights = weights * sample["searches"].to_numpy(dtype=np.float64)
    weights /= weights.sum()
    mean = float(np.clip(weights @ values, 0, 1))
    kish = ((1 - inclusion) * weights**2).sum()
    if not kish:
        return mean, mean, mean
    variances, freedoms = [], []
    for rows in sample.groupby("stratum", sort=True).indices.values():
        residuals = weights[rows] * (values[rows] - mean)
        if len(rows) > 1:
            variances.append((1 - inclusion[rows[0]]) * len(rows) * residuals.var(ddof=1))
            freedoms.append(len(rows) - 1)
    variance = float(np.sum(variances))
    spread = mean * (1 - mean)
    effective = 1 / kish if variance <= spread * kish else spread / variance
    if variance > 0:
        freedom = variance**2 / float(np.sum(np.square(variances) / freedoms))
        tail = (1 - CONFIDENCE_LEVEL) / 2
        effective *= min((stdtrit(max(len(values) - 1, 1), tail) / stdtrit(max(freedom, 1), tail)) ** 2, 1)
    return mean, *_bound_share(mean, effective)


def _bound_share(share: float, draws: float) -> tuple[float, float]:
    """Returns Clopper and Pearson's interval of a share seen in so many draws, which may be no whole number."""
    tail = (1 - CONFIDENCE_LEVEL) / 2
    hits, misses = share * draws, (1 - share) * draws
    low = float(betaincinv(hits, misses + 1, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - tail)) if misses > 0 else 1.0
    return low, high
