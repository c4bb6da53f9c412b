"""The mutation score of a set: damages planted in the answers of a real system, and whether the gate stops them.

A lost image leaves the answers and the next results move up; a stale entry keeps its rank and shows nothing. What is
lost in an order (the newest, the largest) is the same in each draw; groups are lost one after another in a drawn order,
the last one in part. Beyond the results of the run nothing is known: a gap there stays empty.

The set stays as it is and damages are drawn, so that a rate is about this set. A kind is caught where the gate fails at
least 80% of the draws of the stated size. An undamaged system that differs as much is made by the exchange of both
systems by topic at random (Fisher's randomisation): how often the gate fails that one is the share of false alarms.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from querytruth.array_types import AnyArray, BoolArray, FloatArray, RowIndices, Vectors
from querytruth.audit.pool import JsonRecord
from querytruth.evaluation.ground_truth import find_positions
from querytruth.evaluation.metrics import Metric, compute_metric_from_hits
from querytruth.evaluation.ranking import UNJUDGED, RankedRun, collect_hits, find_grades
from querytruth.evaluation.release_gate import GATE_LEVEL, GatedFigure, check_gate, find_p_values
from querytruth.evaluation.statistics import bound_proportion, estimate_proportion
from querytruth.records import stable_hash

SIZES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
POWER = 0.8
WHOLE = 1.0  # the size of a damage that has none
_EQUAL = 1e-9
_KEPT_RANKS = 3  # the first results, which a shuffle leaves as they are
Rows: TypeAlias = tuple[RowIndices, RowIndices, NDArray[np.int16]]  # query, rank and grade, by query and rank
DrawShare: TypeAlias = Callable[[float, Generator], BoolArray]  # of a size: which images or queries
Plant: TypeAlias = "Callable[[AnsweredQueries, float, Generator], Rows]"


@dataclass(frozen=True, slots=True)
class Damage:
    """`plant(answers, size, rng)` returns the damaged results. `is_drawn`: whether draws of one size differ;
    `loses_images`: whether the size is a share of the images, else of the queries."""

    kind: str
    plant: Plant
    is_drawn: bool = True
    loses_images: bool = False


@dataclass(frozen=True, slots=True)
class AnsweredQueries:
    """A ranked run with the gallery place of each result (rows,), -1 outside it; the numbers of queries and images."""

    ranked: RankedRun
    place: RowIndices
    queries: int
    images: int

    def score(self, metric: Metric, rows: Rows | None = None) -> FloatArray:
        """Return the figure per query (queries,), of these rows or of the run itself."""
        ranked = self.ranked
        query, rank, grade = (ranked.query, ranked.rank, ranked.grade) if rows is None else rows
        hits = collect_hits(query, rank, grade, ranked.truth, ranked.truth.counts_by_level)
        return compute_metric_from_hits(hits, metric)

    def keep(self, kept: BoolArray) -> Rows:
        """Return these rows; the ranks close up."""
        query = self.ranked.query[kept]
        rank = np.arange(1, len(query) + 1) - np.searchsorted(query, np.arange(self.queries))[query]
        return query, rank, self.ranked.grade[kept]


def read_answers(ranked: RankedRun) -> AnsweredQueries:
    """Return the answers of a ranked run."""
    place = find_positions(ranked.truth.image_ids, ranked.image_ids).astype(np.int64)[ranked.image_code]
    return AnsweredQueries(ranked, place, len(ranked.truth.query_ids), len(ranked.truth.image_ids))


def list_damages(images: pd.DataFrame, queries: pd.DataFrame, metric: Metric) -> list[Damage]:
    """Return the kinds that a set allows, from its images and queries in the order of the truth."""
    found = [lose_images("random images missing", partial(draw_any, total=len(images)))]
    taken = images["taken_at"].astype("str").where(images["taken_at"].notna()).rank(method="first")
    orders = {"largest": images["width"].to_numpy(np.float64) * images["height"].to_numpy(np.float64)}
    if taken.nunique() > 1:  # images without a date are lost last
        orders |= {"newest": taken.fillna(0).to_numpy(), "oldest": (-taken).fillna(-len(taken) - 1).to_numpy()}
    for name, order in orders.items():
        found.append(lose_images(f"{name} images missing", partial(draw_highest, order=order), is_drawn=False))
    for name, values in name_parts(images):
        found.append(lose_images(f"whole {name}s missing", partial(draw_groups, codes=pd.factorize(values)[0])))
    found += [
        Damage("stale entries", _make_stale, loses_images=True),
        Damage("ids shifted by one", _shift_ids, loses_images=True),
        Damage("results returned twice", _double_results),
        Damage("order below rank 3 shuffled", _shuffle_tail),
        Damage("random result at rank 1", _replace_first),
        Damage("half of the results cut", partial(_cut_results, cut=metric.cut)),
        lose_queries("queries without results", partial(draw_any, total=len(queries))),
    ]
    for column in ("topic", "language", "style"):
        if column in queries and queries[column].nunique() > 1:
            draw = partial(draw_groups, codes=pd.factorize(queries[column])[0])
            found.append(lose_queries(f"whole {column}s lost", draw))
    return found


def name_parts(images: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Yield each way to divide a gallery, with the part of each image; at least two parts."""
    names = images["file_name"].astype("str").fillna("")
    latitude, longitude = (np.floor(images[side].astype(np.float64)) for side in ("latitude", "longitude"))
    squares = latitude.map("{:+.0f}".format) + longitude.map("{:+.0f}".format)  # of one degree
    parts = {
        "folder": names.str.rpartition("/")[0],
        "format": names.str.extract(r"\.(\w+)$")[0].str.lower(),
        "creator": images["creator"].astype("str") if "creator" in images else pd.Series(dtype="str"),
        "month": images["taken_at"].astype("str").str[:7].where(images["taken_at"].notna()),
        "place": squares.where(latitude.notna()),
    }
    for name, values in parts.items():
        if values.nunique() > 1:
            yield name, values.fillna("unknown").replace("", "unknown")


