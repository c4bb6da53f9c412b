"""People who err, with the same chance at each look, on pairs whose truth is known."""

import numpy as np

from querytruth.audit.certificate import PEOPLE_ALPHA
from querytruth.audit.judging_errors import Pair, bound_errors, choose_second_ratings, count_needed_ratings


class People:
    """They look at pairs of which a share is relevant, with the errors of one look."""

    def __init__(self, pairs: int, share: float, slip: float, miss: float, rng: np.random.Generator) -> None:
        self.is_relevant = {("q", str(number)): number < rng.binomial(pairs, share) for number in range(pairs)}
        self.slip, self.miss, self.rng = slip, miss, rng
        self.ratings: dict[Pair, list[bool]] = {pair: [self.rate(pair)] for pair in self.is_relevant}

    def rate(self, pair: Pair) -> bool:
        return bool(self.rng.random() >= self.miss if self.is_relevant[pair] else self.rng.random() < self.slip)

    def rate_again(self) -> None:
        for pair in choose_second_ratings(self.ratings, 0):
            while len(self.ratings[pair]) < count_needed_ratings(self.ratings[pair]):
                self.ratings[pair].append(self.rate(pair))

    def truth(self) -> list[Pair]:
        return [pair for pair, ratings in self.ratings.items() if 2 * sum(ratings) > len(ratings)]


def is_held(people: People) -> tuple[bool, bool]:
    """Whether the truth is at most as wrong, and has at least the share of the relevant pairs, that is stated."""
    people.rate_again()
    (wrong_at_most, missed, *_), truth = bound_errors(people.ratings, PEOPLE_ALPHA), people.truth()
    right = sum(people.is_relevant[pair] for pair in truth)
    relevant = sum(people.is_relevant.values())
    wrong = (len(truth) - right) / len(truth) if truth else 0.0
    return wrong_at_most >= wrong, not relevant or 1 / (1 + missed) <= right / relevant
