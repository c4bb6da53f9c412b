"""From a run to all that an evaluation says of it: figures, curves, slices, and what to distrust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.errors import UserError
from evaluation.chance import expected
from evaluation.comparison import Warned, warned
from evaluation.evaluated import CURVE, FIGURES, RANKED, SHOWN, SLICES, TEXT_TO_IMAGE, Evaluated
from evaluation.metric_names import Metric, parse
from evaluation.metrics import cmc, precision_recall
from evaluation.open_set import curve, threshold_for
from evaluation.ranking import Ranked
from evaluation.scoring import DEFAULT, Scores, score
from evaluation.slices import sliced
from evaluation.truth import Truth

_CURVE_TO = 100  # results
_TIED = 0.05  # of the queries: fewer ties at a cut move no figure that people would look at
PRECISIONS = (0.9,)


@dataclass(frozen=True, slots=True)
class Asked:
    """What every system is measured by, one way round: the judgments, and what is known of the queries.

    `set`: as Evaluated says it. `queries` (query_id, text, level …) are what slices are cut from, None where nothing is
    known; `clusters`: per query id the topic, picture or labels that it shares with others. `precisions`: those that a
    threshold is wanted for."""

    set: dict[str, Any]
    truth: Truth
    direction: str = TEXT_TO_IMAGE
    queries: pd.DataFrame | None = None
    clusters: pd.Series | None = None
    metrics: Sequence[str] = DEFAULT
    precisions: Sequence[float] = PRECISIONS


def evaluated(
    ranked: Ranked,
    asked: Asked,
    system: dict[str, Any],
    *,
    warnings: Sequence[Warned] = (),
    counts: Mapping[str, Any] | None = None,
) -> Evaluated:
    """All of a run that was ranked against the same truth. `warnings` and `counts`: what the system itself says of how
    the run came about."""
    scores = score(ranked, asked.metrics, clusters=asked.clusters)
    summary = scores.summary()
    chances = chance_of(scores.metrics, asked.truth)
    names = [str(metric) for metric in scores.metrics]
    deepest = _deepest(ranked)
    recalls, precisions = precision_recall(ranked, deepest)
    clusters = aligned(asked.clusters, scores.per_query.index)
    return Evaluated(
        system=system,
        set=asked.set,
        direction=asked.direction,
        conventions=summary["conventions"],
        figures=_figures(summary["figures"], chances),
        per_query=scores.per_query,
        slices=_slices(scores, asked, names),
        cmc=cmc(ranked, deepest),
        precision_recall=pd.DataFrame({"recall": recalls, "precision": precisions}),
        open_set=curve(ranked)[CURVE],
        ranked=ranked_rows(ranked, SHOWN).astype({"query_id": "str", "image_id": "str"}),
        warnings=[*warnings, *_warnings(ranked, scores), *warned(scores.per_query, names, chances, clusters=clusters)],
        counts={key: summary[key] for key in summary if key not in ("figures", "conventions")} | dict(counts or {}),
        definitions={str(metric): metric.definition for metric in scores.metrics},
        thresholds={f"{wanted:g}": threshold_for(ranked, wanted) for wanted in asked.precisions},
    )


def ranked_rows(ranked: Ranked, most: int | None = None) -> pd.DataFrame:
    """The results (RANKED) by query and rank, all or those up to a rank; ids are categories."""
    at = np.flatnonzero(ranked.rank <= most) if most is not None else np.arange(len(ranked.rank))
    queries, images = (pd.Index(ids.to_pandas(), dtype="str") for ids in (ranked.truth.query_ids, ranked.image_ids))
    columns = {
        "query_id": pd.Categorical.from_codes(ranked.query[at], categories=queries),
        "rank": ranked.rank[at],
        "image_id": pd.Categorical.from_codes(ranked.image[at], categories=images),
        "score": ranked.score[at],
        "relevance": ranked.grade[at],
    }
    return pd.DataFrame(columns, columns=RANKED)


def depth(metrics: Sequence[str], truth: Truth, k: int | None) -> int:
    """How many results of each query a search is asked for: k, else 100, or what the metrics' cuts want, up to 1,000 of
    them where a metric looks at as many as are relevant."""
    chosen = [parse(name) for name in metrics]
    cuts = [metric.cut for metric in chosen if isinstance(metric.cut, int)]
    if k is not None:
        if cuts and k < max(cuts):
            raise UserError("evaluate", f"k = {k}", f"is less than {max(cuts)}, which a metric looks at", "give more")
        return k
    whole = int(truth.relevant.max()) if any(not isinstance(metric.cut, int) for metric in chosen) else 0
    return max([100, min(whole, 1000), *cuts])


def chance_of(metrics: Sequence[Metric], truth: Truth) -> dict[str, float]:
    """By name what a random order gets on average; empty where nobody knows how many pictures there are."""
    if not truth.is_gallery:
        return {}
    return {str(metric): float(expected(metric, truth, len(truth.image_ids)).mean()) for metric in metrics}


def aligned(clusters: pd.Series | None, queries: pd.Index) -> Any:
    """A cluster per query; one without any stands alone."""
    return None if clusters is None else clusters.reindex(queries).fillna(pd.Series(queries, queries)).to_numpy()


def _figures(figures: Mapping[str, Any], chances: Mapping[str, float]) -> pd.DataFrame:
    rows = [
        (name, of["mean"], *of["interval"], *of["bounds"], chances.get(name, np.nan), of["detectable"])
        for name, of in figures.items()
    ]
    return pd.DataFrame(rows, columns=FIGURES).astype({"detectable": float})


def _slices(scores: Scores, asked: Asked, names: list[str]) -> pd.DataFrame:
    if asked.queries is None:
        return pd.DataFrame(columns=SLICES)
    return sliced(scores.per_query, asked.queries, names).rename(columns={"aspect": "slice"})[SLICES]


def _deepest(ranked: Ranked) -> int:
    """How far the curves go: no further than there is anything."""
    there = len(ranked.truth.image_ids) if ranked.truth.is_gallery else int(ranked.returned.max(initial=1))
    return max(1, min(_CURVE_TO, there))


def _warnings(ranked: Ranked, scores: Scores) -> list[Warned]:
    """What speaks against the run itself: `missing_queries`, `ties` and `cut_short`."""
    found, queries = [], len(scores.per_query)
    if missing := len(scores.missing):
        example = scores.missing[0]
        detail = f"the run leaves out {missing:,} of {queries:,} queries, which count as 0 (such as {example})"
        found.append(Warned("missing_queries", "", detail))
    for k, tied in sorted(scores.ties.items()):
        if tied > _TIED * queries:
            detail = f"{tied:,} of {queries:,} queries have equal scores at rank {k}: the image ids decide who is in"
            found.append(Warned("ties", f"@{k}", detail))
    if short := _cut_short(ranked, scores):
        found.append(short)
    return found


def _cut_short(ranked: Ranked, scores: Scores) -> Warned | None:
    """Whether fewer came back than a metric without a number as its cut looks at."""
    whole = [str(metric) for metric in scores.metrics if not isinstance(metric.cut, int)]
    returned = ranked.returned
    short = int(((returned > 0) & (returned < ranked.truth.relevant)).sum())
    if not whole or not short:
        return None
    detail = f"{short:,} queries got fewer results than they have relevant images: the rest counts as not found"
    return Warned("cut_short", ", ".join(whole), detail)
