"""The metrics, a function each, and their names with options: `ndcg@10`, `ap@50(norm=min)`, `p@r`.

A metric is computed per query; means are over all queries with a relevant image. A function takes the hits within the
cut (of `Hits.within_cut`) and the cut: k, R (the number of relevant images of the query), or None for all results. It
returns a value per query, 0 where nothing was returned. To add one, write it and add a line to METRIC_FUNCTIONS.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from querytruth.array_types import AnyArray, FloatArray, RowIndices
from querytruth.errors import UserError, suggest_choice
from querytruth.evaluation.ranking import UNJUDGED, Hits, RankedRun

Cut = int | RowIndices | None
CUTS = ("k = R, the number of relevant images of the query", "k = all results returned")  # those that are no number
_NAME = re.compile(r"(?P<name>[a-z_]+)(?:@(?P<cut>[^()]*))?(?:\((?P<options>[^()]*)\))?")
_ALIASES = {"acc": "hit", "mrr": "rr", "map": "ap", "precision": "p", "success": "hit"}
_FULL_ALIASES = {"r_precision": "p@r", "rprec": "p@r"}
_STAGE = "choose metrics"


def precision(hits: Hits, k: Cut) -> FloatArray:
    """Relevant among the first k, divided by k, also where fewer came back."""
    shares: FloatArray = hits.sum_per_query() / np.asarray(k)
    return shares


def recall(hits: Hits, _k: Cut) -> FloatArray:
    """Relevant among the first k, divided by all relevant."""
    return hits.sum_per_query() / hits.relevant_counts


def hit(hits: Hits, _k: Cut) -> FloatArray:
    """1 if a relevant one is among the first k: the "Recall@k" of papers with one image a text."""
    return (hits.sum_per_query() > 0).astype(np.float64)


def reciprocal_rank(hits: Hits, _k: Cut) -> FloatArray:
    """1 / rank of the first relevant one, 0 if none is among the first k."""
    return hits.sum_per_query(np.where(hits.ordinal == 1, 1 / hits.rank, 0))


def ndcg(hits: Hits, k: Cut, gain: str) -> FloatArray:
    """DCG, the sum of gain / log2(rank + 1), divided by that of the ideal order of all judged images. The gain is
    2^grade - 1 (gain=exp) or the grade (gain=linear, trec_eval's)."""
    return dcg(hits, gain) / dcg(ideal_hits(hits, k), gain)


def dcg(hits: Hits, gain: str) -> FloatArray:
    """DCG per query."""
    return hits.sum_per_query(dcg_gains(hits.grade, gain) / np.log2(hits.rank + 1))


def dcg_gains(grades: Any, gain: str) -> FloatArray:
    """Return the gain of an image of each grade for DCG."""
    return np.exp2(grades) - 1 if gain == "exp" else np.asarray(grades, dtype=np.float64)


def ideal_hits(hits: Hits, k: Cut) -> Hits:
    """Return the first k hits of a system that returns all relevant images, the highest grades first."""
    until = np.cumsum(hits.counts_by_level, axis=1)
    until = until if k is None else np.minimum(until, np.reshape(k, (-1, 1)))
    count = until[:, -1]
    query = np.repeat(np.arange(len(count)), count)
    grade = np.repeat(np.tile(hits.relevant_grades, len(count)), np.diff(until, axis=1, prepend=0).ravel()).astype(
        np.int16
    )
    ranks = np.arange(1, len(query) + 1) - np.repeat(np.cumsum(count) - count, count)
    return Hits(query, ranks, grade, ranks, hits.relevant_grades, hits.counts_by_level)


def average_precision(hits: Hits, k: Cut, norm: str) -> FloatArray:
    """The sum of P@rank over the relevant ones among the first k, divided by all relevant (norm=r), or by k where more
    are relevant (norm=min)."""
    return hits.sum_per_query(hits.ordinal / hits.rank) / _divisor(hits, k, norm)


def grade_weights(grades: int | AnyArray, highest: int, scale: str) -> FloatArray:
    """Return the gain of an image of each grade for graded AP: grade 2 counts 1, grade 1 a half (scale=fixed; where a
    set has higher grades, the highest counts 1), or the set's highest grade counts 1 (scale=set), whatever it is."""
    weights: FloatArray = np.asarray(grades) / (max(highest, 2) if scale == "fixed" else highest)
    return weights


def graded_average_precision(hits: Hits, _k: Cut, scale: str) -> FloatArray:
    """The sum of P@rank x `grade_weights` over the relevant ones among the first k, divided by all relevant; P@rank
    counts every grade above 0."""
    weights = grade_weights(hits.grade, int(hits.relevant_grades[0]), scale)
    return hits.sum_per_query(hits.ordinal / hits.rank * weights) / hits.relevant_counts


def trapezoid_average_precision(hits: Hits, _k: Cut) -> FloatArray:
    """The sum of (P@rank + P@(rank - 1)) / 2 over the relevant ones among the first k, divided by all relevant, with
    P@0 := P@1: the area under the curve of precision over recall by trapezoids."""
    before = (hits.ordinal - 1) / np.maximum(hits.rank - 1, 1)
    before[hits.rank == 1] = 1
    return hits.sum_per_query((hits.ordinal / hits.rank + before) / 2) / hits.relevant_counts


def _divisor(hits: Hits, k: Cut, norm: str) -> RowIndices:
    return hits.relevant_counts if norm == "r" or k is None else np.minimum(hits.relevant_counts, k)


@dataclass(frozen=True, slots=True)
class MetricFunction:
    """A metric's function, its options (name: choices, the default first), and which cuts it takes."""

    function: Callable[..., FloatArray]
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cuts: tuple[str, ...] = ("k", "")  # k: a number; r: as many as are relevant; "": none


METRIC_FUNCTIONS = {
    "p": MetricFunction(precision, cuts=("k", "r")),
    "r": MetricFunction(recall),
    "hit": MetricFunction(hit),
    "rr": MetricFunction(reciprocal_rank),
    "ndcg": MetricFunction(ndcg, options={"gain": ("exp", "linear")}),
    "ap": MetricFunction(average_precision, options={"norm": ("r", "min")}, cuts=("k", "r", "")),
    "ap_graded": MetricFunction(graded_average_precision, options={"scale": ("fixed", "set")}),
    "ap_trapezoid": MetricFunction(trapezoid_average_precision),
}


def judged_at_k(ranked: RankedRun, k: int) -> FloatArray:
    """Return the share of the images among the first k that are judged; 0 where none came back."""
    inside = ranked.rank <= k
    known = np.bincount(ranked.query[inside & (ranked.grade > UNJUDGED)], minlength=len(ranked.truth.query_ids))
    return known / np.maximum(np.minimum(ranked.returned_counts, k), 1)


def negatives_at_k(ranked: RankedRun, k: int) -> FloatArray:
    """Return the share of the images among the first k that are judged not relevant; 0 where none came back."""
    wrong = np.bincount(ranked.query[(ranked.rank <= k) & (ranked.grade == 0)], minlength=len(ranked.truth.query_ids))
    return wrong / np.maximum(np.minimum(ranked.returned_counts, k), 1)


def compute_cmc_curve(ranked: RankedRun, k: int) -> FloatArray:
    """Return the mean Hit@1 to Hit@k: a curve that never falls."""
    firsts = ranked.hits.rank[ranked.hits.ordinal == 1]
    return np.cumsum(np.bincount(firsts[firsts <= k], minlength=k + 1)[1:]) / len(ranked.truth.query_ids)


def compute_precision_recall_curve(ranked: RankedRun, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean recall and precision at 1 to k: the points of the curve."""
    hits, queries = ranked.hits.within_cut(k), len(ranked.truth.query_ids)
    recalls = np.bincount(hits.rank, 1 / hits.relevant_counts[hits.query], minlength=k + 1)[1:]
    hit_counts = np.bincount(hits.rank, minlength=k + 1)[1:]
    return np.cumsum(recalls) / queries, np.cumsum(hit_counts) / np.arange(1, k + 1) / queries


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. `cut` is a number, "r" (as many as are relevant) or None; `options` holds all, with defaults, in
    order."""

    name: str
    cut: int | str | None
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the shortest name that parses to this metric."""
        choices = METRIC_FUNCTIONS[self.name].options
        options = ",".join(f"{key}={value}" for key, value in self.options if value != choices[key][0])
        return self.name + ("" if self.cut is None else f"@{self.cut}") + (f"({options})" if options else "")

    @property
    def definition(self) -> str:
        """Return the exact definition of what is computed."""
        text = " ".join(str(METRIC_FUNCTIONS[self.name].function.__doc__).split())
        chosen = [f"{key}={value}" for key, value in self.options]
        if isinstance(self.cut, int):
            chosen.insert(0, f"k = {self.cut}")
        elif self.cut == "r":
            chosen.insert(0, CUTS[0])
        else:
            chosen.insert(0, CUTS[1])
        return f"{text} Here: {', '.join(chosen)}."


def parse_metric(text: str) -> Metric:
    """Return the metric of a name in any case. Raises UserError with the nearest name for an unknown one, and with the
    possible cuts or options for a wrong one."""
    plain = text.strip().lower().replace("-", "_").replace(" ", "")
    match = _NAME.fullmatch(_FULL_ALIASES.get(plain, plain))
    if not match:
        raise UserError(_STAGE, text, "is not the name of a metric", "write it like ndcg@10 or ap@50(norm=min)")
    name = _ALIASES.get(match["name"], match["name"])
    if name == "recall":
        fix = "choose r (the share of all relevant images) or hit (whether any was returned)"
        raise UserError(_STAGE, text, "has two meanings", fix)
    if name not in METRIC_FUNCTIONS:
        raise UserError(_STAGE, text, "is not a known metric", suggest_choice(name, list(METRIC_FUNCTIONS)))
    return Metric(name, _cut(text, name, match["cut"]), _options(text, name, match["options"]))


def compute_metric(ranked: RankedRun, metric: Metric) -> FloatArray:
    """Return a value per query of the truth, (queries,)."""
    return compute_metric_from_hits(ranked.hits, metric)


def compute_metric_from_hits(hits: Hits, metric: Metric) -> FloatArray:
    """Return the same from hits alone, with their `relevant_counts` as R."""
    cut = hits.relevant_counts if isinstance(metric.cut, str) else metric.cut
    with np.errstate(all="raise"):
        return METRIC_FUNCTIONS[metric.name].function(hits.within_cut(cut), cut, **dict(metric.options))


def _cut(text: str, name: str, given: str | None) -> int | str | None:
    cuts = METRIC_FUNCTIONS[name].cuts
    if given is None and "" in cuts:
        return None
    if given == "r" and "r" in cuts:
        return "r"
    if given and re.fullmatch("0*[1-9][0-9]{0,8}", given):
        return int(given)
    wanted = {"k": f"{name}@K with a whole number K from 1", "r": f"{name}@r", "": name}
    reason = f"has the cut-off {given!r}" if given is not None else "has no cut-off"
    raise UserError(_STAGE, text, reason, "write " + " or ".join(wanted[cut] for cut in cuts))


def _options(text: str, name: str, given: str | None) -> tuple[tuple[str, str], ...]:
    choices = METRIC_FUNCTIONS[name].options
    chosen = {key: values[0] for key, values in choices.items()}
    for part in (given or "").split(",") if given else []:
        key, _, value = part.partition("=")
        if value not in choices.get(key, ()):
            known = [f"{name}: {option}={value}" for option, values in choices.items() for value in values]
            raise UserError(_STAGE, text, f"has no option {part!r}", "choose from " + (", ".join(known) or "none"))
        chosen[key] = value
    return tuple(sorted(chosen.items()))
