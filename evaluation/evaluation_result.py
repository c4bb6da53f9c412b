"""The result of an evaluation, which result files hold and report pages show.

Tables are in a fixed order, so that the same evaluation gives the same bytes: `per_query` by query_id, `figures` in the
order of the metrics, `slices` by aspect, value and metric, `ranked` by query and rank. NaN stands where nothing is
known; result files leave it out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evaluation.comparison import EvaluationWarning
from evaluation.open_set import OpenSetThreshold
from evaluation.phrasing_spread import SPREAD_COLUMNS, SPREAD_DIFFERENCE_COLUMNS

TEXT_TO_IMAGE, IMAGE_TO_TEXT = DIRECTIONS = ("text_to_image", "image_to_text")
MAX_STORED_RANK = 20  # results of each query that are stored

FIGURE_COLUMNS = ["metric", "value", "low", "high", "at_least", "at_most", "chance", "detectable"]
SLICE_COLUMNS = ["slice", "value", "queries", "metric", "mean", "low", "high"]
OPEN_SET_COLUMNS = ["threshold", "precision", "recall", "shown"]
RANKED_COLUMNS = ["query_id", "rank", "image_id", "score", "relevance"]
LEFT_OUT_COLUMNS = ["kind", "id", "rows", "known_in"]


def describe_part(part: Mapping[str, str | int]) -> str:
    """Returns the values that the queries of a part of a set have, such as `language=en, level=2`."""
    return ", ".join(f"{column}={value}" for column, value in part.items())


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The result of one system on one set, in one direction.

    `system`: kind, name, and whatever parameters it has; `set`: name, version, content_digest, kind, title (of bare
    files the version is 0, the digest that of the judgments), and `part` where only its queries with these values
    were evaluated; `conventions`: name and text of every rule behind the figures. `figures` (FIGURE_COLUMNS): low
    and high are the ends of the interval, at_least and at_most the bounds by unjudged results, chance is
    NaN where unknown, detectable the smallest difference that the set can show. `per_query`: `returned`, a column
    per metric, judged@k. `slices` (SLICE_COLUMNS): `slice` is the aspect (level, style …), `value` its value. `cmc`
    (k,): mean Hit@1 to Hit@k. `precision_recall`: recall and precision at 1 to k. `open_set` (OPEN_SET_COLUMNS):
    the highest threshold first. `ranked` (RANKED_COLUMNS): the first 20 results of each query; relevance -1 is
    unjudged. In the other direction a query_id is an image's, and an image_id a text's. `counts`: queries, those
    missing, those with a tie at a cut, judged@k, and what the system lost; `definitions`: by metric what exactly is
    computed; `thresholds`: by wanted precision the lowest threshold that has it, None where none has. `left_out`
    (LEFT_OUT_COLUMNS): the ids of the run that the set does not have: `query` or `result`, its number of rows, and
    the version that has it, "" for none. `phrasings` (SPREAD_COLUMNS): by metric the worst and the best of the
    phrasings of a question; no row where no question has two.
    """

    system: dict[str, Any]
    set: dict[str, Any]
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

    @property
    def metrics(self) -> list[str]:
        """The names of the figures, in their order."""
        return [str(name) for name in self.figures["metric"]]

    @property
    def set_name(self) -> str:
        """The name and version of the set, or the title of bare files, and which part of it was evaluated."""
        name = f"{self.set['name']}/v{self.set['version']}" if self.set["version"] else str(self.set["title"])
        return f"{name} ({describe_part(part)})" if (part := self.set.get("part")) else name


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """Two systems on the same queries. `table`: evaluation.comparison's columns, a row per metric, `first` less
    `second`; `differences`: by query that of the first metric; `most_different_queries`: the queries on which it is
    largest, either way, the most different first; `phrasings` (SPREAD_DIFFERENCE_COLUMNS): how far each of them differs
    between phrasings of a question."""

    first: EvaluationResult
    second: EvaluationResult
    table: pd.DataFrame
    most_different_queries: list[str]
    differences: pd.Series
    phrasings: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=SPREAD_DIFFERENCE_COLUMNS))
