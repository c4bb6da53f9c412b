"""The probability that people say a query fits an image, by logistic regression on the features of the pair.

A calibration holds for one language, one embedder (or none) and one or several captions per image. `fit_calibration`
fits it to what people said of pairs; from few pairs it stays near the calibration that it starts from.

How good probabilities are on pairs that people judged: reliability, and precision and recall of what passes.

Files of calibrations (`builders/recall/calibration.py`): the shipped ones, and those fitted to a set's decisions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from builders.precision.label_files import DATASETS_FOLDER
from builders.recall import pair_features
from builders.recall.caption_index import AnswerIndex, CaptionIndex
from builders.recall.phrases import find_missing_units
from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.text_formats import parse_json
from querytruth.errors import UserError, first_line

# Unrelated captions may be so many times as alike as those fitted to. Flickr8k (fitted) 1, COCO 0.6, Chinese captions
# written by people 1.3; captions from templates 2 to 4.
MOST_ALIKE = 1.5
SEVERAL = 2  # captions per image from which the captions of an image are a set
_PENALTY = 2.0  # of a squared coefficient of a standardised feature
_PRIOR_PENALTY = 20.0  # of a squared difference from the coefficients that a fit starts from
_SLOPE_UNIT = 4.0  # log odds: a correction's slope is as free as its contradictions
_STEPS = 25
PRECISIONS = (0.95, 0.9, 0.8, 0.7)
SHIPPED_CALIBRATIONS = DATASETS_FOLDER / "ambiguity" / "calibrations.json"
_STAGE = "read calibrations"


@dataclass(frozen=True)
class Calibration:
    """Coefficients of standardised features, and what they were fitted to.

    `embedders`: names and revisions of the embedder that the cosines are of, () for words alone. `covered`: the
    probability that a query fits an image whose captions cover all of its phrases. `order`: weights of features by
    which candidates are ordered; {} for the order of the probabilities. `background`: the features of random pairs of
    the captions that were fitted to. `fitted_on`: what people judged (source, licence, pairs, share that fits,
    date, script); `held_out`: measures on pairs that were not fitted to. `image_embedder`: name and revision of the
    embedder that the images are compared by, () where captions alone were fitted to.
    """

    language: str
    embedders: tuple[str, ...]
    several_captions: bool
    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float
    covered: float
    order: dict[str, float] = field(default_factory=dict)
    background: dict[str, float] = field(default_factory=dict)
    fitted_on: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, Any] = field(default_factory=dict)
    image_embedder: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Calibration:
        """Returns the calibration that a file stores."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
        }
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """Returns what a file stores."""
        stored = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return stored if self.image_embedder else {key: stored[key] for key in stored if key != "image_embedder"}

    def probabilities(self, features: Mapping[str, FloatArray]) -> FloatArray:
        """Returns the probability (n,) that people say of each pair that the query fits, rounded to four decimals."""
        result: FloatArray = _logistic(_log_odds(self, features)).round(4)
        return result

    def rank_values(self, features: Mapping[str, FloatArray]) -> FloatArray:
        """Returns by what (n,) the candidates of a query are ordered, the highest first. What finds those that people
        would accept among many is not what tells how probable it is of each."""
        if not self.order:
            return self.probabilities(features)
        values: FloatArray = np.sum([weight * features[name] for name, weight in self.order.items()], axis=0)
        return values.round(4)


def has_several_captions(answers: AnswerIndex) -> bool:
    """Returns whether the median image with captions has several."""
    counts = np.bincount(answers.caption_answer_pairs()[1], minlength=1)
    return bool(counts.any()) and float(np.median(counts[counts > 0])) >= SEVERAL


@dataclass(frozen=True, slots=True)
class CalibrationChoice:
    """The calibration of a set's captions in one language, None where there is none, and then the reason."""

    language: str
    calibration: Calibration | None
    reason: str = ""


def choose_calibration(
    calibrations: Sequence[Calibration],
    language: str,
    ways: Sequence[tuple[Sequence[str], pair_features.PairFeatures]],
    image_embedder: Sequence[str] = (),
) -> tuple[CalibrationChoice, pair_features.PairFeatures | None]:
    """Returns the calibration for captions of a language, and the features that it needs. `ways`: names of an embedder,
    () for words alone, with the features of that way, the best way first; `image_embedder`: the names of that of the
    images. A calibration that was fitted to captions of another nature is passed over: nobody judged pairs like
    these."""
    reason = f"nobody's judgments of captions in {language} by this embedder were fitted to"
    for names, features in ways:
        several = has_several_captions(features.answers)
        found = find_calibration(calibrations, language, names, several_captions=several, image_embedder=image_embedder)
        if found is None:
            continue
        background = features.measure_background()
        if background is None:
            return CalibrationChoice(language, None, f"fewer than {pair_features.MIN_CAPTIONS} captions"), None
        if (reason := find_difference(found, background)) == "":
            return CalibrationChoice(language, found), features
    return CalibrationChoice(language, None, reason), None


def find_difference(calibration: Calibration, background: Mapping[str, float]) -> str:
    """Returns how unrelated captions differ from those that a calibration was fitted to; '' where they do not."""
    for name, fitted in calibration.background.items():
        if name in background and background[name] > MOST_ALIKE * fitted:
            what = name.replace("_", " ")
            return (
                f"unrelated captions are more alike than those fitted to ({what} {background[name]}, fitted {fitted})"
            )
    return ""


