"""Figures of slices, which are parts of the queries."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import RowIndices
from evaluation.statistics import bootstrap_interval

ASPECTS = ("level", "style", "language", "topic", "labels")
LENGTH_BINS = {"1-2": 2, "3-5": 5, "6-10": 10, "11-20": 20, "over 20": None}  # words; a Chinese character is one
_WORD = re.compile("[\u3400-\u9fff\uf900-\ufaff]|[^\\W_\u3400-\u9fff\uf900-\ufaff]+")


def score_slices(per_query: pd.DataFrame, queries: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Returns a row per aspect, value and metric with queries, mean, low and high (95% interval).

    `per_query` is indexed by query_id. Aspects are those of ASPECTS that the queries have; a query with several labels
    counts for each of them, one without a value for none."""
    known = queries.set_index("query_id").reindex(per_query.index)
    parts = [_part(per_query, aspect, values, metrics) for aspect, values in _aspects(known)]
    columns = ["aspect", "value", "metric", "queries", "mean", "low", "high"]
    return pd.DataFrame([row for part in parts for row in part], columns=columns)


def count_words(texts: Sequence[str]) -> RowIndices:
    """Returns the number of words of each text (texts,); every Chinese character is one."""
    return np.array([len(_WORD.findall(text)) for text in texts], dtype=np.int64)


def _aspects(known: pd.DataFrame) -> list[tuple[str, pd.Series]]:
    aspects = [(name, known[name]) for name in ASPECTS if name in known]
    if "text" in known:
        counts = count_words(known["text"].fillna("").tolist())
        bins = np.searchsorted([last for last in LENGTH_BINS.values() if last], counts)
        aspects.append(("length", pd.Series(np.array([*LENGTH_BINS], dtype=object)[bins], index=known.index)))
    return aspects


def _part(per_query: pd.DataFrame, aspect: str, values: pd.Series, metrics: Sequence[str]) -> list[tuple[Any, ...]]:
    single = values.explode().dropna()
    rows: list[tuple[Any, ...]] = []
    for value in _ordered(aspect, single.unique().tolist()):
        mine = per_query.loc[single.index[(single == value).to_numpy()].unique(), list(metrics)]
        interval = bootstrap_interval(mine.to_numpy())
        for place, metric in enumerate(metrics):
            figures = (float(mine[metric].mean()), float(interval.low[place]), float(interval.high[place]))
            rows.append((aspect, str(value), metric, len(mine), *figures))
    return rows


def _ordered(aspect: str, values: list[Any]) -> list[Any]:
    return sorted(values, key=[*LENGTH_BINS].index) if aspect == "length" else sorted(values)
