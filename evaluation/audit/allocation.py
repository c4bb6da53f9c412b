"""How many pairs of each stratum people judge."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from builders.array_types import FloatArray, RowIndices

_JUDGE_MARGIN = 1.07  # sampling variance that a useless judge may cost, as a factor


def allocate_sample(
    sizes: Sequence[int] | RowIndices, expected_shares: Sequence[float] | FloatArray, total: int, floor: int
) -> NDArray[np.int64]:
    """Returns the number of pairs to draw from each stratum: a floor, and the rest in proportion to size times the
    standard deviation that the expected share of positives gives (Neyman, Journal of the Royal Statistical Society 97,
    1934). No stratum gets more than it has; a total below the floors is shared in proportion to these."""
    size = np.asarray(sizes, dtype=np.int64)
    share = np.asarray(expected_shares, dtype=np.float64)
    drawn = np.minimum(size, floor)
    if drawn.sum() >= total:
        return _round_to(drawn * (total / max(int(drawn.sum()), 1)), drawn, total)
    return _fill(drawn, size, np.asarray(size * np.sqrt(share * (1 - share)), dtype=np.float64), total)


def split_by_judge(sizes: Sequence[int], expected_shares: Sequence[float], total: int) -> NDArray[np.int64]:
    """Returns the numbers to draw from the parts into which a judge's labels divide one stratum.

    Each part gets nearly its proportional number, and only the rest goes where Neyman's rule wants it: a judge whose
    labels mean nothing then widens intervals by the square root of 1.07 at most, whatever it says."""
    size = np.asarray(sizes, dtype=np.int64)
    share = np.asarray(expected_shares, dtype=np.float64)
    total = min(total, int(size.sum()))
    if not total:
        return np.zeros(len(size), dtype=np.int64)
    proportional = size / size.sum() * total / _JUDGE_MARGIN
    drawn = np.minimum(np.ceil(proportional).astype(np.int64), size)
    while drawn.sum() > total:  # a part that is there keeps one draw while others have more
        drawn[np.argmax(drawn)] -= 1
    weights = size * np.sqrt(share * (1 - share))
    wanted = weights / max(float(weights.sum()), 1e-12) * total
    return _fill(drawn, size, np.maximum(wanted - drawn, 1e-9), total)


def _fill(drawn: NDArray[np.int64], size: NDArray[np.int64], weights: FloatArray, total: int) -> NDArray[np.int64]:
    """Shares what is left of the total by weight; what a stratum cannot take goes to the others."""
    drawn = drawn.copy()
    while (rest := total - int(drawn.sum())) > 0 and (open_ := size > drawn).any():
        weight = np.where(open_, np.maximum(weights, 1e-12), 0)
        added = _round_to(weight / weight.sum() * rest, size - drawn, rest)
        drawn += added
        if not added.any():
            break
    return drawn


def _round_to(wanted: FloatArray, limits: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Rounds to whole numbers with the given sum, within the limits, by largest remainder."""
    whole = np.minimum(np.floor(wanted + 1e-9).astype(np.int64), limits)
    for place in np.argsort(-(wanted - whole), kind="stable"):
        if whole.sum() >= total:
            break
        whole[place] += int(whole[place] < limits[place])
    return whole
