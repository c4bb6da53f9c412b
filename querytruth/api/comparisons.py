"""Comparison of systems on the same queries, the gate before a release, and the number of queries that it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import pandas as pd
from pydantic import BeforeValidator, Field

from flows import evaluation, size_plan
from flows.evaluation import load_judgments
from flows.gate import run_gate
from querytruth.api.evaluations import AnyRun, load_run
from querytruth.errors import UsageError, UserError
from querytruth.evaluation import evaluation_result, run_evaluation, statistics, system_differences
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, is_in_slice, parse_slices
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.release_gate import GateReport, require_certificate
from querytruth.evaluation.requests import CompareRequest, GateRequest, SizeRequest
from querytruth.evaluation.steps import score_on_common_queries
from querytruth.evaluation.systems import BASELINES, list_results
from querytruth.requests import ByPlace, takes_request
from querytruth.review.page_parts import pages_in
from querytruth.review.search_views import render_table

_SHOWN = ["one", "other", "metric", "difference", "low", "high", "p_holm", "wins", "ties", "losses", "detectable"]


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
        """Return the queries on which two systems differ most by the first metric: query_id, text, both figures,
        difference. Raises UserError for more than two systems."""
        if self.pair is None:
            raise UserError("compare", f"{len(self.results)} systems", "is too many", "compare two of them")
        metric, ids = str(self.table["metric"].iloc[0]), self.pair.most_different_queries
        texts, sides = self.texts, (self.pair.first, self.pair.second)
        figures = {str(side.system["name"]): side.per_query[metric].reindex(ids).tolist() for side in sides}
        differences = self.pair.differences.reindex(ids).tolist()
        return pd.DataFrame(
            {"query_id": ids, "text": [texts.get(one, one) for one in ids], **figures, "difference": differences}
        )

    @property
    def texts(self) -> dict[str, str]:
        """Return the texts of queries and the file names of images, by id; empty for bare judgments."""
        queries, images = self.judged_set.queries, self.judged_set.images
        if queries is None or images is None:
            return {}
        texts = dict(zip(queries["query_id"], queries["text"], strict=True))
        return texts | dict(zip(images["image_id"], images["file_name"].fillna(""), strict=True))

    def __repr__(self) -> str:
        """Return a line per pair and metric."""
        return "\n".join(
            f"{row.one} minus {row.other}: {row.metric} {row.difference:+.4f} [{row.low:+.4f}, {row.high:+.4f}], p "
            f"{row.p_holm:.3f}"
            for row in self.table.itertuples()
        )

    def _repr_html_(self) -> str:
        names = ", ".join(dict.fromkeys(str(result.system["name"]) for result in self.results))
        return render_table(f"{names} on {len(self.results[0].per_query):,} queries", self.table[_SHOWN])


def _as_runs(value: object) -> Any:
    """Return runs by name or in a list; a single one as a list of it."""
    return value if isinstance(value, Mapping | list | tuple) else [] if value is None else [value]


class ProgramComparison(CompareRequest):
    """A comparison from a program: of runs in memory, too, or of a dict of runs by the names of the systems."""

    run: Annotated[Any, BeforeValidator(_as_runs), ByPlace("RUN")] = Field(
        (), description="Two or more files, result folders, data frames or evaluations; or a dict of these by name."
    )


@takes_request(ProgramComparison)
def compare(request: ProgramComparison) -> Comparison:
    """Compare two or more systems, on the queries that all their runs have. Raises UserError."""
    runs = request.run
    return compare_runs(request, list(runs.items()) if isinstance(runs, Mapping) else [(None, run) for run in runs])


def compare_runs(request: CompareRequest, named: Sequence[tuple[str | None, AnyRun]]) -> Comparison:
    """Compare runs, each under its name where it has one; of none all results of the set but baselines. Raises
    UserError for fewer than two, and for a page about more."""
    judged = load_judgments(request) if len(named) != 1 else None  # one is wrong whatever the set is
    if judged is not None and not named:
        named = [(None, path) for name, path in list_results(judged).items() if name not in BASELINES]
    if judged is None or len(named) < 2 or (request.page is not None and len(named) > 2):
        how_many = "two" if request.page is not None else "two or more"
        raise UsageError(f"{len(named)} runs", f"are not {how_many}", f"give {how_many} runs", "compare")
    view = build_evaluation_view(judged, request.direction, run_evaluation.choose_metrics(request.metrics), ())
    excluded: frozenset[str] = frozenset()
    for aspect, value in parse_slices([request.slice] if request.slice else [], "compare"):
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
    if pair is not None and request.page is not None:
        with pages_in(request.page_language):
            evaluation.write_comparison_page(replace(pair, phrasings=phrasings), view, request.page)
    return Comparison(judged, results, table, pair, leaked, phrasings)


class ProgramGate(GateRequest):
    """A gate request from Python: runs in memory can be candidate and baseline."""

    candidate: Any = Field(description="Run to release: a file, result folder, data frame or evaluation.")
    baseline: Any = Field(description="Run to compare with.")


def gate_runs(request: GateRequest) -> GateReport:
    """Test whether the candidate is not worse than the baseline by more than the margin, by each metric and slice. A
    latency budget needs a candidate that is the result folder of a live system. Raises UserError."""
    judged = load_judgments(request)
    if request.require_certificate:
        require_certificate(judged.description)
    return run_gate(judged, load_run(request.candidate, judged), load_run(request.baseline, judged), request.spec)


gate = takes_request(ProgramGate, "gate")(gate_runs)


class ProgramSize(SizeRequest):
    """A sample size request from Python: two runs in memory can be the pilot."""

    pilot: Any = Field(None, description="Two runs that show how much systems differ per query.")


def plan_queries(request: SizeRequest) -> dict[str, Any]:
    """Plan how many queries a two-sided paired test at 5% needs to find a difference of two systems: `queries`,
    `queries_to_pass` (with which a gate passes an equal system), `judgments`, `hours`. From two pilot runs, or from
    `discordance`, the share of queries that differ. Raises UserError."""
    judged = load_judgments(request)
    metric = str(parse_metric(request.metric))
    spec = size_plan.SizeSpec(request.difference, metric, request.power, request.discordance)
    pilot = request.pilot
    runs = None if pilot is None else (load_run(pilot[0], judged), load_run(pilot[1], judged))
    return size_plan.plan_set_size(judged, spec, runs)


plan_size = takes_request(ProgramSize, "plan_size")(plan_queries)