def choose_features(*, has_vectors: bool, several_captions: bool) -> tuple[str, ...]:
    """Returns the features of a calibration."""
    return (
        pair_features.WORD_FEATURES
        + (pair_features.VECTOR_FEATURES if has_vectors else ())
        + (pair_features.CAPTION_SET_FEATURES if has_vectors and several_captions else ())
        + pair_features.CONTRADICTION_FEATURES
    )


def find_calibration(
    calibrations: Sequence[Calibration],
    language: str,
    embedder: Sequence[str],
    *,
    several_captions: bool,
    image_embedder: Sequence[str] = (),
) -> Calibration | None:
    """Returns the first calibration of the language, of an embedder with one of these names (words alone for none), of
    this number of captions, and of the captions alone or of this embedder of images, too; None where there is none."""
    for one in calibrations:
        same_embedder = bool(set(embedder) & set(one.embedders)) or not (embedder or one.embedders)
        same_embedder &= not one.image_embedder or bool(set(image_embedder) & set(one.image_embedder))
        if one.language == language and one.several_captions == several_captions and same_embedder:
            return one
    return None


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


def add_image_features(
    start: Calibration, features: Mapping[str, FloatArray], image_embedder: Sequence[str]
) -> Calibration:
    """Returns the calibration with the coefficients 0 for how alike the images of a pair are, standardised by these
    pairs."""
    means = tuple(round(float(np.nanmean(features[name])), 6) for name in pair_features.IMAGE_FEATURES)
    scales = tuple(round(max(float(np.nanstd(features[name])), 1e-6), 6) for name in pair_features.IMAGE_FEATURES)
    return replace(
        start,
        features=start.features + pair_features.IMAGE_FEATURES,
        means=start.means + means,
        scales=start.scales + scales,
        coefficients=start.coefficients + (0.0,) * len(pair_features.IMAGE_FEATURES),
        image_embedder=tuple(image_embedder),
    )


def fit_calibration(
    start: Calibration, features: Mapping[str, FloatArray], fits: FloatArray, *, keep_near: bool
) -> Calibration:
    """Returns the calibration fitted to pairs by penalised maximum likelihood. `fits` (n,): the share of people who say
    that the pair fits, 0 to 1. `keep_near`: stay near the coefficients of `start`; else near 0."""
    columns = np.column_stack([np.ones(len(fits)), _standardised(features, start)])
    origin = np.array([start.intercept, *start.coefficients])
    has_prior = np.array([keep_near and name not in pair_features.IMAGE_FEATURES for name in start.features])
    penalty = np.array([1.0 if keep_near else 0.0, *np.where(has_prior, _PRIOR_PENALTY, _PENALTY)])
    weights = origin.copy()
    for _ in range(_STEPS):  # Newton's steps
        expected = _logistic(columns @ weights)
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
    log_odds = _log_odds(fitted, features)
    contradictions = [features[name] for name in pair_features.CONTRADICTION_FEATURES]
    columns = np.column_stack([np.ones(len(fits)), log_odds / _SLOPE_UNIT, *contradictions])
    before = contradictions_before or {}
    origin = np.array([0.0, 0.0, *(before.get(name, 0.0) for name in pair_features.CONTRADICTION_FEATURES)])
    weights = origin.copy()
    penalty = np.array([0.0, *[_PENALTY] * (len(weights) - 1)])
    for _ in range(_STEPS):
        expected = _logistic(log_odds + columns @ weights)
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


def _log_odds(calibration: Calibration, features: Mapping[str, FloatArray]) -> FloatArray:
    result: FloatArray = _standardised(features, calibration) @ np.array(calibration.coefficients)
    return result + calibration.intercept


def _standardised(features: Mapping[str, FloatArray], calibration: Calibration) -> FloatArray:
    rows = [features[name] for name in calibration.features]
    matrix: FloatArray = (np.stack(rows, axis=1) - np.array(calibration.means)) / np.array(calibration.scales)
    return np.nan_to_num(matrix)  # an image without a vector counts as an average one


def _logistic(log_odds: FloatArray) -> FloatArray:
    result: FloatArray = 1 / (1 + np.exp(-np.clip(log_odds, -40, 40)))
    return result


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


def read_calibrations(path: Path) -> tuple[tuple[Calibration, ...], str]:
    """Returns the calibrations of a file, and the file's sha256. Raises UserError where it cannot be read."""
    try:
        raw = path.read_bytes()
        stored = parse_json(raw)
        calibrations = tuple(Calibration.from_dict(one) for one in stored)
    except (OSError, ValueError, TypeError) as error:
        reason = f"cannot be read as calibrations ({type(error).__name__}: {first_line(error)})"
        raise UserError(_STAGE, path, reason, "run querytruth calibrate, or leave ambiguity.calibration out") from None
    return calibrations, hashlib.sha256(raw).hexdigest()


def write_calibrations(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Writes calibrations, one a line."""
    lines = ",\n".join(json.dumps(one.as_dict(), ensure_ascii=False) for one in calibrations)
    write_atomically(path, f"[\n{lines}\n]\n".encode())
