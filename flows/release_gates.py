"""Gates a candidate system against a baseline on one set, and writes the report for people and for CI."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from backends.run_files.result_files import read_result
from builders.array_types import BoolArray
from builders.benchmark_set import canonical_json
from builders.errors import UserError
from evaluation.metric_names import parse_metric
from evaluation.release_gate import (
    GatedFigure,
    GateReport,
    LatencyCheck,
    check_gate,
    combine_verdicts,
)
from evaluation.statistics import align_clusters
from flows.evaluation_run import score_on_common_queries
from flows.scoring.judged_sets import JudgedSet, build_evaluation_view
from flows.scoring.query_slices import is_in_slice
from flows.scoring.systems import EvaluatedSystem
from flows.steps import step
from review.gate_reports import gate_to_json, render_gate_junit, render_gate_markdown

GATE_STAGE = "gate"
GATE_FILES = ("gate.json", "gate.md", "gate.junit.xml")
PERCENTILES = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class GateSpec:
    """What a gate checks: the margin by metric; slices as (aspect, value), each checked besides all queries; the budget
    in milliseconds by percentile of the latency."""

    margins: Mapping[str, float]
    slices: Sequence[tuple[str, str]] = ()
    latency_budget: Mapping[str, float] = field(default_factory=dict)


def parse_margins(metrics: Sequence[str], margins: Sequence[float]) -> dict[str, float]:
    """Returns the margin by metric, from one margin for all or one per metric. Raises UserError."""
    names = [str(parse_metric(name)) for name in metrics]
    if not names or len(margins) not in (1, len(names)):
        reason = f"{len(names)} metrics and {len(margins)} margins do not fit together"
        raise UserError(GATE_STAGE, "--margin", reason, "give metrics, and one margin for all or one for each")
    if wrong := [margin for margin in margins if not 0 < margin < 1]:
        reason = "is not between 0 and 1: an equal system can only pass within a margin"
        raise UserError(GATE_STAGE, f"--margin {wrong[0]:g}", reason, "give the loss that you tolerate, such as 0.01")
    return dict(zip(names, list(margins) * (len(names) if len(margins) == 1 else 1), strict=True))


def parse_latency_budget(budgets: Iterable[str]) -> dict[str, float]:
    """Returns milliseconds by percentile of texts like p95=250. Raises UserError."""
    found = {}
    for text in budgets:
        percentile, _, milliseconds = text.partition("=")
        try:
            found[percentile] = float(milliseconds.removesuffix("ms"))
        except ValueError:
            found[percentile] = -1.0
        if percentile not in PERCENTILES or not 0 < found[percentile] < float("inf"):
            next_step = f"write it like p95=250, in milliseconds, with one of {', '.join(PERCENTILES)}"
            raise UserError(GATE_STAGE, f"--max-latency {text}", "is no budget", next_step)
    return found


@step("gate")
def run_gate(judged: JudgedSet, candidate: EvaluatedSystem, baseline: EvaluatedSystem, spec: GateSpec) -> GateReport:
    """Returns the checks of the candidate against the baseline, on the queries that both runs' versions have. Raises
    UserError for a slice without queries, and for a latency that was not measured."""
    view = build_evaluation_view(judged, "text_to_image", list(spec.margins), ())
    scored = score_on_common_queries(view, [candidate, baseline])
    tables = [one.result.per_query for one in scored]
    clusters = align_clusters(view.spec.clusters, tables[0].index)
    figures = []
    for name, rows in _find_slices(judged, tables[0].index, spec.slices).items():
        for metric, margin in spec.margins.items():
            values = [table[metric].to_numpy()[rows] for table in tables]
            shared = None if clusters is None else clusters[rows]
            figures.append(GatedFigure(metric, name, values[0], values[1], margin, shared))
    checks, latency = check_gate(figures), _check_latency(candidate, spec.latency_budget)
    verdict = combine_verdicts([*(one.verdict for one in checks), *(one.verdict for one in latency)])
    candidate_name, baseline_name = (str(one.description["name"]) for one in (candidate, baseline))
    return GateReport(judged.description, candidate_name, baseline_name, checks, latency, verdict)


def _find_slices(judged: JudgedSet, query_ids: pd.Index, slices: Sequence[tuple[str, str]]) -> dict[str, BoolArray]:
    """By name whether each query belongs to the slice; "" is all queries."""
    every: dict[str, BoolArray] = {"": np.ones(len(query_ids), dtype=bool)}
    return every | {
        f"{aspect}={value}": is_in_slice(judged.queries, query_ids, aspect, value, GATE_STAGE)
        for aspect, value in slices
    }


def _check_latency(candidate: EvaluatedSystem, budget: Mapping[str, float]) -> list[LatencyCheck]:
    if not budget:
        return []
    folder = candidate.result_folder
    measured = read_result(folder)["counts"].get("latency_ms") if folder is not None else None
    if not measured:
        reason = "has no measured latency"
        next_step = "gate the result folder of `querytruth evaluate --system`"
        raise UserError(GATE_STAGE, str(candidate.description["name"]), reason, next_step)
    return [
        LatencyCheck(name, float(measured[name]), limit, "PASS" if measured[name] <= limit else "FAIL")
        for name, limit in budget.items()
    ]


def write_gate_report(report: GateReport, folder: Path, *, is_undecided_failure: bool) -> list[Path]:
    """Writes GATE_FILES into the folder and returns their paths. Raises UserError."""
    contents = (
        canonical_json(gate_to_json(report)),
        render_gate_markdown(report).encode(),
        render_gate_junit(report, is_undecided_failure=is_undecided_failure),
    )
    paths = [folder / name for name in GATE_FILES]
    with translate_write_errors(GATE_STAGE, folder, "or give another folder with --report"):
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents, strict=True):
            write_atomically(path, content)
    return paths
