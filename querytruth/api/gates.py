"""A gate before a release, may the candidate replace the baseline, and the number of queries that it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evaluation.metric_names import parse_metric
from evaluation.release_gate import GateReport
from flows.release_gates import GATE_STAGE, GateSpec, parse_margins, run_gate
from flows.scoring.query_slices import parse_slices
from flows.set_size_plan import SizeSpec, plan_set_size
from querytruth.api.evaluations import AnyRun, load_judgments, load_run
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet


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
    spec = SizeSpec(difference, str(parse_metric(metric)), power, discordance, stratum)
    runs = None if pilot is None else (load_run(pilot[0], judged), load_run(pilot[1], judged))
    return plan_set_size(judged, spec, runs)