def lose_images(kind: str, draw: DrawShare, *, is_drawn: bool = True) -> Damage:
    """Return the damage that loses the images that are drawn."""

    def plant(answers: AnsweredQueries, size: float, rng: Generator) -> Rows:
        return answers.keep(~np.append(draw(size, rng), False)[answers.place])

    return Damage(kind, plant, is_drawn, loses_images=True)


def lose_queries(kind: str, draw: DrawShare) -> Damage:
    """Return the damage that loses all answers of the queries that are drawn."""
    return Damage(kind, lambda answers, size, rng: answers.keep(~draw(size, rng)[answers.ranked.query]))


def _make_stale(answers: AnsweredQueries, size: float, rng: Generator) -> Rows:
    stale = np.append(draw_any(size, rng, total=answers.images), False)[answers.place]
    ranked = answers.ranked
    return ranked.query, ranked.rank, np.where(stale, np.int16(UNJUDGED), ranked.grade)


def _shift_ids(answers: AnsweredQueries, size: float, rng: Generator) -> Rows:
    """Give a block of the index the ids of the next images: of four images with a block of two from the second one,
    results 0 1 2 3 become 0 2 3 3."""
    count, start = _count(answers.images, size), int(rng.integers(answers.images))
    place, ranked = answers.place, answers.ranked
    is_shifted = (place >= 0) & ((place - start) % answers.images < count)
    place = np.where(is_shifted, (place + 1) % answers.images, place)
    return ranked.query, ranked.rank, find_grades(ranked.query, place, ranked.truth)


def _double_results(answers: AnsweredQueries, size: float, rng: Generator) -> Rows:
    ranked, chosen = answers.ranked, draw_any(size, rng, total=answers.queries)[answers.ranked.query]
    return ranked.query, np.where(chosen, 2 * ranked.rank - 1, ranked.rank), ranked.grade


def _shuffle_tail(answers: AnsweredQueries, size: float, rng: Generator) -> Rows:
    ranked, chosen = answers.ranked, draw_any(size, rng, total=answers.queries)
    at = np.flatnonzero(chosen[ranked.query] & (ranked.rank > _KEPT_RANKS))
    grade = ranked.grade.copy()
    grade[at] = grade[at[np.lexsort((rng.random(len(at)), ranked.query[at]))]]
    return ranked.query, ranked.rank, grade


