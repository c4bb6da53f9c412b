"""Intervals of proportions, and of sums and ratios of independent estimates.

All arguments are arrays of one shape; the strata are the last axis where a function sums over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from builders.array_types import FloatArray

_TAIL = 0.025  # of a 95% interval, at each end


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """An estimate with the ends of its 95% interval: numbers, or arrays of one shape."""

    value: Any
    low: Any
    high: Any

    def scale(self, factor: Any) -> IntervalEstimate:
        """Returns the estimate times a known factor that is not negative."""
        return IntervalEstimate(self.value * factor, self.low * factor, self.high * factor)

    def clip(self, low: float = 0.0, high: float = np.inf) -> IntervalEstimate:
        """Returns the estimate within known bounds."""
        return IntervalEstimate(*(np.clip(end, low, high) for end in (self.value, self.low, self.high)))

    def complement(self) -> IntervalEstimate:
        """Returns 1 less the estimate."""
        return IntervalEstimate(1 - self.value, 1 - self.high, 1 - self.low)


def estimate_proportion(positives: Any, drawn: Any, size: Any) -> IntervalEstimate:
    """Returns the share of positives among `size` items, of which `drawn` were drawn at random without replacement;
    infinity is so many that their number has no influence.

    Jeffreys' interval (Brown, Cai and DasGupta, Statistical Science 16, 2001) with the effective number of draws
    n (N - 1) / (N - n), so that the interval of a census is a point. Its end is 0 or 1 where all draws are alike.
    Without a draw the share is unknown: 0.5, from 0 to 1."""
    k, n, total = (np.asarray(given, dtype=np.float64) for given in (positives, drawn, size))
    share = np.where(n > 0, k / np.maximum(n, 1), 0.5)
    is_census = n >= total
    rest = np.where(is_census | np.isinf(total), 1, total - n)
    effective = np.where(is_census | np.isinf(total), n, n * np.maximum(total - 1, 0) / rest)
    a, b = share * effective + 0.5, (1 - share) * effective + 0.5
    low = np.where(share <= 0, 0.0, betaincinv(a, b, _TAIL))
    high = np.where(share >= 1, 1.0, betaincinv(a, b, 1 - _TAIL))
    low, high = np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)
    is_known = is_census & (n > 0)
    return IntervalEstimate(share, np.where(is_known, share, low), np.where(is_known, share, high))


def bound_proportion(positives: int, drawn: int) -> float:
    """Returns the exact upper 95% bound of a proportion (Clopper and Pearson, Biometrika 26, 1934); 1 without a
    draw."""
    return 1.0 if positives >= drawn else float(betaincinv(positives + 1, drawn - positives, 0.95))


def sum_estimates(parts: IntervalEstimate) -> IntervalEstimate:
    """Returns the sum over the last axis of independent estimates.

    The interval joins the distances of their ends (MOVER; Zou and Donner, Statistics in Medicine 27, 2008), which keeps
    the asymmetry of small counts, unlike a sum of variances."""
    value = parts.value.sum(axis=-1)
    below = np.sqrt(((parts.value - parts.low) ** 2).sum(axis=-1))
    above = np.sqrt(((parts.high - parts.value) ** 2).sum(axis=-1))
    return IntervalEstimate(value, value - below, value + above)


def divide_estimates(top: IntervalEstimate, bottom: IntervalEstimate) -> IntervalEstimate:
    """Returns the ratio of two independent estimates that are not negative (MOVER-R; Donner and Zou, Statistical
    Methods in Medical Research 21, 2012, equation 9); its end is infinite where the divisor may be 0."""
    a, b = np.asarray(top.value, dtype=np.float64), np.asarray(bottom.value, dtype=np.float64)
    low = _find_ratio_end(a, b, np.asarray(top.low), np.asarray(bottom.high), -1)
    high = _find_ratio_end(a, b, np.asarray(top.high), np.asarray(bottom.low), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A divisor whose end is more than twice its value has no such lower end: that of the corners holds.
        low = np.where(2 * b > bottom.high, low, top.low / bottom.high)
        return IntervalEstimate(a / b, np.clip(low, 0, None), np.where(np.asarray(bottom.low) > 0, high, np.inf))


def _find_ratio_end(a: FloatArray, b: FloatArray, top: FloatArray, bottom: FloatArray, sign: int) -> FloatArray:
    """The end that joins the distance of `top` from a and that of `bottom` from b."""
    divisor = bottom * (2 * b - bottom)
    inside = np.maximum((a * b) ** 2 - top * (2 * a - top) * divisor, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        end: FloatArray = (a * b + sign * np.sqrt(inside)) / divisor
    return end
