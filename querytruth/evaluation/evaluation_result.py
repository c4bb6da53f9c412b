"""The result of an evaluation, used by result files and report pages, including phrasings of one question.

Tables are in a fixed order, so that the same evaluation gives the same bytes: `per_query` by query_id, `figures` in the
order of the metrics, `slices` by aspect, value and metric, `ranked` by query and rank. NaN means unknown; result files
leave it out.

The phrasings of a question are its queries in one language: the same labels or the same question of a family, in
several styles or by a chat model. They have one ground truth, so that only the system's answer differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from querytruth.evaluation.comparison import EvaluationWarning, compare_systems
from querytruth.evaluation.open_set import OpenSetThreshold
from querytruth.evaluation.result_types import EvaluatedSet, SystemDescription
from querytruth.evaluation.statistics import estimate_interval
from querytruth.evaluation.traffic import TRAFFIC_COLUMNS
from querytruth.sets.query_texts import list_meanings

SPREAD_COLUMNS = ["metric", "questions", "queries", "worst", "mean", "best", "spread", "low", "high"]
SPREAD_DIFFERENCE_COLUMNS = [
    *("metric", "one", "other", "questions", "spread_one", "spread_other"),
    *("difference", "low", "high", "p", "p_holm"),
]
_WHERE = {"count": "count", "wait": "wait for judgments", "absent": "without an answer here"}
_KINDS = ("labels", "family")  # captions of one image are texts about different things in it
TEXT_TO_IMAGE, IMAGE_TO_TEXT = DIRECTIONS = ("text_to_image", "image_to_text")
MAX_STORED_RANK = 20  # results of each query that are stored

FIGURE_COLUMNS = ["metric", "value", "low", "high", "at_least", "at_most", "chance", "detectable"]
SLICE_COLUMNS = ["slice", "value", "queries", "metric", "mean", "low", "high"]
OPEN_SET_COLUMNS = ["threshold", "precision", "recall", "shown"]
RANKED_COLUMNS = ["query_id", "rank", "image_id", "score", "relevance"]
LEFT_OUT_COLUMNS = ["kind", "id", "rows", "known_in"]


def number_questions(queries: pd.DataFrame | None, query_ids: pd.Index) -> pd.Series:
    """Return the number of the question, from 0, by query id: of those of `query_ids` that have another phrasing
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
    """Return the best less the worst phrasing of each question (questions x metrics). `question`: that of
    `number_questions`."""
    grouped = per_query.loc[question.index, list(metrics)].groupby(question)
    return grouped.max() - grouped.min()


def measure_phrasing_spread(
    per_query: pd.DataFrame, queries: pd.DataFrame | None, metrics: Sequence[str]
) -> pd.DataFrame:
    """Return a row (SPREAD_COLUMNS) per metric: the means over questions of the worst phrasing, of all and of the
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
    """Return a row (SPREAD_DIFFERENCE_COLUMNS) per metric and pair of systems (figures by query): the spread of `one`
    minus that of `other` over the same questions, compared as figures are (`compare_systems`)."""
    question = number_questions(queries, next(iter(systems.values())).index)
    if question.empty:
        return pd.DataFrame(columns=SPREAD_DIFFERENCE_COLUMNS)
    spreads = {name: find_spreads(per_query, question, metrics) for name, per_query in systems.items()}
    table = compare_systems(spreads, metrics).assign(questions=question.nunique())
    for side in ("one", "other"):
        named = zip(table[side], table["metric"], strict=True)
        table[f"spread_{side}"] = [float(spreads[name][metric].mean()) for name, metric in named]
    return table[SPREAD_DIFFERENCE_COLUMNS]


def find_other_queries(counts: Mapping[str, Any]) -> Mapping[str, int] | None:
    """Return the `queries_of_set` of a result's counts where not all queries count, else None."""
    of_set = counts.get("queries_of_set") or {"all": 0, "count": 0}
    return None if of_set["all"] == of_set["count"] else of_set


