"""The probability that people say a query fits an image: one logistic regression on the features of the pair for each
language and way of comparing texts, fitted to what people said of pairs (benchmarks/ambiguity_fit.py)."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from builders.precision.label_files import SHIPPED_FOLDER
from builders.recall.pair_features import PairFeatures
from querytruth.array_types import FloatArray
from querytruth.definitions import StrictModel
from querytruth.errors import UserError, first_line

# The words of unrelated images may be so many times as alike as those fitted to. Flickr8k (fitted) 1, COCO 0.7, its
# first captions alone 0.4, Chinese translations 0.7; captions from templates 2.2 (English) and 3.4 (Chinese).
MOST_ALIKE = 1.5
MIN_CAPTIONS = 30  # of which spread and rarity are measured
LINES_FILE = SHIPPED_FOLDER / "ambiguity" / "lines.json"


class FittedLine(StrictModel):
    """Weights of features of pairs, and what they were fitted to.

    `embedder`: whose vectors; `compares_spelling`: whether it compares spelling or meaning; `covered`: the probability
    that a query fits an image whose captions say all of it; `background`: how alike the words of unrelated images are;
    `fitted_on`: what people judged; `reliability`: expected and observed shares of pairs that were not fitted to, by
    tenths of the probability.
    """

    language: str
    embedder: str
    compares_spelling: bool
    weights: dict[str, float]
    intercept: float
    covered: float
    background: float
    fitted_on: dict[str, Any]
    reliability: list[dict[str, float]]

    def compute_probabilities(self, pairs: PairFeatures, features: FloatArray) -> FloatArray:
        """Returns the probability (n,) of features (n, names) that the query fits, rounded to four decimals."""
        log_odds = features @ np.array([self.weights[name] for name in pairs.names]) + self.intercept
        probabilities: FloatArray = (1 / (1 + np.exp(-log_odds.clip(-40, 40)))).round(4)
        return probabilities

    def explain_misfit(self, pairs: PairFeatures) -> str:
        """Returns how captions differ from those that were fitted to; '' if they are alike enough."""
        alike = pairs.measure_background()
        if alike <= MOST_ALIKE * self.background:
            return ""
        return f"unrelated images share more words than those fitted to ({alike:g}, fitted {self.background:g})"


def read_lines(path: Path = LINES_FILE) -> tuple[list[FittedLine], str]:
    """Returns the lines of a file, and the file's sha256. Raises UserError where it cannot be read."""
    try:
        raw = path.read_bytes()
        return TypeAdapter(list[FittedLine]).validate_json(raw), hashlib.sha256(raw).hexdigest()
    except (OSError, ValidationError) as error:
        reason = f"cannot be read as fitted lines ({first_line(error)})"
        raise UserError("read fitted lines", path, reason, "restore the file") from None


def choose_line(lines: Sequence[FittedLine], language: str, *, compares_spelling: bool) -> FittedLine | None:
    """Returns the line of a language for embedders of that kind, or else for the other kind; None for a language
    without one."""
    of_language = [one for one in lines if one.language == language]
    return min(of_language, key=lambda one: one.compares_spelling != compares_spelling, default=None)
