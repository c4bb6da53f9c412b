"""A gate before a release: may the candidate replace the baseline?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from evaluation.release_gate import GateReport
from flows.release_gates import GATE_STAGE, GateSpec, parse_margins, run_gate
from flows.scoring.query_slices import parse_slices
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
