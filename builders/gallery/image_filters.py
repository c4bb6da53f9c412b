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
from builders.gallery.filters import ImageFilter, list_image_filters
from builders.manifest_records import ThresholdRecord

_PASSES = {"over": operator.gt, "at least": operator.ge, "under": operator.lt, "at most": operator.le}
_NEAR = 1e-9  # quotients of whole numbers this close to a cut are compared as fractions


@dataclass(frozen=True, slots=True)
class ImageFilterRule:
    """A filter with its threshold."""

    filter: ImageFilter
    threshold: float

    @property
    def name(self) -> str:
        """The key in the definition."""
        return f"filter.{self.filter.key}"

    @property
    def reason(self) -> str:
        """Why an image is rejected."""
        return self.filter.reason

    def threshold_record(self) -> ThresholdRecord:
        """The rule as the manifest states it."""
        return ThresholdRecord(self.name, self.filter.comparison, self.threshold)


def build_filter_rules(**thresholds: float | None) -> tuple[ImageFilterRule, ...]:
    """The rules in the order in which they are tried. A filter that is not named has its default; None leaves it out.

    Raises a ValueError for a threshold that is not finite, and a TypeError for a filter that there is not."""
    filters = {one.key: one for one in list_image_filters()}
    if unknown := sorted(thresholds.keys() - filters.keys()):
        raise TypeError(f"there is no filter {unknown[0]!r}")
    wanted = {key: one.default for key, one in filters.items()} | thresholds
    for key, threshold in wanted.items():
        if threshold is not None and not math.isfinite(threshold):
            raise ValueError(f"filter.{key}: {threshold} is no limit; null leaves the rule out")
    return tuple(ImageFilterRule(filters[key], value) for key, value in wanted.items() if value is not None)


def list_filter_columns() -> list[str]:
    """The columns of a scan that filters look at."""
    return sorted({column for one in list_image_filters() for column in one.columns})


def apply_filters(frame: pd.DataFrame, rules: Sequence[ImageFilterRule]) -> tuple[AnyArray, pd.DataFrame]:
    """Per row whether it goes on; and reason, measure, value (rounded to six decimals) and threshold of those that do
    not, in the order of the rows.

    A value that is missing passes no rule: nobody knows that it would.
    """
    kept = np.ones(len(frame), dtype=bool)
    first_failed = np.full(len(frame), -1)
    first_values = np.full(len(frame), np.nan)
    for number, rule in enumerate(rules):
        values = rule.filter.compute(frame)
        failed = np.flatnonzero(kept & ~_passing(frame, rule, values))
        first_failed[failed], first_values[failed] = number, values[failed].astype(np.float64).round(6)
        kept[failed] = False
    rejections = pd.DataFrame(
        [
            (rules[number].reason, rules[number].filter.measure, rules[number].threshold)
            for number in first_failed[~kept]
        ],
        columns=["reason", "measure", "threshold"],
    )
    return kept, rejections.assign(value=first_values[~kept])


def _passing(frame: pd.DataFrame, rule: ImageFilterRule, values: AnyArray) -> AnyArray:
    passes = _PASSES[rule.filter.comparison]
    passing: AnyArray = passes(values, values.dtype.type(rule.threshold))
    if rule.filter.measure == "ratio":
        # 3 / 10 and the decimal 0.3 need not be the same float: whoever writes 0.3 means three tenths.
        cut = Fraction(str(rule.threshold))
        for row in np.flatnonzero(np.abs(values - rule.threshold) <= _NEAR * abs(rule.threshold)):
            width, height = (int(frame[side].iat[row]) for side in ("width", "height"))
            passing[row] = passes(width * cut.denominator, height * cut.numerator)
    return passing
