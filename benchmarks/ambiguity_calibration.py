"""Fits the probability that a caption fits an image to what people said of pairs, and measures how good it is.

From few pairs a fit stays near the calibration that it starts from. Reliability, and precision and recall of what
passes; the files of calibrations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from builders.recall import pair_features
from builders.recall.calibration import (
    Calibration,
    choose_features,
    find_log_odds,
    logistic_share,
    standardise_features,
)
from builders.recall.caption_index import AnswerIndex, CaptionIndex
from builders.recall.phrases import find_missing_units
from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.backends.files.durable_files import write_atomically

_PENALTY = 2.0  # of a squared coefficient of a standardised feature
_PRIOR_PENALTY = 20.0  # of a squared difference from the coefficients that a fit starts from
_SLOPE_UNIT = 4.0  # log odds: a correction's slope is as free as its contradictions
_STEPS = 25
PRECISIONS = (0.95, 0.9, 0.8, 0.7)


def new_calibration(
    language: str, embedders: Sequence[str], features: Mapping[str, FloatArray], *, several_captions: bool
) -> Calibration:
    """Returns a calibration with all coefficients 0, standardised by these pairs; of the features that they have."""
    names = choose_features(has_vectors=pair_features.VECTOR_FEATURES[0] in features, several_captions=several_captions)
    names = tuple(name for name in names if name in features)
    means = tuple(round(float(features[name].mean()), 6) for name in names)
    scales = tuple(round(float(max(features[name].std(), 1e-6)), 6) for name in names)
    zeros = (0.0,) * len(names)
    return Calibration(language, tuple(embedders), several_captions, names, means, scales, zeros, 0.0, 0.5)


def fit_calibration(
    start: Calibration, features: Mapping[str, FloatArray], fits: FloatArray, *, keep_near: bool
) -> Calibration:
    """Returns the calibration fitted to pairs by penalised maximum likelihood. `fits` (n,): the share of people who say
    that the pair fits, 0 to 1. `keep_near`: stay near the coefficients of `start`; else near 0."""
    columns = np.column_stack([np.ones(len(fits)), standardise_features(features, start)])
    origin = np.array([start.intercept, *start.coefficients])
    has_prior = np.array([keep_near and name not in pair_features.IMAGE_FEATURES for name in start.features])
    penalty = np.array([1.0 if keep_near else 0.0, *np.where(has_prior, _PRIOR_PENALTY, _PENALTY)])
    weights = origin.copy()
    for _ in range(_STEPS):  # Newton's steps
        expected = logistic_share(columns @ weights)
        gradient = columns.T @ (fits - expected) - penalty * (weights - origin)
        curvature = (columns * (expected * (1 - expected))[:, None]).T @ columns + np.diag(penalty + 1e-9)
        weights = weights + np.clip(np.linalg.solve(curvature, gradient), -3, 3)
    rounded = [round(float(weight), 5) for weight in weights]
    return replace(start, intercept=rounded[0], coefficients=tuple(rounded[1:]))


def fit_correction(
    fitted: Calibration,
    features: Mapping[str, FloatArray],
    fits: FloatArray,
    *,
    contradictions_before: Mapping[str, float] | None = None,
) -> Calibration:
    """Returns the calibration for pairs that nothing selected before they were judged: the log odds of `fitted` times
    a slope, plus an intercept, and the weight of contradictions, by penalised maximum likelihood. `fits` (n,): the
    share of people who say that the pair fits. `contradictions_before`: weights that contradictions keep where few
    pairs have them, such as those of another language; without them 0."""
    log_odds = find_log_odds(fitted, features)
    contradictions = [features[name] for name in pair_features.CONTRADICTION_FEATURES]
    columns = np.column_stack([np.ones(len(fits)), log_odds / _SLOPE_UNIT, *contradictions])
    before = contradictions_before or {}
    origin = np.array([0.0, 0.0, *(before.get(name, 0.0) for name in pair_features.CONTRADICTION_FEATURES)])
    weights = origin.copy()
    penalty = np.array([0.0, *[_PENALTY] * (len(weights) - 1)])
    for _ in range(_STEPS):
        expected = logistic_share(log_odds + columns @ weights)
        gradient = columns.T @ (fits - expected) - penalty * (weights - origin)
        curvature = (columns * (expected * (1 - expected))[:, None]).T @ columns + np.diag(penalty + 1e-9)
        weights = weights + np.clip(np.linalg.solve(curvature, gradient), -3, 3)
    slope = 1 + weights[1] / _SLOPE_UNIT
    added = len(pair_features.CONTRADICTION_FEATURES)
    return replace(
        fitted,
        features=fitted.features + pair_features.CONTRADICTION_FEATURES,
        means=fitted.means + (0.0,) * added,
        scales=fitted.scales + (1.0,) * added,
        coefficients=tuple(round(float(one), 5) for one in [*(slope * np.array(fitted.coefficients)), *weights[2:]]),
        intercept=round(float(slope * fitted.intercept + weights[0]), 5),
    )


def find_covered(answers: AnswerIndex, query: RowIndices, answer: RowIndices) -> BoolArray:
    """Returns for each pair whether the captions of the answer cover all phrases of the query."""
    index = CaptionIndex(answers, None)
    pairs = zip(query.tolist(), answer.tolist(), strict=True)
    wanted = index.query_phrases
    return np.array(
        [
            bool(wanted[one]) and not find_missing_units(wanted[one], index.answer_phrases[other])
            for one, other in pairs
        ],
        dtype=bool,
    )


def estimate_covered(fits: FloatArray, before: float | None = None) -> float:
    """Returns the probability that covered pairs fit, from the pairs (n,) that people judged: Laplace's rule, or with
    `before`, an earlier estimate, as if ten pairs had shown it."""
    hits, count = (1.0, 2.0) if before is None else (10 * before, 10.0)
    return round(float((fits.sum() + hits) / (len(fits) + count)), 4)


def measure_reliability(probabilities: FloatArray, fits: FloatArray) -> list[dict[str, float]]:
    """Returns for each tenth of the scale with pairs: pairs, the mean probability, and the share that fits."""
    tenths = np.minimum((probabilities * 10).astype(int), 9)
    return [
        {
            "from": tenth / 10,
            "pairs": int((tenths == tenth).sum()),
            "expected": round(float(probabilities[tenths == tenth].mean()), 4),
            "observed": round(float(fits[tenths == tenth].mean()), 4),
        }
        for tenth in range(10)
        if (tenths == tenth).any()
    ]


def recall_at_precisions(scores: FloatArray, fits: BoolArray) -> dict[str, float]:
    """Returns the highest share of the fitting pairs that the pairs above some score contain, at each precision."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(fits[order])
    precision = hits / np.arange(1, len(order) + 1)
    most = max(int(fits.sum()), 1)
    return {f"{one:.2f}": round(float(hits[precision >= one].max(initial=0) / most), 4) for one in PRECISIONS}


def measure_cut(probabilities: FloatArray, fits: FloatArray, at_least: float, *, repeats: int = 1) -> dict[str, Any]:
    """Returns of the pairs that pass a cut: their number, the share of them that fits (precision) and the share of the
    fitting pairs that they are (recall), each with Wilson's 95% interval. `repeats`: how often each pair is among the
    rows, with other captions; it counts once."""
    passes = probabilities >= at_least
    hits, count, total = (float(rows.sum()) / repeats for rows in (fits[passes], passes, fits))
    return {
        "at_least": at_least,
        "pairs": round(count),
        "precision": _share(hits, count),
        "recall": _share(hits, total),
    }


def _share(hits: float, count: float) -> dict[str, float] | None:
    """Returns a share with Wilson's interval at 95%; None of nothing."""
    if not count:
        return None
    z, share = 1.959964, min(hits / count, 1.0)
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return {"share": round(share, 4), "low": round(max(centre - half, 0.0), 4), "high": round(min(centre + half, 1), 4)}


def write_calibrations(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Writes calibrations, one a line."""
    lines = ",\n".join(json.dumps(one.as_dict(), ensure_ascii=False) for one in calibrations)
    write_atomically(path, f"[\n{lines}\n]\n".encode())
