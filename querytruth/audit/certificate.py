"""When people have judged enough: bounds on what a truth lacks and on what of it is wrong, true at every look.

A pool of N pairs has K relevant ones. Cards are asked one after another, each of one of two kinds: **chosen** by any
rule that looks at the answers so far, or **drawn** uniformly from the pairs that are not asked yet. F pairs were found
relevant and n are left when a pair is drawn, so that, if K = k, it is relevant with the probability (k - F) / n,
whatever was chosen before, and why. A bettor who says q beforehand has then the wealth

    E(k) = product over draws of q / p for a relevant pair, (1 - q) / (1 - p) for another, with p = (k - F) / n

which is a martingale under K = k that starts at 1: it exceeds 1 / alpha at any time with probability alpha at most
(Ville). The bettor bets only against k with p > q, so that all k that are rejected lie above those that are not: the
largest k not rejected so far is an upper bound of K, at all times at once, however often one looks and whenever one
stops. The forecast q decides how soon the bound is reached, never whether it is true.

After Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement" (arXiv 2006.04347) and
"Estimating means of bounded random variables by betting" (2010.09686); the question is that of Lewis, Yang and Frieder,
"Certifying one-phase technology-assisted reviews" (2108.12746), whose sample is set aside and cannot help to choose.

A card that is handed out and not answered yet counts as relevant in F, and no later draw counts until it is answered:
whoever leaves a card open, knowing what later draws showed, cannot choose the wealth by that.
"""

from collections.abc import Sequence

import numpy as np

from querytruth.array_types import BoolArray, FloatArray, RowIndices

CONFIDENCE = 0.95
# How the chance of error is divided where there is something to bound of each kind; a part without takes none.
# `people`: the three bounds on how often people err (`judging_errors.py`).
_SHARES = {"missing": 0.5, "wrong": 0.15, "outside": 0.15, "people": 0.2}
PEOPLE_ALPHA = (1 - CONFIDENCE) * _SHARES["people"] / 3  # of each of the three bounds on people's errors
_MOST_STEPS, _LEAST_STEP = 30, 1e-3
_STEPS_OF_PLAN = 4
_LEAST_FORECAST = 0.25  # relevant pairs among all that are left: a forecast of none would lose all at the first one


def divide_error(**sizes: int) -> dict[str, float]:
    """Return the chance of error of each bound (missing, wrong, outside), by the number of pairs that it is about, and
    of all bounds on people's errors; together they are wrong with 5% at most."""
    used = {name: share for name, share in _SHARES.items() if name == "people" or sizes.get(name, 0)}
    return {name: (1 - CONFIDENCE) * share / sum(used.values()) for name, share in used.items()}


class CountBound:
    """An upper bound on the hits among `size` pairs that holds at all times at once, except with probability `alpha`.

    `found` and `asked` count the hits and the cards so far; `at_most` bounds all hits, including those already found.
    """

    def __init__(self, size: int, alpha: float) -> None:
        self.size, self.found, self.asked, self.at_most = size, 0, 0, size
        self._limit = -np.log(alpha)
        self._log_wealth = np.zeros(size + 1)  # by hypothesis k
        self._counts = np.arange(size + 1, dtype=np.float64)

    @property
    def left(self) -> int:
        """Return the number of pairs that are not asked yet."""
        return self.size - self.asked

    def add_chosen(self, asked: int, hits: int) -> None:
        """Add cards that were chosen by a rule; those that wait for an answer count as hits."""
        self.asked, self.found = self.asked + asked, self.found + hits
        self.at_most = min(self.at_most, self.found + self.left)

    def add_drawn(self, is_hit: bool, forecast: float) -> None:
        """Add the answer to a card that was drawn uniformly from those left; `forecast`: the probability of a hit as
        it was stated before."""
        left, above = self.left, slice(self.found, self.at_most + 1)
        chance = np.minimum((self._counts[above] - self.found) / left, 1.0)
        forecast = min(max(forecast, _LEAST_FORECAST / left), 1.0)
        is_bet = chance > forecast
        with np.errstate(divide="ignore"):
            gain = np.log(forecast / chance[is_bet]) if is_hit else np.log((1 - forecast) / (1 - chance[is_bet]))
        self._log_wealth[above][is_bet] += gain
        self.asked, self.found = self.asked + 1, self.found + int(is_hit)
        standing = np.flatnonzero(self._log_wealth[above] < self._limit)
        self.at_most = min(above.start + int(standing[-1]) if len(standing) else self.found, self.found + self.left)

    def lacking(self, count: RowIndices) -> FloatArray:
        """Return how much log-wealth the rejection of each of these hypotheses lacks, 0 where it is rejected."""
        lacks = self._limit - self._log_wealth[np.clip(count, 0, self.size)]
        return np.where(count > self.at_most, 0.0, np.maximum(lacks, 0.0))


