"""Planted worlds of a certificate: a pool whose truth is known, with a judge's scores, in ranks of two systems."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from querytruth.audit.next_cards import AnsweredPool, PooledPairs

# AUROC of the judge's scores; none: no judge.
JUDGES = {"good": 0.97, "weak": 0.7, "useless": 0.5, "adversarial": 0.03, "none": None}
PAIRS_OF_QUERY = 50


def plant_pool(
    size: int, prevalence: float, judge: str, seed: int, marked: float = 0.0, ranks: float = 0.8
) -> tuple[PooledPairs, NDArray[np.bool_]]:
    """A pool of queries of unequal difficulty, and by pair whether it is relevant. `marked`: the share of the
    relevant pairs that the set has already, with a tenth as many wrong ones; `ranks`: AUROC of the order of the
    systems. A biased judge likes some queries."""
    rng = np.random.default_rng(seed)
    queries = np.arange(size) // PAIRS_OF_QUERY
    ease = rng.normal(0, 0.8, queries.max() + 1)[queries]
    odds = np.log(prevalence / (1 - prevalence)) - 0.3 * (1 - 2 * prevalence) + ease
    relevant = rng.random(size) < 1 / (1 + np.exp(-odds))
    area = JUDGES.get(judge, 0.9)
    grade = np.full(size, -1.0)
    if area is not None:
        score = np.sqrt(2) * norm.ppf(area) * relevant + rng.normal(0, 1, size)
        score += rng.normal(0, 1.5, queries.max() + 1)[queries] if judge == "biased" else 0
        grade = 1 / (1 + np.exp(-score))
    order = np.sqrt(2) * norm.ppf(ranks) * relevant + rng.normal(0, 1, size)
    rank = pd.Series(-order).groupby(queries).rank(method="first").to_numpy()
    is_marked = (rng.random(size) < marked) & (relevant | (rng.random(size) < 0.1 * prevalence))
    pairs = pd.DataFrame(
        {
            "query_id": [f"q_{number}" for number in queries],
            "image_id": [f"i_{seed}_{number}" for number in range(size)],
            "relevance": np.where(is_marked, 1, -1),
            "best_rank": rank.astype(int),
            "judge": grade,
        }
    )
    none = pairs[["query_id", "image_id"]].iloc[:0]
    pool = PooledPairs(pairs, rng.choice([0.5, 1.0], size), none, 0, int(queries.max()) + 1, seed)
    return pool, relevant


@dataclass
class Review:
    """A person who knows the truth works through the cards. `was_true`: whether every statement at every look was."""

    pool: PooledPairs
    relevant: NDArray[np.bool_]
    was_true: bool = True
    at_goal: float | None = None  # the share of the pool that was asked when the goal was reached

    def work(self, goal: float = 0.9, *, goes_on: bool = False) -> dict[str, Any]:
        """Answer rounds until the goal is certified, or all is asked."""
        rows = kinds = np.zeros(0, dtype=np.int64)
        forecasts = np.zeros(0)
        while True:
            answered = AnsweredPool(self.pool, rows, kinds, forecasts, self.relevant[rows].astype(float))
            self.look(answered)
            if self.at_goal is None and answered.recall >= goal:
                self.at_goal = len(rows) / len(self.pool.pairs)
            new = answered.plan_round(1.0 if goes_on else goal)
            if not len(new.rows):
                return answered.certify(goal)
            rows, kinds = np.concatenate([rows, new.rows]), np.concatenate([kinds, new.kinds])
            forecasts = np.concatenate([forecasts, new.forecasts])

    def look(self, answered: AnsweredPool) -> None:
        """Hold what is stated against the truth. The bounds only fall: a look after a round sees all in between."""
        is_marked = self.pool.is_marked
        missing, wrong = (self.relevant & ~is_marked).sum(), (~self.relevant & is_marked).sum()
        self.was_true &= bool(answered.missing.at_most >= missing and answered.wrong.at_most >= wrong)
