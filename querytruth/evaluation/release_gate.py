"""Decides whether a candidate system may replace a baseline: not worse than a margin, worse, or too little evidence.

Two one-sided t tests of clusters (`estimate_mean`) ask two questions of the same paired differences. Is it surely not
worse by the margin? Losses come by topic, so one further unseen topic is assumed to lose everything. Is it surely worse
by more than the margin? That concerns the topics that were seen: half a further query gains everything. A rule such as
"fail where the figure is 2 points lower" has no error rate: on 200 queries which the systems answer 20% differently, it
fails one in four identical systems.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri

from querytruth.array_types import AnyArray, BoolArray, FloatArray
from querytruth.errors import UserError
from querytruth.evaluation import judged_sets, result_files, systems
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.result_types import EvaluatedSet
from querytruth.evaluation.sample_size import find_least_factor
from querytruth.evaluation.statistics import bound_mean, correct_holm, estimate_mean, find_p_value, sum_by_cluster

Verdict = Literal["PASS", "FAIL", "UNDECIDED", "IDENTICAL"]
GATE_LEVEL = 0.05
GATE_INTERVAL = f"{1 - 2 * GATE_LEVEL:.0%}"  # of differences: one end of it is each one-sided test
_UNSHOWN = ["clusters", "is_identical", "p_not_worse", "p_worse", "further_queries"]  # columns of checks
_POWER = 0.8  # of the further queries
_WORST = (-1.0,)  # a difference that nobody saw
_GAINED = 0.5  # queries that nobody saw: of a whole one, 66 queries in 7 topics fail a loss of 20 points in .76 only
_EQUAL = 1e-9
GATE_STAGE = "gate"
PERCENTILES = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class GatedFigure:
    """One figure under the gate: the metric, the slice ("" for all queries), both systems' values (queries,), the
    margin, and a cluster per query, or None."""

    metric: str
    slice: str
    candidate: FloatArray
    baseline: FloatArray
    margin: float
    clusters: AnyArray | None = None

    def differences(self) -> FloatArray:
        """Return the candidate's figure less the baseline's, by query."""
        return np.asarray(self.candidate, dtype=np.float64) - self.baseline


@dataclass(frozen=True, slots=True)
class GateCheck:
    """The verdict on one figure. `low` and `high`: the ends of the interval of the difference, each a one-sided bound
    at 5%. `p_not_worse` and `p_worse` are corrected for all checks of the gate. IDENTICAL: no query differs, and there
    are too few to rule out the margin. `further_queries`: how many more, in similar clusters, decide with a power of
    80% if the difference is as measured; None where the check is decided, or where no number would."""

    metric: str
    slice: str
    queries: int
    clusters: int
    candidate: float
    baseline: float
    difference: float
    is_identical: bool
    low: float
    high: float
    margin: float
    p_not_worse: float
    p_worse: float
    verdict: Verdict
    further_queries: int | None


@dataclass(frozen=True, slots=True)
class LatencyCheck:
    """A percentile of the candidate's measured latency against its budget, in milliseconds."""

    percentile: str
    measured_ms: float
    budget_ms: float
    verdict: Verdict


@dataclass(frozen=True, slots=True, repr=False)
class GateReport:
    """All checks of a gate and their common verdict; printed, a table. `set`: as in EvaluationResult;
    `queries_of_set`: of its counts; `labels`: how many the gated queries ask for, 0 where they have none."""

    set: EvaluatedSet
    candidate: str
    baseline: str
    checks: list[GateCheck]
    latency: list[LatencyCheck]
    verdict: Verdict
    queries_of_set: Mapping[str, int] = field(default_factory=dict)
    labels: int = 0

    @property
    def table(self) -> pd.DataFrame:
        """Return a row per check: metric, slice, queries, both figures, the difference with its interval, margin,
        verdict."""
        return pd.DataFrame([asdict(check) for check in self.checks]).drop(columns=_UNSHOWN)

    def __repr__(self) -> str:
        figures = self.table.to_string(index=False, float_format="{:.4f}".format)
        return f"{self.verdict}: {self.candidate} against {self.baseline}, {GATE_INTERVAL} intervals\n{figures}"


