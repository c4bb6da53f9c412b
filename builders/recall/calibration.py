"""The probability that people say a query fits an image, by logistic regression on the features of the pair.

A calibration holds for one language, one embedder (or none) and one or several captions per image; benchmarks fit it to
what people said of pairs (benchmarks/ambiguity_calibration.py). The shipped ones are read from their file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from builders.precision.label_files import SHIPPED_FOLDER
from builders.recall import pair_features
from builders.recall.caption_index import AnswerIndex
from querytruth.array_types import FloatArray
from querytruth.backends.files.text_formats import parse_json
from querytruth.errors import UserError, first_line

# Unrelated captions may be so many times as alike as those fitted to. Flickr8k (fitted) 1, COCO 0.6, Chinese captions
# written by people 1.3; captions from templates 2 to 4.
MOST_ALIKE = 1.5
SEVERAL = 2  # captions per image from which the captions of an image are a set
SHIPPED_CALIBRATIONS = SHIPPED_FOLDER / "ambiguity" / "calibrations.json"
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
        result: FloatArray = logistic_share(find_log_odds(self, features)).round(4)
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


def find_log_odds(calibration: Calibration, features: Mapping[str, FloatArray]) -> FloatArray:
    """Returns the log odds of pairs with these features."""
    result: FloatArray = standardise_features(features, calibration) @ np.array(calibration.coefficients)
    return result + calibration.intercept


def standardise_features(features: Mapping[str, FloatArray], calibration: Calibration) -> FloatArray:
    """Returns the features of pairs as the calibration weighs them (n, features)."""
    rows = [features[name] for name in calibration.features]
    matrix: FloatArray = (np.stack(rows, axis=1) - np.array(calibration.means)) / np.array(calibration.scales)
    return np.nan_to_num(matrix)  # an image without a vector counts as an average one


def logistic_share(log_odds: FloatArray) -> FloatArray:
    """Returns the shares of log odds."""
    result: FloatArray = 1 / (1 + np.exp(-np.clip(log_odds, -40, 40)))
    return result


def read_calibrations(path: Path) -> tuple[tuple[Calibration, ...], str]:
    """Returns the calibrations of a file, and the file's sha256. Raises UserError where it cannot be read."""
    try:
        raw = path.read_bytes()
        stored = parse_json(raw)
        calibrations = tuple(Calibration.from_dict(one) for one in stored)
    except (OSError, ValueError, TypeError) as error:
        reason = f"cannot be read as calibrations ({type(error).__name__}: {first_line(error)})"
        raise UserError(_STAGE, path, reason, "restore the file") from None
    return calibrations, hashlib.sha256(raw).hexdigest()