def plan_cards(bound: CountBound, expected: FloatArray, recall: float, already: int = 0) -> tuple[int, float]:
    """Return how many of the most probable pairs to ask before the rest is drawn, and the cards until a share `recall`
    of the hits is certified. `expected`: by pair that is left the probability of a hit, the highest first; `already`:
    hits beside these that the truth has.

    Judging deeper leaves fewer hits in the rest, so that fewer draws show that there are few: for each depth the number
    of draws follows from the rate at which the wealth grows, and the sum of both has a minimum. Draws find hits, too,
    which leaves less to refute: of a rich rest a third less than without."""
    left = len(expected)
    depths = np.unique(np.round(np.linspace(0, 1, 129) ** 2 * left).astype(np.int64))
    gained = np.concatenate([[0.0], np.cumsum(expected)])[depths]
    rest = np.maximum(gained[-1] - gained, _LEAST_FORECAST)
    found, remaining = bound.found + gained, np.maximum(left - depths, 1)
    draws = np.zeros(len(depths))
    for step in range(_STEPS_OF_PLAN):
        seen = found + already + rest * draws / remaining
        refuted = np.floor(seen / recall - already).astype(np.int64) + 1  # the first count to refute
        wanted = _count_draws(bound.lacking(refuted), rest, refuted - found, remaining)
        wanted = np.where(refuted > found + left - depths, 0.0, np.minimum(wanted, left - depths))
        draws = (draws + wanted) / 2 if step else wanted
    cost = depths + draws
    best = int(np.argmin(cost))
    return int(depths[best]), float(cost[best])


def _count_draws(lacking: FloatArray, rest: FloatArray, null_hits: FloatArray, remaining: RowIndices) -> FloatArray:
    """Return how many draws from the remaining pairs, `rest` of which are hits, refute `null_hits` hits: the missing
    log-wealth divided by its rate of growth. Draws without replacement exhaust the rest: x draws of n count as n log(n
    / (n - x)) draws with replacement."""
    truth, null = np.minimum(rest / remaining, 1.0), np.minimum(null_hits / remaining, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = truth * np.log(truth / null) + np.where(truth < 1, (1 - truth) * np.log((1 - truth) / (1 - null)), 0.0)
        draws = np.where((truth < null) & (rate > 0), np.maximum(lacking, 0) / rate, np.inf)  # 0: too alike
    return np.asarray(remaining * -np.expm1(-draws / remaining), dtype=np.float64)


def forecast_recall(bound: CountBound, expected: FloatArray, more: int, goal: float, already: int = 0) -> float:
    """Return the share of the hits that so many further cards are likely to certify on the way to the goal, in whole
    percents: what is chosen comes first, and proves nothing of the rest before draws do."""
    chosen = min(more, plan_cards(bound, expected, goal, already)[0])
    found = bound.found + float(expected[:chosen].sum())
    remaining = max(len(expected) - chosen, 1)
    rest = np.full(99, max(float(expected[chosen:].sum()), _LEAST_FORECAST))
    shares = np.arange(99, 0, -1) / 100
    refuted = np.floor((found + already) / shares - already).astype(np.int64) + 1
    lacking = bound.lacking(refuted)
    null_hits = np.asarray(refuted - found, dtype=np.float64)
    draws = _count_draws(lacking, rest, null_hits, np.full(99, remaining))
    reached = shares[(draws <= more - chosen) | (lacking == 0) | (refuted > found + len(expected) - chosen)]
    return float(reached[0]) if len(reached) else 0.0


class RelevanceModel:
    """The probability that a pair is relevant, by its features and its query, from the answers so far.

    A logistic regression with a prior, and a shrunken offset for each query. It selects the next card and makes the
    forecast of the bettor; no bound depends on it. `features`: a row per pair, standardised; `prior`: the coefficients
    to start from, the constant first; `queries`: the number of each pair's query."""

    def __init__(self, features: FloatArray, prior: Sequence[float], queries: RowIndices) -> None:
        self._rows = np.column_stack([np.ones(len(features)), features])
        self._prior = np.asarray(prior, dtype=np.float64)
        self._weights = self._prior.copy()
        self._queries = queries
        self._precision = np.diag([0.25, *[1.0] * (len(prior) - 1)])

    def fit(self, asked: RowIndices, is_relevant: BoolArray) -> FloatArray:
        """Return the probability by pair, given the answers to the pairs at these rows."""
        rows, labels = self._rows[asked], is_relevant.astype(np.float64)
        for _ in range(_MOST_STEPS):
            shares = _logistic(rows @ self._weights)
            slope = rows.T @ (labels - shares) - self._precision @ (self._weights - self._prior)
            curve = (rows * (shares * (1 - shares))[:, None]).T @ rows + self._precision
            step = np.linalg.solve(curve, slope)
            # A whole step of Newton's can overshoot where few are relevant, and then swing for ever.
            before, size = self._likelihood(rows, labels, self._weights), 1.0
            while size > _LEAST_STEP and self._likelihood(rows, labels, self._weights + size * step) < before:
                size /= 2
            self._weights = self._weights + size * step
            if np.abs(size * step).max() < 1e-4:
                break
        scores = self._rows @ self._weights
        shares = _logistic(scores[asked])
        count = int(self._queries.max()) + 1 if len(self._queries) else 0
        above = np.bincount(self._queries[asked], labels - shares, count)
        offsets = above / (np.bincount(self._queries[asked], shares * (1 - shares), count) + 1.0)
        return _logistic(scores + np.clip(offsets, -2, 2)[self._queries])

    def _likelihood(self, rows: FloatArray, labels: FloatArray, weights: FloatArray) -> float:
        """Return the penalised log likelihood of the labels, which the fit maximises."""
        scores, shift = rows @ weights, weights - self._prior
        return float((labels * scores - np.logaddexp(0, scores)).sum() - shift @ self._precision @ shift / 2)


def _logistic(values: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -30, 30))), dtype=np.float64)