def require_certificate(description: EvaluatedSet) -> None:
    """Raise UserError for a set (the description of its JudgedSet) that is not certified as far as was wanted."""
    certificate = description.get("certificate")
    if certificate is not None and certificate["is_reached"]:
        return
    reason = "has no certificate that states how complete its judgments are"
    if certificate is not None:
        reason = f"has a certificate for {certificate['recall_at_least']:.0%} of its goal of {certificate['goal']:.0%}"
    next_step = "querytruth audit start SET --until recall=0.9, judge, querytruth apply; or remove the requirement"
    raise UserError(GATE_STAGE, f"{description['name']}/v{description['version']}", reason, next_step)


def check_gate(figures: Sequence[GatedFigure]) -> list[GateCheck]:
    """Return a check per figure: PASS where the candidate is not worse by the margin or more, FAIL where it is worse
    by more than the margin, each by a one-sided paired test at 5%, corrected for all figures (Holm 1979)."""
    tests = [find_p_values(figure.differences(), figure.margin, figure.clusters) for figure in figures]
    not_worse, worse = (correct_holm(np.array([float(test[side][0]) for test in tests])).tolist() for side in (0, 1))
    level = GATE_LEVEL / max(1, len(figures))
    return [_make_check(*parts, level) for parts in zip(figures, zip(not_worse, worse, strict=True), strict=True)]


def combine_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """Return FAIL where any check fails, UNDECIDED where any other is, IDENTICAL where any other is, else PASS."""
    order: tuple[Verdict, ...] = ("FAIL", "UNDECIDED", "IDENTICAL")
    return next((verdict for verdict in order if verdict in verdicts), "PASS")


