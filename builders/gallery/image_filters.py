"""Which pictures go on: rules kept as data, the first that a picture fails is the reason why it stays out."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from builders.array_types import AnyArray
from builders.manifest_records import Direction, ThresholdRecord

_PASSES = {"over": operator.gt, "at least": operator.ge, "under": operator.lt, "at most": operator.le}
_NEAR = 1e-9  # quotients of whole numbers this close to a cut are compared as fractions


@dataclass(frozen=True, slots=True)
class ImageFilterRule:
    """A picture whose `measure` is `passes` (over, at least, under, at most) the cut goes on; `name` is the
    definition's key. Measures: shorter_side, longer_side, ratio (width to height), or a column of the frame."""

    name: str
    measure: str
    comparison: Direction
    threshold: float
    reason: str

    def threshold_record(self) -> ThresholdRecord:
        """The rule as the manifest states it."""
        return ThresholdRecord(self.name, self.comparison, self.threshold)


def build_filter_rules(
    *,
    min_side: int | None = 1,
    max_side: int | None = 5000,
    min_ratio: float | None = 0.2,
    max_ratio: float | None = 5,
    min_brightness: float | None = None,
    max_brightness: float | None = None,
    min_contrast: float | None = None,
    min_sharpness: float | None = None,
    max_flatness: float | None = None,
) -> tuple[ImageFilterRule, ...]:
    """The rules in the order in which they are tried; None leaves one out. The defaults are the seed article's
    (选取宽高均小于5000的图片，并且宽高比大于0.2小于5): a side of 5000 and a ratio of 0.2 or 5 are out."""
    every: tuple[tuple[str, str, Direction, float | None, str], ...] = (
        ("min_side", "shorter_side", "at least", min_side, "too_small"),
        ("max_side", "longer_side", "under", max_side, "too_large"),
        ("min_ratio", "ratio", "over", min_ratio, "too_narrow"),
        ("max_ratio", "ratio", "under", max_ratio, "too_wide"),
        ("min_brightness", "brightness", "at least", min_brightness, "too_dark"),
        ("max_brightness", "brightness", "at most", max_brightness, "too_light"),
        ("min_contrast", "contrast", "at least", min_contrast, "nearly_uniform"),
        ("min_sharpness", "sharpness", "at least", min_sharpness, "blurred"),
        ("max_flatness", "flatness", "at most", max_flatness, "screen_or_text"),
    )
    for key, _, _, cut, _ in every:
        if cut is not None and not math.isfinite(cut):
            raise ValueError(f"filter.{key}: {cut} is no limit; null leaves the rule out")
    return tuple(
        ImageFilterRule(f"filter.{key}", measure, passes, cut, reason)
        for key, measure, passes, cut, reason in every
        if cut is not None
    )


def apply_filters(frame: pd.DataFrame, rules: Sequence[ImageFilterRule]) -> tuple[AnyArray, pd.DataFrame]:
    """Per row whether it goes on; and reason, measure, value (rounded to six decimals) and threshold of those that do
    not, in the order of the rows.

    A value that is missing passes no rule: nobody knows that it would.
    """
    kept = np.ones(len(frame), dtype=bool)
    first_failed = np.full(len(frame), -1)
    first_values = np.full(len(frame), np.nan)
    for number, rule in enumerate(rules):
        values = _measure_values(frame, rule.measure)
        failed = np.flatnonzero(kept & ~_passing(frame, rule, values))
        first_failed[failed], first_values[failed] = number, values[failed].astype(np.float64).round(6)
        kept[failed] = False
    rejections = pd.DataFrame(
        [(rules[number].reason, rules[number].measure, rules[number].threshold) for number in first_failed[~kept]],
        columns=["reason", "measure", "threshold"],
    )
    return kept, rejections.assign(value=first_values[~kept])


def _measure_values(frame: pd.DataFrame, measure: str) -> AnyArray:
    """NaN where a side is missing or nothing. Scores stay float32: a cut of 0.1 is the float32 next to it, too."""
    if measure not in ("shorter_side", "longer_side", "ratio"):
        values: AnyArray = frame[measure].to_numpy(dtype=np.float32, na_value=np.nan)
        return values
    width, height = (_side(frame, side) for side in ("width", "height"))
    if measure == "ratio":
        values = width / height
    else:
        values = np.minimum(width, height) if measure == "shorter_side" else np.maximum(width, height)
    return values


def _side(frame: pd.DataFrame, side: str) -> AnyArray:
    values = frame[side].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(values > 0, values, np.nan)


def _passing(frame: pd.DataFrame, rule: ImageFilterRule, values: AnyArray) -> AnyArray:
    passes = _PASSES[rule.comparison]
    passing: AnyArray = passes(values, values.dtype.type(rule.threshold))
    if rule.measure == "ratio":
        # 3 / 10 and the decimal 0.3 need not be the same float: whoever writes 0.3 means three tenths.
        cut = Fraction(str(rule.threshold))
        for row in np.flatnonzero(np.abs(values - rule.threshold) <= _NEAR * abs(rule.threshold)):
            width, height = (int(frame[side].iat[row]) for side in ("width", "height"))
            passing[row] = passes(width * cut.denominator, height * cut.numerator)
    return passing
