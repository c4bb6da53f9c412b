"""Comparison of systems on the same queries of a set.

The leaderboard of a set: the systems that were evaluated on it, beside each other.

A gate before a release, may the candidate replace the baseline, and the number of queries that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from flows import evaluation, size_plan
from flows.gate import run_gate
from flows.leaderboard import build_leaderboard, compare_set_stability, write_leaderboard
from querytruth.api.evaluations import AnyRun, load_judgments, load_run
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, find_version
from querytruth.errors import UserError
from querytruth.evaluation import evaluation_result, run_evaluation, statistics, system_differences
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, is_in_slice, parse_slices
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.release_gate import GATE_STAGE, GateReport, GateSpec, parse_margins
from querytruth.evaluation.steps import RESULTS_FOLDER, read_history, score_on_common_queries
from querytruth.review.search_views import render_table

_SHOWN = ["one", "other", "metric", "difference", "low", "high", "p_holm", "wins", "ties", "losses", "detectable"]
_COLUMNS = ["best_rank", "worst_rank", "name", "kind", "mean", "low", "high", "queries_missing"]
_PERCENTILES = ["p50", "p95", "p99"]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Systems on the same queries. `table`: a row per pair and metric with the difference, its interval, p_holm
    (corrected for all pairs), wins, ties and losses, and the smallest difference that the set can show; `pair`: the
    comparison query by query, of two systems; `leaked`: by system and pair the leaked queries less the clean ones, no
    row where `querytruth overlap` has not compared this version; `phrasings`: by pair how far the figures differ
    between phrasings of one question, no row where no question has two."""

    judged_set: JudgedSet
    results: list[evaluation_result.EvaluationResult]
    table: pd.DataFrame
    pair: evaluation_result.SystemComparison | None = None
    leaked: pd.DataFrame = field(default_factory=pd.DataFrame)
    phrasings: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def most_different(self) -> pd.DataFrame:
        """The queries on which two systems differ most by the first metric: query_id, text, both figures, difference.
        Raises UserError for more than two systems."""
        if self.pair is None:
            raise UserError("compare", f"{len(self.results)} systems", "are more than two", "compare two of them")
        metric, ids = str(self.table["metric"].iloc[0]), self.pair.most_different_queries
        texts, sides = self.texts, (self.pair.first, self.pair.second)
        figures = {str(side.system["name"]): side.per_query[metric].reindex(ids).tolist() for side in sides}
        differences = self.pair.differences.reindex(ids).tolist()
        return pd.DataFrame(
            {"query_id": ids, "text": [texts.get(one, one) for one in ids], **figures, "difference": differences}
        )

    @property
    def texts(self) -> dict[str, str]:
        """The texts of queries and the file names of images, by id; empty for bare judgments."""
        queries, images = self.judged_set.queries, self.judged_set.images
        if queries is None or images is None:
            return {}
        texts = dict(zip(queries["query_id"], queries["text"], strict=True))
        return texts | dict(zip(images["image_id"], images["file_name"].fillna(""), strict=True))

    def __repr__(self) -> str:
        """A line per pair and metric."""
        return "\n".join(
            f"{row.one} less {row.other}: {row.metric} {row.difference:+.4f} [{row.low:+.4f}, {row.high:+.4f}], "
            f"p {row.p_holm:.3f}"
            for row in self.table.itertuples()
        )

    def _repr_html_(self) -> str:
        names = ", ".join(dict.fromkeys(str(result.system["name"]) for result in self.results))
        return render_table(f"{names} on {len(self.results[0].per_query):,} queries", self.table[_SHOWN])


def compare(
    set_: AnySet | None,
    runs: Mapping[str, AnyRun] | Sequence[AnyRun],
    *,
    metrics: Iterable[str] = (),
    direction: str = evaluation_result.TEXT_TO_IMAGE,
    qrels: str | Path | None = None,
    page: str | Path | None = None,
    slice_: str | None = None,
    out: str | Path = DATASETS_FOLDER,
) -> Comparison:
    """Compare two or more systems, on the queries that all their runs have. `runs`: files, result folders, data
    frames, results of `evaluate`, or a dict of these by the names of the systems. `page`: an HTML file about two
    systems; `slice_`: only the queries of an aspect=value, such as overlap=clean. Raises UserError."""
    named = list(runs.items()) if isinstance(runs, Mapping) else [(None, run) for run in runs]
    if len(named) < 2 or (page is not None and len(named) > 2):
        how_many = "two" if page is not None else "two or more"
        raise UserError("compare", f"{len(named)} runs", f"are not {how_many}", f"give {how_many} runs")
    judged = load_judgments(set_, qrels, out)
    view = build_evaluation_view(judged, direction, run_evaluation.choose_metrics(metrics), ())
    excluded: frozenset[str] = frozenset()
    for aspect, value in parse_slices([slice_] if slice_ else [], "compare"):
        ids = pd.Index(view.query_ids.to_pylist())
        excluded |= set(ids[~is_in_slice(judged.queries, ids, aspect, value, "compare")])
    scored = score_on_common_queries(view, [load_run(run, judged, name) for name, run in named], excluded)
    results = [one.result for one in scored]
    table = system_differences.compare_all_pairs(results, view.spec.clusters)
    pair = (
        system_differences.compare_two_systems(results[0], results[1], view.spec.clusters)
        if len(results) == 2
        else None
    )
    figures = {
        name: one.per_query for name, one in zip(system_differences.make_unique_names(results), results, strict=True)
    }
    shared = statistics.align_clusters(view.spec.clusters, results[0].per_query.index)
    metric_names = list(dict.fromkeys(table["metric"]))
    leaked = system_differences.compare_leaked_of_systems(figures, judged.overlap, metric_names, clusters=shared)
    phrasings = evaluation_result.compare_phrasing_spread(figures, view.spec.queries, metric_names)
    if pair is not None and page is not None:
        evaluation.write_comparison_page(replace(pair, phrasings=phrasings), view, Path(page))
    return Comparison(judged, results, table, pair, leaked, phrasings)


