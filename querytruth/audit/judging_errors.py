"""How often people err, by pairs that are judged again, and what that leaves of a truth.

Each look at a pair errs on its own: it calls a pair relevant that is not with the chance `slip`, and misses one that
is with the chance `miss`. A random part of the pairs that the first look found, and of those that it refused, is looked
at again, blind; where the two differ a third look decides. With w the share of wrong pairs among those found, the looks
after a first yes are

    yes      w slip + (1 - w)(1 - miss)
    no, yes  w (1 - slip) slip + (1 - w) miss (1 - miss)
    no, no   w (1 - slip)^2 + (1 - w) miss^2

and likewise after a first no, where (1 - w) miss / (1 - miss) relevant pairs were missed for each found one. This is
the model of Dawid and Skene (Applied Statistics 28, 1979) with one kind of reader; its posterior is summed over a grid,
with Jeffreys' prior in each direction, and the upper quantiles are what is stated. Errors that all looks share, such as
a query that everybody misunderstands, do not show.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import pdtrc

from querytruth.array_types import FloatArray
from querytruth.records import stable_hash

SECOND_RATINGS = {True: 200, False: 60}  # pairs found, pairs refused that are judged again
Pair = tuple[str, str]
ErrorBounds = tuple[float, float, float, int]
_RATES = np.concatenate([[0.0], np.geomspace(1e-3, 0.5, 31)])
_SHARES = np.concatenate([[0.0], np.geomspace(1e-3, 0.5, 30), 1 - np.geomspace(0.49, 0.005, 22)])


def choose_second_ratings(ratings: Mapping[Pair, Sequence[bool]], seed: int) -> list[Pair]:
    """Return the pairs that are judged again, a random part of those that the first look found and of those that it
    refused: the same at each call, and never fewer with more answers."""
    drawn = sorted(ratings, key=lambda pair: stable_hash(str(seed), "again", *pair))
    return [
        pair
        for is_yes, most in SECOND_RATINGS.items()
        for pair in [one for one in drawn if ratings[one][0] == is_yes][:most]
    ]


def count_needed_ratings(ratings: Sequence[bool]) -> int:
    """Return how many looks a pair takes that is judged again."""
    return 3 if len(ratings) > 1 and ratings[0] != ratings[1] else 2


def bound_errors(ratings: Mapping[Pair, Sequence[bool]], alpha: float) -> ErrorBounds:
    """Return how far people err, by their ratings of each pair in order, where some have two or three. Three bounds,
    each wrong with the chance `alpha`: the share of pairs that they call relevant in the end and that are not, the
    relevant pairs that they refused for each other one, the chance of a slip; and the number of pairs rated again."""
    wrong, slip, miss = np.meshgrid(_SHARES, _RATES, _RATES, indexing="ij")
    counts = Counter(tuple(seen) for seen in ratings.values())
    found, refused = (sum(number for seen, number in counts.items() if seen[0] == is_yes) for is_yes in (True, False))
    missed = np.minimum((1 - wrong) * miss / (1 - miss) * found / max(refused, 1), 1.0)
    log_chance = np.log(_weigh(_SHARES)[:, None, None] * _weigh(_RATES)[:, None] * _weigh(_RATES))
    for seen, number in counts.items():
        relevant = 1 - wrong if seen[0] else missed
        of_relevant, of_others = (
            np.prod([yes if rating else 1 - yes for rating in seen[1:]], axis=0) for yes in (1 - miss, slip)
        )
        if len(seen) > 1:
            log_chance += number * np.log(np.maximum(relevant * of_relevant + (1 - relevant) * of_others, 1e-300))
    chance = np.exp(log_chance - log_chance.max())
    judged_again = {seen: number for seen, number in counts.items() if len(seen) > 1}
    again = sum(number for seen, number in judged_again.items() if seen[0]) / max(found, 1)
    wrong_left = found * wrong * (1 - again * (1 - slip) ** 2)  # not refused by a second and a third look
    relevant = found * (1 - wrong) / (1 - miss)
    lost = relevant * (miss + (1 - miss) * again * miss**2)
    truth = sum(number for seen, number in counts.items() if 2 * sum(seen) > len(seen))
    chance /= chance.sum()
    wrong_pairs = min(_bound_count(wrong_left, chance, alpha), truth)
    lost_pairs = _bound_count(lost, chance, alpha)
    order = np.argsort(slip, axis=None)
    slips = slip.ravel()[order[np.searchsorted(np.cumsum(chance.ravel()[order]), 1 - alpha)]]
    missed = lost_pairs / max(truth - wrong_pairs, 1)
    return wrong_pairs / max(truth, 1), missed, float(slips), sum(judged_again.values())


def _weigh(grid: FloatArray) -> FloatArray:
    """Return Jeffreys' prior of a share: uniform in arcsin(sqrt(share)), by the cell of each point."""
    return np.diff(np.arcsin(np.sqrt(np.concatenate([grid[:1], (grid[1:] + grid[:-1]) / 2, grid[-1:]]))))


def _bound_count(expected: FloatArray, chance: FloatArray, alpha: float) -> int:
    """Return the count that is exceeded with probability `alpha`, for a mixture of Poisson counts with these
    expectations and chances."""
    low, high = -1, int(expected.max() * 2) + 20
    while high - low > 1:  # at `high` the chance of more is at most alpha
        middle = (low + high) // 2
        low, high = (low, middle) if (chance * pdtrc(middle, expected)).sum() <= alpha else (middle, high)
    return high
