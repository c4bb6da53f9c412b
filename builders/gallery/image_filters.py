"""Filter rules for images, as data: the first rule that an image fails is the reason of its rejection."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from builders.gallery.filters import ImageFilter, list_image_filters
from querytruth.array_types import AnyArray
from querytruth.sets.manifest import Threshold, describe_threshold

_PASSES = {"over": operator.gt, "at least": operator.ge, "under": operator.lt, "at most": operator.le}
_NEAR = 1e-9  # relative: ratios this close to a threshold are compared as fractions


@dataclass(frozen=True, slots=True)
class ImageFilterRule:
    """A filter with its threshold."""

    filter: ImageFilter
    threshold: float

    @property
    def name(self) -> str:
        """Return the key in the definition."""
        return f"filter.{self.filter.key}"

    def threshold_record(self) -> Threshold:
        """Return the rule as the manifest states it."""
        return describe_threshold(self.name, self.filter.comparison, self.threshold)


def build_filter_rules(**thresholds: float | None) -> tuple[ImageFilterRule, ...]:
    """Return the rules in the order in which they are applied. A filter without a threshold has its default;
    None omits it. Raises ValueError for a threshold that is not finite and TypeError for an unknown filter."""
    filters = {one.key: one for one in list_image_filters()}
    if unknown := sorted(thresholds.keys() - filters.keys()):
        raise TypeError(f"unknown filter {unknown[0]!r}")
    wanted = {key: one.default for key, one in filters.items()} | thresholds
    for key, threshold in wanted.items():
        if threshold is not None and not math.isfinite(threshold):
            raise ValueError(f"filter.{key}: {threshold} is not a finite number; use null to turn the filter off")
    return tuple(ImageFilterRule(filters[key], value) for key, value in wanted.items() if value is not None)


def list_filter_columns() -> list[str]:
    """Return the columns of a scan that filters read."""
    return sorted({column for one in list_image_filters() for column in one.columns})


def apply_filters(frame: pd.DataFrame, rules: Sequence[ImageFilterRule]) -> tuple[AnyArray, pd.DataFrame]:
    """Return per row (n,) whether it passes; and reason, measure, value (rounded to six decimals) and threshold of the
    others, in the order of rows. A missing value passes no rule."""
    kept = np.ones(len(frame), dtype=bool)
    first_failed = np.full(len(frame), -1)
    first_values = np.full(len(frame), np.nan)
    for number, rule in enumerate(rules):
        values = rule.filter.compute(frame)
        failed = np.flatnonzero(kept & ~_passing(frame, rule, values))
        first_failed[failed], first_values[failed] = number, values[failed].astype(np.float64).round(6)
        kept[failed] = False
    failed_rules = [rules[number] for number in first_failed[~kept]]
    rows = [(rule.filter.reason, rule.filter.measure, rule.threshold) for rule in failed_rules]
    return kept, pd.DataFrame(rows, columns=["reason", "measure", "threshold"]).assign(value=first_values[~kept])


def _passing(frame: pd.DataFrame, rule: ImageFilterRule, values: AnyArray) -> AnyArray:
    passes = _PASSES[rule.filter.comparison]
    passing: AnyArray = passes(values, values.dtype.type(rule.threshold))
    if rule.filter.measure == "ratio":
        # 3 / 10 and the decimal 0.3 need not be the same float: 0.3 means three tenths.
        cut = Fraction(str(rule.threshold))
        for row in np.flatnonzero(np.abs(values - rule.threshold) <= _NEAR * abs(rule.threshold)):
            width, height = (int(frame[side].iat[row]) for side in ("width", "height"))
            passing[row] = passes(width * cut.denominator, height * cut.numerator)
    return passing