def find_p_values(
    differences: FloatArray, margin: float, clusters: AnyArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the p-values of "not worse by the margin or more" and of "worse by more than the margin" (gates,), from
    the candidate's figures less the baseline's (queries, gates)."""
    return _test(*sum_by_cluster(differences, clusters), margin)


def _test(
    sums: FloatArray, sizes: FloatArray, margin: float, luck: float = 0.0, times: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the p-values of `find_p_values`. `luck`: by how much less is found; `times`: in so many times as many
    clusters."""
    not_worse = find_p_value(sums, sizes, luck - margin, _WORST, times=times)
    return not_worse, find_p_value(-sums, sizes, luck + margin, _WORST, size=_GAINED, times=times)


def _make_check(figure: GatedFigure, p_values: tuple[float, float], level: float) -> GateCheck:
    differences = figure.differences()
    sums, sizes = sum_by_cluster(differences, figure.clusters)
    p_not_worse, p_worse = p_values
    low = float(bound_mean(sums, sizes, _WORST, 1 - GATE_LEVEL)[0])
    high = -float(bound_mean(-sums, sizes, _WORST, 1 - GATE_LEVEL, size=_GAINED)[0])
    is_identical = not (np.abs(differences) > _EQUAL).any()
    verdict: Verdict = "IDENTICAL" if is_identical else "UNDECIDED"
    verdict = "PASS" if p_not_worse <= GATE_LEVEL else "FAIL" if p_worse <= GATE_LEVEL else verdict
    return GateCheck(
        metric=figure.metric,
        slice=figure.slice,
        queries=len(differences),
        clusters=len(sizes),
        candidate=float(np.mean(figure.candidate)),
        baseline=float(np.mean(figure.baseline)),
        difference=float(differences.mean()),
        is_identical=is_identical,
        low=max(low, -1.0),
        high=min(high, 1.0),
        margin=figure.margin,
        p_not_worse=p_not_worse,
        p_worse=p_worse,
        verdict=verdict,
        further_queries=None if verdict in ("PASS", "FAIL") else _count_further(figure, level),
    )


def _count_further(figure: GatedFigure, level: float) -> int | None:
    """Return how many further queries, in clusters like these, decide: each cluster is then worth several draws."""
    differences = figure.differences()
    sums, sizes = sum_by_cluster(differences, figure.clusters)
    distance = float(differences.mean()) + figure.margin
    if len(sizes) < 2 or abs(distance) < _EQUAL:
        return None
    error = float(estimate_mean(sums, sizes, ())[1][0])

    def is_decided(factor: float) -> bool:
        luck = float(ndtri(_POWER)) * error / np.sqrt(factor)
        return bool(_test(sums, sizes, figure.margin, luck, factor)[int(distance < 0)][0] <= level)

    factor = find_least_factor(is_decided, len(differences))
    return None if factor is None else max(1, ceil(factor * len(differences)) - len(differences))


@dataclass(frozen=True, slots=True)
class GateSpec:
    """The checks of a gate: the margin by metric; slices as (aspect, value), each checked besides all queries; the
    latency budget in milliseconds by percentile."""

    margins: Mapping[str, float]
    slices: Sequence[tuple[str, str]] = ()
    latency_budget: Mapping[str, float] = field(default_factory=dict)


def parse_margins(metrics: Sequence[str], margins: Sequence[float]) -> dict[str, float]:
    """Return the margin by metric, from one margin for all or one per metric. Raises UserError."""
    names = [str(parse_metric(name)) for name in metrics]
    if not names or len(margins) not in (1, len(names)):
        reason = f"{len(names)} metrics and {len(margins)} margins do not match"
        raise UserError(GATE_STAGE, "margin", reason, "give one margin for all metrics, or one per metric")
    if wrong := [margin for margin in margins if not 0 < margin < 1]:
        reason = "is not between 0 and 1: an equal system can pass only within a margin"
        raise UserError(GATE_STAGE, f"margin {wrong[0]:g}", reason, "give the loss that you tolerate, such as 0.01")
    return dict(zip(names, list(margins) * (len(names) if len(margins) == 1 else 1), strict=True))


def parse_latency_budget(budgets: Iterable[str]) -> dict[str, float]:
    """Return milliseconds by percentile of texts like p95=250. Raises UserError."""
    found = {}
    for text in budgets:
        percentile, _, milliseconds = text.partition("=")
        try:
            found[percentile] = float(milliseconds.removesuffix("ms"))
        except ValueError:
            found[percentile] = -1.0
        if percentile not in PERCENTILES or not 0 < found[percentile] < float("inf"):
            next_step = f"write it like p95=250, in milliseconds, with one of {', '.join(PERCENTILES)}"
            raise UserError(GATE_STAGE, f"max_latency {text}", "is not a latency budget", next_step)
    return found


def find_slices(
    judged: judged_sets.JudgedSet, query_ids: pd.Index, slices: Sequence[tuple[str, str]]
) -> dict[str, BoolArray]:
    """Return whether each query belongs to the slice, by name; "" is all queries."""
    every: dict[str, BoolArray] = {"": np.ones(len(query_ids), dtype=bool)}
    return every | {
        f"{aspect}={value}": judged_sets.is_in_slice(judged.queries, query_ids, aspect, value, GATE_STAGE)
        for aspect, value in slices
    }


def check_latency(candidate: systems.EvaluatedSystem, budget: Mapping[str, float]) -> list[LatencyCheck]:
    if not budget:
        return []
    folder = candidate.result_folder
    measured = result_files.read_result(folder)["counts"].get("latency_ms") if folder is not None else None
    known: Mapping[str, Any] = measured or {}
    if any(known.get(name) is None for name in budget):
        reason = "has no measured latency"
        next_step = "use the result folder of `querytruth evaluate --system`"
        raise UserError(GATE_STAGE, str(candidate.description["name"]), reason, next_step)
    return [
        LatencyCheck(name, float(known[name]), limit, "PASS" if known[name] <= limit else "FAIL")
        for name, limit in budget.items()
    ]
