"""Fits the order of candidates to the experts' ratings, and measures what the first ones hold.

The experts rated a few images of each caption. A listwise fit (Luce's model) puts these, by their grades, before all
other candidates of the caption, most of which nobody rated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from ambiguity_ratings import FITS, RatedCaptions, split_in_halves
from scipy.optimize import minimize

from builders.recall.calibration import Calibration, choose_features
from builders.recall.candidate_pairs import NEAREST_IMAGES, VectorProposals, WordProposals
from builders.recall.pair_features import ORDER_FEATURES, VECTOR_FEATURES, PairFeatures
from querytruth.array_types import BoolArray, FloatArray, RowIndices, Vectors

SPLITS = 5
FIRST = 10
CUTS = (0.9, 0.5)  # of images that a caption fits, and of candidates
_PENALTY = 40.0  # of a squared weight of a standardised feature
Features = dict[str, FloatArray]


class RankedCandidates:
    """The candidates of the rated captions with their features. `query`, `answer` (n,): pairs, sorted by query;
    `medians` and `gains` (n,): the experts' median, and the square of how far their mean is from 1 to 4, 0 where nobody
    rated; `image` (n,): the query's own image."""

    def __init__(self, rated: RatedCaptions, vectors: Vectors | None, features: PairFeatures) -> None:
        answers = rated.answers
        measures = [WordProposals(answers), *([] if vectors is None else [VectorProposals(answers, vectors, 1)])]
        keys = [one for measure in measures for one in measure.propose(0, len(answers.query_ids), NEAREST_IMAGES + 1)]
        found = np.setdiff1d(np.concatenate(keys), answers.judged_keys)
        query, answer = answers.pairs_of_keys(found)
        image_of_query = np.full(len(answers.query_ids), -1)
        image_of_query[rated.query] = rated.own_image
        is_rated = (image_of_query[query] >= 0) & (answer != answers.answer[image_of_query[query]])
        self.query, self.answer, self.rated = query[is_rated], answer[is_rated], rated
        self.features = features.measure(self.query, self.answer)
        rating = pd.DataFrame(rated.ratings, index=answers.pair_keys(rated.query, rated.answer))
        rating = rating.reindex(found[is_rated])
        self.medians: FloatArray = rating.median(axis=1).fillna(0).to_numpy()
        self.gains: FloatArray = ((rating.mean(axis=1).fillna(1).to_numpy() - 1) / 3) ** 2
        self.image = image_of_query[self.query]

    def first_of(self, values: FloatArray, count: int = FIRST) -> BoolArray:
        """Returns whether each pair is among the `count` first of its query, by values."""
        order = np.lexsort((self.answer, -values, self.query))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order)) - np.searchsorted(self.query, self.query[order])
        return rank < count

    def measure_first(self, values: FloatArray, images: RowIndices) -> dict[str, float]:
        """Returns the share of the pairs rated 3 or 4, and of those rated 4, that the first candidates hold, of the
        captions of some images."""
        is_first = self.first_of(values) & np.isin(self.image, images)
        medians = np.median(self.rated.ratings, axis=1)[np.isin(self.rated.own_image, images)]
        return {
            name: float((self.medians[is_first] >= least).sum() / max((medians >= least).sum(), 1))
            for name, least in (("rated 3 or 4", FITS), ("rated 4", 4))
        }


def fit_order(candidates: RankedCandidates, images: RowIndices, *, several_captions: bool) -> dict[str, float]:
    """Returns the weights of features that order the candidates of the captions of some images."""
    features = candidates.features
    names = choose_features(has_vectors=VECTOR_FEATURES[0] in features, several_captions=several_captions)
    names += tuple(name for name in ORDER_FEATURES if name in features)
    rows = np.isin(candidates.image, images)
    rows &= np.isin(candidates.query, candidates.query[candidates.gains > 0])
    gains, query = candidates.gains[rows], candidates.query[rows]
    columns = np.column_stack([features[name][rows] for name in names])
    scales = columns.std(axis=0) + 1e-9
    columns = (columns - columns.mean(axis=0)) / scales
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    sizes, gain_of_query = np.diff([*starts, len(query)]), np.add.reduceat(gains, starts)

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        values = columns @ weights
        values = values - np.repeat(np.maximum.reduceat(values, starts), sizes)
        powers = np.exp(values)
        totals = np.add.reduceat(powers, starts)
        likelihood = float((gains * values).sum() - (gain_of_query * np.log(totals)).sum())
        slope = columns.T @ (gains - powers * np.repeat(gain_of_query / totals, sizes))
        return _PENALTY * float(weights @ weights) - likelihood, 2 * _PENALTY * weights - slope

    weights = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B").x / scales
    return {name: round(float(one), 5) for name, one in zip(names, weights, strict=True) if abs(one) >= 5e-6}


def measure_order(
    candidates: RankedCandidates,
    fit: Callable[[BoolArray], Calibration],
    correct: Callable[[Calibration], Calibration],
    *,
    several_captions: bool,
) -> dict[str, Any]:
    """Returns what the first candidates hold of the half of the images that was not fitted to, the mean of five splits:
    by the probabilities, by the order that is fitted, and as a build lists them: those that are probable come first.
    `fit`: returns the probabilities fitted to rated pairs; `correct`: their correction."""
    by_probability, by_order, fitted_to, as_listed = [], [], [], []
    for seed in range(SPLITS):
        first = split_in_halves(candidates.rated.own_image, seed)
        for half in (first, ~first):
            images, others = (np.unique(candidates.rated.own_image[rows]) for rows in (half, ~half))
            fitted = fit(half)
            probabilities = fitted.probabilities(candidates.features)
            corrected = correct(fitted).probabilities(candidates.features)
            weights = fit_order(candidates, images, several_captions=several_captions)
            values = np.sum([weight * candidates.features[name] for name, weight in weights.items()], axis=0)
            by_probability.append(candidates.measure_first(probabilities, others))
            by_order.append(candidates.measure_first(values, others))
            fitted_to.append(candidates.measure_first(values, images))
            as_listed.append(candidates.measure_first(_list_probable_first(values, corrected), others))
    reached = {"by probability": by_probability, "by order": by_order, "by order, of the half fitted to": fitted_to}
    reached["as a build lists them"] = as_listed
    return {
        title: {name: round(float(np.mean([one[name] for one in shares])), 3) for name in shares[0]}
        for title, shares in reached.items()
    }


def _list_probable_first(values: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Returns by what a build with the default cuts orders candidates: those of 0.9 by probability, then those of 0.5
    and then the others by the fitted order."""
    span = float(np.ptp(values)) + 1
    in_classes = values - values.min() + span * (probabilities >= CUTS[1])
    result: FloatArray = np.where(probabilities >= CUTS[0], 2 * span + probabilities, in_classes)
    return result
