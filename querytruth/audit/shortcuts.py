"""How well a set is answered without looking at its images: a row per shortcut, with its interval and its test.

The test compares its nDCG with those of the same answers on permuted ground truths. A permutation gives all queries the
relevant images at other positions: the images swap names together, so that queries with a common ground truth keep it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from querytruth.array_types import AnyArray, FloatArray, RowIndices
from querytruth.audit.shortcut_systems import JudgedSample, ShortcutSystem, draw_sample, list_systems
from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.evaluation.statistics import estimate_interval
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import StoredSet

FEWEST_QUERIES = 10
PERMUTATIONS = 199
DEVIATIONS = 4.0  # above the mean of the permuted truths
_AT_ONCE = 1 << 22  # pairs of all permutations
EXAMPLES = 3  # queries shown of each system that beats chance
_TEXTS = read_package_yaml(Path(__file__).with_name("page_texts.yaml"))
PAGE_TEXTS, _PARTS_ZH = _TEXTS["notice"], _TEXTS["notice_kinds"]["zh"]


@dataclass(frozen=True, slots=True)
class ShortcutResult:
    """nDCG over the whole gallery with binary relevance: `values` and `chance` per measured query (`query_ids`), `null`
    the mean of each permuted ground truth."""

    name: str
    query_ids: list[str]
    values: FloatArray
    chance: FloatArray
    null: FloatArray

    @property
    def deviations(self) -> float:
        """Return how many standard deviations of the permuted ground truths the system is above chance."""
        spread = float(self.null.std(ddof=1))
        return float(self.values.mean() - self.chance.mean()) / spread if spread > 0 else 0.0

    @property
    def beats_chance(self) -> bool:
        """Return whether it is 4 deviations above chance, and above every permuted truth."""
        return self.deviations >= DEVIATIONS and bool(self.values.mean() > self.null.max())

    def leading_queries(self, count: int) -> list[str]:
        """Return the ids of the queries that it answers best beside chance, the best first."""
        gains = self.values - self.chance
        return [self.query_ids[place] for place in np.argsort(-gains, kind="stable")[:count] if gains[place] > 0]


def measure_shortcuts(tables: Tables) -> list[ShortcutResult]:
    """Return the result of every shortcut that at least FEWEST_QUERIES queries measure; an empty list for a gallery."""
    sample = draw_sample(tables)
    if len(sample.queries) < FEWEST_QUERIES:
        return []
    rng = np.random.default_rng(0)
    permutations = np.array([rng.permutation(len(sample.images)) for _ in range(PERMUTATIONS)])
    tie_order = rng.random(len(sample.images))
    systems = [system for system in list_systems(sample) if (system.row >= 0).sum() >= FEWEST_QUERIES]
    return [_measure(system, sample, permutations, tie_order) for system in systems]


def _measure(
    system: ShortcutSystem, sample: JudgedSample, permutations: RowIndices, tie_order: FloatArray
) -> ShortcutResult:
    discounts = 1 / np.log2(np.arange(len(sample.images)) + 2)
    worth = np.empty(system.scores.shape)
    np.put_along_axis(worth, _order(system.scores, tie_order), np.broadcast_to(discounts, worth.shape), axis=1)
    relevant = sample.relevant_counts()
    ideal = np.cumsum(discounts)[relevant - 1]
    measured = np.flatnonzero(system.row >= 0)
    chosen = system.row[sample.query] >= 0
    query, image = sample.query[chosen], sample.image[chosen]
    rows, shares = system.row[query], 1 / ideal[query]
    values = np.bincount(query, worth[rows, image] * shares, minlength=len(relevant)).astype(np.float64)[measured]
    null = _permute(worth, rows, image, shares, permutations) / len(measured)
    ids = sample.queries["query_id"].astype(str).to_numpy()[measured].tolist()
    chance: FloatArray = (relevant / ideal * discounts.mean())[measured]
    return ShortcutResult(system.name, ids, values, chance, null)


def _permute(
    worth: FloatArray, row: RowIndices, image: RowIndices, shares: FloatArray, permutations: RowIndices
) -> FloatArray:
    """Return the sum of all pairs' worth for each permutation of the images."""
    places, pair = np.unique(row * worth.shape[1] + image, return_inverse=True)
    if len(places) < len(image):  # queries that one row answers share many pairs
        (row, image), shares = np.divmod(places, worth.shape[1]), np.bincount(pair, shares).astype(np.float64)
    parts = np.array_split(permutations, 1 + permutations.shape[0] * len(image) // _AT_ONCE)
    null: list[FloatArray] = [(worth[row, part[:, image]] * shares).sum(axis=1) for part in parts if len(part)]
    return np.concatenate(null)


def _order(scores: FloatArray, tie_order: FloatArray) -> AnyArray:
    """Return the images of each row, the best first; equal ones in the order of `tie_order`."""
    shuffled = np.argsort(tie_order)
    order: AnyArray = shuffled[np.argsort(-scores[:, shuffled], axis=1, kind="stable")]
    return order


def describe_shortcuts(tables: Tables) -> list[str]:
    """Return a sentence per shortcut that beats chance, for the card of the set."""
    return [
        f"A system that ignores the images beats chance: {one.name} (nDCG {one.values.mean():.3f}, random "
        f"{one.chance.mean():.3f}), for example on {', '.join(one.leading_queries(3))}."
        for one in measure_shortcuts(tables)
        if one.beats_chance
    ]


def find_shortcuts(stored: StoredSet) -> list[dict[str, Any]]:
    """Return a row per shortcut (system, queries, ndcg, low, high, random, deviations, p, beats_chance), the most
    deviations first; `examples`: the texts that a shortcut above chance answers best."""
    results = sorted(measure_shortcuts(stored.tables), key=lambda one: (-one.deviations, one.name))
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    rows = []
    for one in results:
        interval, value = estimate_interval(one.values[:, None]), float(one.values.mean())
        figures = {"ndcg": value, "low": float(interval.low[0]), "high": float(interval.high[0])}
        figures |= {"random": float(one.chance.mean()), "deviations": one.deviations}
        figures["p"] = float(1 + np.count_nonzero(one.null >= value)) / (1 + len(one.null))
        row = {"system": one.name, "queries": len(one.values), "beats_chance": one.beats_chance}
        row["examples"] = [texts[name] for name in one.leading_queries(EXAMPLES) if one.beats_chance]
        rows.append(row | {name: round(figure, 6) for name, figure in figures.items()})
    return rows


def translate_kind(name: str, language: str) -> str:
    """Return the name of a system, or of a kind of damage, images or typing, in a language of PAGE_TEXTS."""
    return "：".join(_PARTS_ZH.get(part, part) for part in name.split(": ")) if language == "zh" else name
