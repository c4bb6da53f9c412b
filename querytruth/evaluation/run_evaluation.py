"""Computes the evaluation result of a run: figures, curves, slices and warnings."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray, FloatArray, RowIndices
from querytruth.errors import UserError
from querytruth.evaluation import evaluation_result, metric_scores, open_set
from querytruth.evaluation.comparison import EvaluationWarning, find_ignored_families, find_warnings, measure_shortcuts
from querytruth.evaluation.ground_truth import GroundTruth
from querytruth.evaluation.metrics import (
    Metric,
    compute_cmc_curve,
    compute_precision_recall_curve,
    negatives_at_k,
    parse_metric,
)
from querytruth.evaluation.ranking import RankedRun
from querytruth.evaluation.result_types import EvaluatedSet, SystemDescription
from querytruth.evaluation.statistics import IntervalEstimate, estimate_interval
from querytruth.evaluation.system_differences import compare_leaked, find_leaked_warnings
from querytruth.evaluation.traffic import measure_traffic

_MAX_CURVE_DEPTH = 100  # results
_MIN_TIED_SHARE = 0.05  # of the queries: fewer ties at a cut have no visible effect
DEFAULT_PRECISIONS = (0.9,)

_ASPECTS = ("level", "style", "language", "topic", "labels", "overlap", "source", "fact_kinds")
_LENGTH_BINS = {"1-2": 2, "3-5": 5, "6-10": 10, "11-20": 20, "over 20": None}  # words; a Chinese character is one
_WORD = re.compile("[\u3400-\u9fff\uf900-\ufaff]|[^\\W_\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """The definition of an evaluation in one direction, the same for every system: the judgments and the queries.

    `set`: as in EvaluationResult. `queries` (query_id, text, level …): the source of slices, or None; `clusters`: per
    query id the topic, image or labels that it shares with others; `log_sample`: see
    `select_log_sample`. `precisions`: the target precisions of thresholds."""

    set: EvaluatedSet
    truth: GroundTruth
    direction: str = evaluation_result.TEXT_TO_IMAGE
    queries: pd.DataFrame | None = None
    clusters: pd.Series | None = None
    log_sample: pd.DataFrame | None = None
    metrics: Sequence[str] = metric_scores.DEFAULT_METRICS
    precisions: Sequence[float] = DEFAULT_PRECISIONS


def evaluate_run(
    ranked: RankedRun,
    spec: EvaluationSpec,
    system: SystemDescription,
    *,
    warnings: Sequence[EvaluationWarning] = (),
    counts: Mapping[str, Any] = MappingProxyType({}),
    waiting: Mapping[str, FloatArray] = MappingProxyType({}),
) -> evaluation_result.EvaluationResult:
    """Return the result of a run that was ranked against the same truth. `warnings` and `counts` come from the
    system and are added; `waiting`: see `bound_waiting`. Raises UserError for an unknown metric."""
    scores = metric_scores.score_run(ranked, spec.metrics, clusters=spec.clusters)
    chance_by_metric = compute_chance_scores(scores.metrics, spec.truth, counts.get("unknown_results", 0))
    names = [str(metric) for metric in scores.metrics]
    deepest = max(1, min(_MAX_CURVE_DEPTH, int(ranked.returned_counts.max(initial=1))))  # where the run ends
    recalls, precisions = compute_precision_recall_curve(ranked, deepest)
    overlap = find_query_aspects(spec.queries, scores.per_query.index).get("overlap")
    negatives = _measure_negatives(ranked, spec.queries, scores)
    shortcuts = measure_shortcuts(ranked, spec.queries)
    slices = [score_slices(scores.per_query, spec.queries, names, clusters=scores.clusters)]
    slices += [_score_families(table, spec.queries) for table in (negatives, shortcuts) if len(table)]
    return evaluation_result.EvaluationResult(
        system=system,
        set=spec.set,
        direction=spec.direction,
        conventions=metric_scores.CONVENTIONS,
        figures=scores.figures(chance_by_metric, waiting),
        per_query=scores.per_query,
        slices=pd.concat(slices, ignore_index=True),
        cmc=compute_cmc_curve(ranked, deepest),
        precision_recall=pd.DataFrame({"recall": recalls, "precision": precisions}),
        ranked=build_ranked_table(ranked, evaluation_result.MAX_STORED_RANK).astype(
            {"query_id": "str", "image_id": "str"}
        ),
        warnings=[
            *warnings,
            *_warnings(ranked, scores),
            *find_leaked_warnings(compare_leaked(scores.per_query, overlap, names, clusters=scores.clusters)),
            *find_ignored_families(shortcuts, spec.queries),
            *find_warnings(
                scores.per_query,
                names,
                chance_by_metric,
                scores.interval,
                clusters=scores.clusters,
                waiting=len(next(iter(waiting.values()), ())),
            ),
        ],
        counts=scores.counts()
        | ({"explicit_negatives": negatives.mean().to_dict()} if len(negatives) else {})
        | ({"shortcuts": shortcuts.mean().to_dict()} if len(shortcuts) else {})
        | dict(counts),
        definitions={str(metric): metric.definition for metric in scores.metrics},
        **find_thresholds(ranked, spec),
        phrasings=evaluation_result.measure_phrasing_spread(scores.per_query, spec.queries, names),
        traffic=measure_traffic(scores.per_query, spec.log_sample, names),
    )


def find_thresholds(ranked: RankedRun, spec: EvaluationSpec, absent: pd.Series = open_set.NO_SCORES) -> dict[str, Any]:
    """Return `open_set`, the curve, and the `thresholds` of a result, none where an order alone is known; `absent`:
    see `compute_threshold_curve`."""
    curve, wanted = open_set.compute_threshold_curve(ranked, absent), spec.precisions
    if open_set.is_order_alone(ranked):
        curve, wanted = curve[:0], ()
    thresholds = {f"{precision:g}": open_set.find_threshold(ranked, curve, precision, absent) for precision in wanted}
    return {"open_set": open_set.thin_curve(curve)[evaluation_result.OPEN_SET_COLUMNS], "thresholds": thresholds}


def _measure_negatives(
    ranked: RankedRun, queries: pd.DataFrame | None, scores: metric_scores.MetricScores
) -> pd.DataFrame:
    """Return neg@k of the queries of families, a column per cut of the metrics; no rows without families."""
    if queries is None or "family" not in queries:
        return pd.DataFrame(index=scores.per_query.index[:0])
    asked = scores.per_query.index.isin(queries.loc[queries["family"].notna(), "query_id"])
    columns = {f"neg@{k}": negatives_at_k(ranked, k)[asked] for k in sorted(scores.ties_by_cut)} if asked.any() else {}
    return pd.DataFrame(columns, index=scores.per_query.index[asked])


def _score_families(per_query: pd.DataFrame, queries: pd.DataFrame | None) -> pd.DataFrame:
    scored = score_slices(per_query, queries, list(per_query.columns))
    return scored[scored["slice"].isin(["family", "kind"])]


def build_ranked_table(ranked: RankedRun, max_rank: int | None = None) -> pd.DataFrame:
    """Return the results (RANKED_COLUMNS) by query and rank, up to a rank where it is given; ids are categories."""
    at = np.flatnonzero(ranked.rank <= max_rank) if max_rank is not None else np.arange(len(ranked.rank))
    queries, images = (pd.Index(ids.to_pandas(), dtype="str") for ids in (ranked.truth.query_ids, ranked.image_ids))
    columns = {
        "query_id": pd.Categorical.from_codes(ranked.query[at], categories=queries),
        "rank": ranked.rank[at],
        "image_id": pd.Categorical.from_codes(ranked.image_code[at], categories=images),
        "score": ranked.score[at],
        "relevance": ranked.grade[at],
    }
    return pd.DataFrame(columns, columns=evaluation_result.RANKED_COLUMNS)


def choose_metrics(names: Iterable[str], k: int | None = None) -> list[str]:
    """Return the canonical names of metrics; of no names those of the usual ones that k results are enough for. Raises
    UserError for an unknown name."""
    chosen = [parse_metric(name) for name in names]
    if not chosen:
        usual = [parse_metric(name) for name in metric_scores.DEFAULT_METRICS]
        chosen = [metric for metric in usual if k is None or not isinstance(metric.cut, int) or metric.cut <= k]
    return [str(metric) for metric in chosen]


def choose_search_depth(metrics: Sequence[str], truth: GroundTruth, k: int | None) -> int:
    """Return how many results per query a search gives: k, else 100 or the largest cut of the metrics, up to 1,000
    where a metric uses R. Raises UserError where k is less than a cut."""
    chosen = [parse_metric(name) for name in metrics]
    cuts = [metric.cut for metric in chosen if isinstance(metric.cut, int)]
    if k is not None:
        if cuts and k < max(cuts):
            raise UserError("evaluate", f"k = {k}", f"is less than {max(cuts)}, which a metric needs", "raise k")
        return k
    whole = int(truth.relevant_counts.max()) if any(not isinstance(metric.cut, int) for metric in chosen) else 0
    return max([100, min(whole, 1000), *cuts])


def compute_chance_scores(metrics: Sequence[Metric], truth: GroundTruth, others: int = 0) -> dict[str, float]:
    """Return by name the mean figure of a random order of the gallery and `others`, images that it does not have but
    that came back; empty where the size of the gallery is unknown."""
    if not truth.is_gallery:
        return {}
    size = len(truth.image_ids) + others
    return {str(metric): float(metric_scores.expected_by_chance(metric, truth, size).mean()) for metric in metrics}


def _warnings(ranked: RankedRun, scores: metric_scores.MetricScores) -> list[EvaluationWarning]:
    """Return the warnings about the run itself: `missing_queries`, `ties`, `short_run` and `cut_short`."""
    warnings, queries = [], len(scores.per_query)
    if missing := len(scores.missing_queries):
        example = scores.missing_queries[0]
        detail = f"the run omits {missing:,} of {queries:,} queries, which count as 0 (for example {example})"
        warnings.append(EvaluationWarning("missing_queries", "", detail))
    for k, tied in sorted(scores.ties_by_cut.items()):
        if tied > _MIN_TIED_SHARE * queries:
            detail = f"{tied:,} of {queries:,} queries have equal scores at rank {k}: image ids break the ties"
            warnings.append(EvaluationWarning("ties", f"@{k}", detail))
    return warnings + [warning for warning in (_short_run(ranked, scores), _cut_short(ranked, scores)) if warning]


def _short_run(ranked: RankedRun, scores: metric_scores.MetricScores) -> EvaluationWarning | None:
    """Return a warning where metrics look at more results than the run has for any query, and than it had to have."""
    deepest = int(ranked.returned_counts.max(initial=0))
    beyond = [metric for metric in scores.metrics if isinstance(metric.cut, int) and metric.cut > deepest]
    is_whole = ranked.truth.is_gallery and deepest >= len(ranked.truth.image_ids)
    if not beyond or is_whole:
        return None
    detail = f"the run ends at rank {deepest}: no query has more results, and missing results count as not relevant"
    return EvaluationWarning("short_run", ", ".join(map(str, beyond)), detail)


def _cut_short(ranked: RankedRun, scores: metric_scores.MetricScores) -> EvaluationWarning | None:
    """Return a warning where a query has fewer results than a metric without a number as its cut needs."""
    whole = [str(metric) for metric in scores.metrics if not isinstance(metric.cut, int)]
    returned = ranked.returned_counts
    short = int(((returned > 0) & (returned < ranked.truth.relevant_counts)).sum())
    if not whole or not short:
        return None
    detail = f"{short:,} queries have fewer results than relevant images: the rest counts as not found"
    return EvaluationWarning("cut_short", ", ".join(whole), detail)


def score_slices(
    per_query: pd.DataFrame, queries: pd.DataFrame | None, metrics: Sequence[str], *, clusters: AnyArray | None = None
) -> pd.DataFrame:
    """Return a row per aspect, value and metric (SLICE_COLUMNS); none without queries. low and high: the 95% interval.

    `per_query` is indexed by query_id. Aspects are those of _ASPECTS that the queries have; a query with several labels
    counts for each of them, one without a value for none. `clusters`: one per query; a slice of one cluster concerns
    only that cluster, so its queries are independent."""
    aspects = find_query_aspects(queries, per_query.index)
    intervals: dict[bytes, IntervalEstimate] = {}  # often one value of several aspects has the same queries
    parts = [_part(per_query, aspect, values, metrics, intervals, clusters) for aspect, values in aspects.items()]
    return pd.DataFrame([row for part in parts for row in part], columns=evaluation_result.SLICE_COLUMNS)


def count_words(texts: Sequence[str]) -> RowIndices:
    """Return the number of words of each text (texts,); each Chinese character counts as a word."""
    return np.array([len(_WORD.findall(text)) for text in texts], dtype=np.int64)


def find_query_aspects(queries: pd.DataFrame | None, query_ids: pd.Index) -> dict[str, pd.Series]:
    """Return by aspect the value, or the list of values, of each of these queries; nothing where `queries` is None."""
    known = pd.DataFrame() if queries is None else queries.set_index("query_id").reindex(query_ids)
    aspects = {name: known[name] for name in _ASPECTS if name in known}
    if "family" in known and known["family"].notna().any():
        aspects |= {"family": known["family"].str.partition("/")[0], "kind": known["family"]}
    if "text" in known:
        counts = count_words(known["text"].fillna("").tolist())
        bins = np.searchsorted([last for last in _LENGTH_BINS.values() if last], counts)
        aspects["length"] = pd.Series(np.array([*_LENGTH_BINS], dtype=object)[bins], index=known.index)
    return aspects


def _part(
    per_query: pd.DataFrame,
    aspect: str,
    values: pd.Series,
    metrics: Sequence[str],
    intervals: dict[bytes, IntervalEstimate],
    clusters: Any,
) -> list[tuple[Any, ...]]:
    single = values.explode().dropna()
    rows: list[tuple[Any, ...]] = []
    for value in sorted(single.unique().tolist(), key=[*_LENGTH_BINS].index if aspect == "length" else None):
        mine = per_query.loc[single.index[(single == value).to_numpy()].unique(), list(metrics)]
        places = per_query.index.get_indexer(mine.index)
        if places.tobytes() not in intervals:
            shared = None if clusters is None or len(set(clusters[places])) == 1 else clusters[places]
            intervals[places.tobytes()] = estimate_interval(mine.to_numpy(), clusters=shared)
        interval = intervals[places.tobytes()]
        for place, metric in enumerate(metrics):
            figures = (float(mine[metric].mean()), float(interval.low[place]), float(interval.high[place]))
            rows.append((aspect, str(value), len(mine), metric, *figures))
    return rows