def _replace_first(answers: AnsweredQueries, size: float, rng: Generator) -> Rows:
    ranked, chosen = answers.ranked, draw_any(size, rng, total=answers.queries)
    at, grade = np.flatnonzero(chosen[ranked.query] & (ranked.rank == 1)), ranked.grade.copy()
    grade[at] = find_grades(ranked.query[at], rng.integers(answers.images, size=len(at)), ranked.truth)
    return ranked.query, ranked.rank, grade


def _cut_results(answers: AnsweredQueries, size: float, rng: Generator, *, cut: int | str | None) -> Rows:
    ranked, chosen = answers.ranked, draw_any(size, rng, total=answers.queries)
    most = np.minimum(ranked.returned_counts, cut if isinstance(cut, int) else np.iinfo(np.int64).max)
    return answers.keep(~chosen[ranked.query] | (ranked.rank <= (most // 2)[ranked.query]))


def _count(total: int, size: float) -> int:
    return max(1, round(total * size))


def draw_any(size: float, rng: Generator, *, total: int) -> BoolArray:
    """Draw a share of so many."""
    drawn = np.zeros(total, dtype=bool)
    drawn[rng.choice(total, _count(total, size), replace=False)] = True
    return drawn


def draw_groups(size: float, rng: Generator, *, codes: RowIndices) -> BoolArray:
    """Draw whole groups in a drawn order, and of the last one as many as are missing; -1, no group, is drawn last."""
    position = np.append(rng.permutation(codes.max() + 1), codes.max() + 1)[codes]
    return draw_highest(size, rng, order=-position - rng.random(len(codes)))


def draw_highest(size: float, _rng: Generator, *, order: FloatArray) -> BoolArray:
    """Return the share with the highest values."""
    drawn = np.zeros(len(order), dtype=bool)
    drawn[np.argsort(-order, kind="stable")[: _count(len(order), size)]] = True
    return drawn


def damage_vectors(texts: Vectors, images: Vectors) -> Iterator[tuple[str, Vectors, Vectors]]:
    """Yield kinds of damaged vectors of queries and images, each whole."""
    step, half = float(np.abs(images).max()) / 127, images.shape[1] // 2
    yield "vectors as int8", texts, (np.rint(images / step) * step).astype(np.float32)
    yield "vectors as bits", _normalise(np.where(texts >= 0, 1, -1)), _normalise(np.where(images >= 0, 1, -1))
    yield "half the dimensions", _normalise(texts[:, :half]), _normalise(images[:, :half])
    yield "mean removed on one side", texts, _normalise(images - images.mean(axis=0))
    # Lengths as an encoder gives them: of 100 photos by ConSE on EfficientNet-lite0 their logarithms have an sd of .23.
    lengths = np.exp(np.random.default_rng(0).normal(0, 0.23, len(images)))
    yield "vectors not normalised", texts, (images * lengths[:, None]).astype(np.float32)


def _normalise(vectors: AnyArray) -> Vectors:
    normal: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return normal.astype(np.float32)


@dataclass(frozen=True, slots=True)
class DamageGate:
    """The gate (metric, margin, a cluster per query or None), the size at which kinds count, and the draws."""

    metric: Metric
    margin: float
    clusters: Any
    size: float
    draws: int

    def stops(self, differences: FloatArray) -> BoolArray:
        """Return whether it fails each candidate (draws,), from figures less the baseline's (queries, draws)."""
        not_worse, worse = find_p_values(differences, self.margin, self.clusters)
        stopped: BoolArray = (worse <= GATE_LEVEL) & (not_worse > GATE_LEVEL)
        return stopped


def measure_kind(answers: AnsweredQueries, damage: Damage, gate: DamageGate) -> JsonRecord:
    """Return how the gate reacts to a kind of damage: `smallest`, the smallest size that is stopped in 80% of the
    draws, `low` to `high` its 95% interval (None: larger than all sizes). At the stated size: `stopped`, the share of
    draws; `loss` of the figure; `changed`, the share of queries whose figure changed; `reason` why it is not caught, ""
    where it is, and `further` queries that would help; `false_alarms` of `resamples`."""
    found, first = None, dict[str, float]()  # the first size at which the rate, or an end of its interval, is enough
    for size in sorted({*SIZES, gate.size}):
        differences = _draw_differences(answers, damage, gate, size)
        stopped = int(gate.stops(differences).sum())
        rate = estimate_proportion(stopped, differences.shape[1], np.inf if damage.is_drawn else 1)
        for end, reached in (("smallest", rate.value), ("low", rate.high), ("high", rate.low)):
            if reached >= POWER:
                first.setdefault(end, size)
        if size == gate.size:
            found = _describe(answers, damage, size, differences, gate)
        if found is not None and "high" in first:
            break
    assert found is not None
    return {**found, **{end: first.get(end) for end in ("smallest", "low", "high")}}


def measure_whole(kind: str, other: RankedRun, answers: AnsweredQueries, gate: DamageGate) -> JsonRecord:
    """Return the same for a damage without a size, from the run of the damaged system."""
    damage = Damage(kind, lambda _answers, _size, _rng: (other.query, other.rank, other.grade), is_drawn=False)
    found = _describe(answers, damage, WHOLE, _draw_differences(answers, damage, gate, WHOLE), gate)
    return {**found, **dict.fromkeys(("smallest", "low", "high"), None if found["reason"] else WHOLE)}


def _draw_differences(answers: AnsweredQueries, damage: Damage, gate: DamageGate, size: float) -> FloatArray:
    rng, base = np.random.default_rng(stable_hash("damage", damage.kind, str(size))), answers.score(gate.metric)
    draws = range(gate.draws if damage.is_drawn else 1)
    return np.stack([answers.score(gate.metric, damage.plant(answers, size, rng)) - base for _ in draws], axis=1)


def _describe(
    answers: AnsweredQueries, damage: Damage, size: float, differences: FloatArray, gate: DamageGate
) -> JsonRecord:
    means, base, share = differences.mean(axis=0), answers.score(gate.metric), float(gate.stops(differences).mean())
    loss, changed = 0.0 - float(means.mean()), float((np.abs(differences) > _EQUAL).any(axis=1).mean())
    reason, further = "", None
    if share < POWER:
        reason = "within_margin" if loss <= gate.margin else "too_few"
        if not changed:
            reason = "not_asked" if damage.loses_images else "not_seen"
        if base.mean() <= gate.margin:
            reason = "nothing_to_lose"
    if reason == "too_few":
        weak = differences[:, int(np.argsort(means)[int(POWER * (len(means) - 1))])]  # one that must be stopped, too
        figure = GatedFigure(str(gate.metric), "", base + weak, base, gate.margin, gate.clusters)
        further = check_gate([figure])[0].further_queries
    return {
        "kind": damage.kind,
        "size": size,
        "stopped": share,
        "loss": loss,
        "changed": changed,
        "reason": reason,
        "further": further,
        "resamples": gate.draws,
        "false_alarms": _count_false_alarms(damage, differences, gate),
    }


def _count_false_alarms(damage: Damage, differences: FloatArray, gate: DamageGate) -> int:
    """Exchange both systems in half of the clusters, at random: neither is better then."""
    rng = np.random.default_rng(stable_hash("exchange", damage.kind))
    queries = np.arange(len(differences)) if gate.clusters is None else pd.factorize(gate.clusters)[0]
    signs = rng.choice([-1.0, 1.0], (int(queries.max()) + 1, gate.draws))[queries]
    return int(gate.stops(differences[:, rng.integers(differences.shape[1], size=gate.draws)] * signs).sum())


def summarize_kinds(kinds: Sequence[JsonRecord]) -> JsonRecord:
    """Return the mutation score: kinds, caught ones, and the share of false alarms with its upper 95% bound."""
    alarms, resamples = (sum(one[name] for one in kinds) for name in ("false_alarms", "resamples"))
    rates = {"false_alarms": alarms / resamples, "false_alarms_at_most": bound_proportion(alarms, resamples)}
    return {"kinds": len(kinds), "caught": sum(not one["reason"] for one in kinds), "resamples": resamples} | rates