@dataclass(frozen=True, slots=True, repr=False)
class SystemBoard:
    """Systems by `metric`, the best first. `board`: all of it, as the JSON file has it."""

    board: dict[str, Any]

    @property
    def systems(self) -> pd.DataFrame:
        """A row per system: the ends of its rank interval, its figure with interval, and its latency in
        milliseconds (p50, p95, p99; NaN where it is no live system)."""
        rows = [{**one, **(one["latency_ms"] or {})} for one in self.board["systems"]]
        return pd.DataFrame(rows).reindex(columns=[*_COLUMNS, *_PERCENTILES])

    @property
    def slices(self) -> pd.DataFrame:
        """A row per system, slice and value: queries, mean, low, high."""
        rows = [{"name": one["name"], **row} for one in self.board["systems"] for row in one["slices"]]
        return pd.DataFrame(rows, columns=["name", "slice", "value", "queries", "mean", "low", "high"])

    @property
    def groups(self) -> list[list[str]]:
        """The systems that the set cannot tell apart, group by group."""
        return [list(names) for names in self.board["groups"]]

    @property
    def metric(self) -> str:
        """What the systems are ordered by."""
        return str(self.board["metric"])

    def save(self, page: str | Path, language: str = "en") -> list[Path]:
        """Write the HTML page (en, zh), and JSON and CSV beside it; return the paths. Raises UserError."""
        return write_leaderboard(self.board, Path(page), language)

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        return render_table(self._title(), self.systems, [])

    def _title(self) -> str:
        about = self.board["set"]
        return f"{len(self.board['systems'])} systems on {about['name']}/v{about['version']} by {self.metric}"


def leaderboard(set_: AnySet, *, metric: str | None = None, out: str | Path = DATASETS_FOLDER) -> SystemBoard:
    """Order the systems whose results are stored beside a version of a set, by a metric (ndcg@10, else hit@1), on the
    queries that all of them have. Raises UserError without results."""
    return SystemBoard(build_leaderboard(find_version(set_, out), metric))


def history(set_: AnySet, system: str | None = None, *, out: str | Path = DATASETS_FOLDER) -> pd.DataFrame:
    """Return the evaluations on all versions of a set in the order of time: a row per evaluation and metric with at,
    system, version, content_digest, queries, metric, value, low, high. Raises UserError for a system without one."""
    entries = read_history(find_version(set_, out).parent / RESULTS_FOLDER, system)
    about = ["at", "system", "version", "content_digest", "queries"]
    rows = [
        [*(entry[key] for key in about), metric, *figure]
        for entry in entries
        for metric, figure in entry["figures"].items()
    ]
    return pd.DataFrame(rows, columns=[*about, "metric", "value", "low", "high"])


def stability(
    one: AnySet, other: AnySet, *, metrics: Sequence[str] | None = None, out: str | Path = DATASETS_FOLDER
) -> pd.DataFrame:
    """Return by metric whether two versions, or two sizes, of a set rank the systems alike that were evaluated on both.
    Raises UserError for fewer than two of them."""
    return compare_set_stability(find_version(one, out), find_version(other, out), metrics)[0]


def gate(
    set_: AnySet | None,
    *,
    candidate: AnyRun,
    baseline: AnyRun,
    margins: Mapping[str, float],
    slices: Iterable[str] = (),
    max_latency: Mapping[str, float] | None = None,
    qrels: str | Path | None = None,
    out: str | Path = DATASETS_FOLDER,
) -> GateReport:
    """Test whether the candidate is not worse than the baseline by more than a margin, by metric: `margins` such as
    {"ndcg@10": 0.01}; `slices` such as ["language=zh"] are checked besides all queries; `max_latency`: milliseconds by
    percentile, such as {"p95": 250}, of a candidate that is the result folder of a live system. Raises UserError."""
    judged = load_judgments(set_, qrels, out)
    spec = GateSpec(
        parse_margins(list(margins), list(margins.values())), parse_slices(slices, GATE_STAGE), max_latency or {}
    )
    return run_gate(judged, load_run(candidate, judged), load_run(baseline, judged), spec)


def plan_size(
    set_: AnySet | None,
    *,
    difference: float,
    metric: str = "hit@1",
    pilot: tuple[AnyRun, AnyRun] | None = None,
    discordance: float | None = None,
    power: float = 0.8,
    stratum: str | None = None,
    qrels: str | Path | None = None,
    out: str | Path = DATASETS_FOLDER,
) -> dict[str, Any]:
    """Plan how many queries a two-sided paired test at 5% needs to find a difference of two systems: `queries`,
    `judgments`, `hours`, and `strata` (share, deviation, proportional, neyman) where `stratum` names an aspect of the
    queries. From two `pilot` runs, or from `discordance`, the share of queries that differ. Raises UserError."""
    judged = load_judgments(set_, qrels, out)
    spec = size_plan.SizeSpec(difference, str(parse_metric(metric)), power, discordance, stratum)
    runs = None if pilot is None else (load_run(pilot[0], judged), load_run(pilot[1], judged))
    return size_plan.plan_set_size(judged, spec, runs)