def describe_queries(counts: Mapping[str, Any], shown: int) -> str:
    """Return where the queries of a set went, by the `queries_of_set` of a result's counts: `200 queries: 122 count,
    77 wait for judgments, 1 without an answer here`; where all count, and where that is not stated, those `shown`."""
    if (of_set := find_other_queries(counts)) is None:
        return f"{shown:,} queries"
    parts = [f"{of_set[name]:,} {text}" for name, text in _WHERE.items() if of_set[name]]
    return f"{of_set['all']:,} queries: {', '.join(parts)}"


def describe_part(part: Mapping[str, str | int]) -> str:
    """Return the values that the queries of a part of a set have, such as `language=en, level=2`."""
    return ", ".join(f"{column}={value}" for column, value in part.items())


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The result of one system on one set, in one direction.

    `system`: kind, name, and whatever parameters it has; `set`: name, version, content_digest, kind, title (of bare
    files the version is 0, the digest that of the judgments), and `part` where only its queries with these values
    were evaluated; `conventions`: name and text of every rule behind the figures. `figures` (FIGURE_COLUMNS): low
    and high are the ends of the interval, at_least and at_most the bounds by unjudged results and queries, chance is
    NaN where unknown, detectable the smallest difference that the set can show. `per_query`: `returned`, a column
    per metric, judged@k. `slices` (SLICE_COLUMNS): `slice` is the aspect (level, style …), `value` its value. `cmc`
    (k,): mean Hit@1 to Hit@k. `precision_recall`: recall and precision at 1 to k. `open_set` (OPEN_SET_COLUMNS):
    the highest threshold first. `ranked` (RANKED_COLUMNS): the first 20 results of each query; relevance -1 is
    unjudged. In the other direction a query_id is an image's, and an image_id a text's. `counts`: queries, those
    missing, those with a tie at a cut, judged@k, and what the system lost; `definitions`: by metric what exactly is
    computed; `thresholds`: by wanted precision the lowest threshold that has it, None where none has. `left_out`
    (LEFT_OUT_COLUMNS): the ids of the run that the set does not have: `query` or `result`, its number of rows, and
    the version that has it, "" for none. `phrasings` (SPREAD_COLUMNS): by metric the worst and the best of the
    phrasings of a question; no row where no question has two. `traffic` (TRAFFIC_COLUMNS): the means over the log that
    the queries were drawn from; no row where they were drawn from none. `counts["absent"]`: see `open_set`.
    """

    system: SystemDescription
    set: EvaluatedSet
    direction: str
    conventions: dict[str, str]
    figures: pd.DataFrame
    per_query: pd.DataFrame
    slices: pd.DataFrame
    cmc: NDArray[np.float64]
    precision_recall: pd.DataFrame
    open_set: pd.DataFrame
    ranked: pd.DataFrame
    warnings: list[EvaluationWarning] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    thresholds: dict[str, OpenSetThreshold | None] = field(default_factory=dict)
    left_out: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=LEFT_OUT_COLUMNS))
    phrasings: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=SPREAD_COLUMNS))
    traffic: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=TRAFFIC_COLUMNS))

    @property
    def metrics(self) -> list[str]:
        """Return the names of the figures, in their order."""
        return [str(name) for name in self.figures["metric"]]

    @property
    def set_name(self) -> str:
        """Return the name and version of the set, or the title of bare files, and which part of it was evaluated."""
        name = f"{self.set['name']}/v{self.set['version']}" if self.set["version"] else str(self.set["title"])
        return f"{name} ({describe_part(part)})" if (part := self.set.get("part")) else name


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """Two systems on the same queries. `table`: the columns of `compare_figures`, a row per metric, `first` less
    `second`; `differences`: by query that of the first metric; `most_different_queries`: the queries on which it is
    largest, either way, the most different first; `phrasings` (SPREAD_DIFFERENCE_COLUMNS): how far each of them differs
    between phrasings of a question."""

    first: EvaluationResult
    second: EvaluationResult
    table: pd.DataFrame
    most_different_queries: list[str]
    differences: pd.Series
    phrasings: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=SPREAD_DIFFERENCE_COLUMNS))
