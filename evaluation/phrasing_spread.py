"""How far a system's figures differ between phrasings of one question.

The phrasings of a question are its queries in one language: the same labels or the same question of a family, in
several styles or by a chat model. They have one ground truth, so that what differs is the system's answer alone.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from builders.equivalent_queries import list_meanings
from evaluation.statistics import correct_holm, estimate_interval, permutation_test

SPREAD_COLUMNS = ["metric", "questions", "queries", "worst", "mean", "best", "spread", "low", "high"]
SPREAD_DIFFERENCE_COLUMNS = [
    *("metric", "one", "other", "questions", "spread_one", "spread_other"),
    *("difference", "low", "high", "p", "p_holm"),
]
_KINDS = ("labels", "family")  # captions of one image are texts about different things in it


def number_questions(queries: pd.DataFrame | None, query_ids: pd.Index) -> pd.Series:
    """Returns the number of the question, from 0, by query id: of those of `query_ids` that have another phrasing
    there."""
    if queries is None or "labels" not in queries:
        return pd.Series(dtype="int64")
    asked = queries[queries["query_id"].isin(query_ids)]
    keys = pd.Series(
        [(language, *meaning) for language, meaning in zip(asked["language"], list_meanings(asked), strict=True)],
        index=pd.Index(asked["query_id"]),
        dtype="object",
    )
    keys = keys[[key[1] in _KINDS for key in keys]]
    several = keys[keys.duplicated(keep=False)].sort_index()
    return pd.Series(pd.factorize(several)[0], index=several.index)


def find_spreads(per_query: pd.DataFrame, question: pd.Series, metrics: Sequence[str]) -> pd.DataFrame:
    """Returns the best less the worst phrasing of each question (questions x metrics). `question`: that of
    `number_questions`."""
    grouped = per_query.loc[question.index, list(metrics)].groupby(question)
    return grouped.max() - grouped.min()


def measure_phrasing_spread(
    per_query: pd.DataFrame, queries: pd.DataFrame | None, metrics: Sequence[str]
) -> pd.DataFrame:
    """Returns a row (SPREAD_COLUMNS) per metric: the means over questions of the worst phrasing, of all and of the
    best, and of the best less the worst with its 95% interval. No row where no question has two phrasings. A question
    with more phrasings has the larger spread: compare systems, not sets."""
    question = number_questions(queries, per_query.index)
    if question.empty:
        return pd.DataFrame(columns=SPREAD_COLUMNS)
    grouped = per_query.loc[question.index, list(metrics)].groupby(question)
    worst, mean, best = grouped.min(), grouped.mean(), grouped.max()
    interval = estimate_interval((best - worst).to_numpy())
    counts = [len(worst), len(question)]
    means = [one.mean().to_dict() for one in (worst, mean, best, best - worst)]
    ends = zip(interval.low.tolist(), interval.high.tolist(), strict=True)
    rows = [
        [metric, *counts, *(one[metric] for one in means), *both] for metric, both in zip(metrics, ends, strict=True)
    ]
    return pd.DataFrame(rows, columns=SPREAD_COLUMNS)


def compare_phrasing_spread(
    systems: Mapping[str, pd.DataFrame], queries: pd.DataFrame | None, metrics: Sequence[str]
) -> pd.DataFrame:
    """Returns a row (SPREAD_DIFFERENCE_COLUMNS) per metric and pair of systems (figures by query): the spread of `one`
    less that of `other` over the same questions, its 95% interval, and the p-value of swapping the two systems question
    by question, corrected for the pairs of a metric (Holm)."""
    names = list(systems)
    question = number_questions(queries, systems[names[0]].index)
    if question.empty:
        return pd.DataFrame(columns=SPREAD_DIFFERENCE_COLUMNS)
    spreads = {name: find_spreads(per_query, question, metrics) for name, per_query in systems.items()}
    rows = []
    for metric in metrics:
        pairs = list(combinations(names, 2))
        values = [(spreads[one][metric].to_numpy(), spreads[other][metric].to_numpy()) for one, other in pairs]
        p_values = np.array([permutation_test(*both) for both in values])
        for (one, other), (ones, others), p, holm in zip(pairs, values, p_values, correct_holm(p_values), strict=True):
            interval = estimate_interval(ones - others, ends=(-1.0, 1.0))
            means = float(ones.mean()), float(others.mean())
            ends = float(interval.low[0]), float(interval.high[0])
            rows.append([metric, one, other, len(ones), *means, means[0] - means[1], *ends, float(p), float(holm)])
    return pd.DataFrame(rows, columns=SPREAD_DIFFERENCE_COLUMNS)
