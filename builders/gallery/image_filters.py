"""Which pictures go on: rules kept as data, the first that a picture fails is the reason why it stays out."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from builders.array_types import AnyArray
from builders.manifest_records import Direction, ThresholdRecord

_PASSES = {"over": operator.gt, "at least": operator.ge, "under": operator.lt, "at most": operator.le}
_FIGURE = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_MISSED = rf"(?P<value>{_FIGURE}) is (?:not (?:over|at least|under|at most)|under|over) (?P<cut>{_FIGURE})$"
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


def apply_filters(frame: pd.DataFrame, rules: Sequence[ImageFilterRule]) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Per row whether it goes on, else the reason and the value beside its cut; None where it does.

    A value that is missing passes no rule: nobody knows that it would.
    """
    kept = np.ones(len(frame), dtype=bool)
    reasons, details = np.full(len(frame), None, dtype=object), np.full(len(frame), None, dtype=object)
    for rule in rules:
        values = _measure_values(frame, rule.measure)
        failed = np.flatnonzero(kept & ~_passing(frame, rule, values))
        reasons[failed] = rule.reason
        details[failed] = _details(frame[["width", "height"]].iloc[failed], rule, values[failed])
        kept[failed] = False
    return kept, reasons, details


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


def _details(failed: pd.DataFrame, rule: ImageFilterRule, values: AnyArray) -> list[str]:
    cut = f"is not {rule.comparison} {_number(rule.threshold)}"
    if rule.measure not in ("shorter_side", "longer_side", "ratio"):
        return [f"{rule.measure} {round(float(value), 4)} {cut}" for value in values]
    show = _number if rule.measure != "ratio" else lambda value: str(round(float(value), 6))
    sizes = zip(failed["width"], failed["height"], values, strict=True)
    return [f"{_number(width)} x {_number(height)}: {show(value)} {cut}" for width, height, value in sizes]


def parse_relative_misses(details: pa.Array) -> AnyArray:
    """How far each value that `apply_filters` wrote, or `result_rules` of what a search found, lies from its cut, as a
    share of the cut (of a cut of 0: the value itself); NaN where a detail tells no value."""
    groups = pc.extract_regex(details, _MISSED)
    value, cut = (
        pc.struct_field(groups, name).cast(pa.float64()).fill_null(math.nan).to_numpy() for name in ("value", "cut")
    )
    with np.errstate(invalid="ignore"):  # a ledger may hold figures beyond all bounds
        share: AnyArray = np.abs(value - cut) / np.where(cut == 0, 1, np.abs(cut))
    return share


def _number(value: float) -> str:
    return str(int(value)) if value == value and value == int(value) else str(value)
