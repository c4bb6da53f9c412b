"""Planned sizes: the closed form, and the power that simulated tests have at that size."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import t as student

from querytruth.evaluation.sample_size import plan_for_discordance, plan_for_pilot
from tests.evaluation.promises import measure_power


def simulate_power(discordance: float, difference: float, queries: int, tests: int) -> float:
    """The share of tests at 5% that find the difference of hit rates."""
    return measure_power(np.random.default_rng(11), discordance, difference, queries, tests)


def test_the_size_is_that_of_the_equation() -> None:
    """Of the test with two more queries, one at each end, by another way of solving it."""
    for d, delta in ((0.2, 0.02), (0.1, 0.05), (0.4, 0.01)):
        variance = d - delta**2

        def miss(n: float, variance: float = variance, delta: float = delta) -> float:
            level = student.ppf(0.975, n + 1)
            return float(np.sqrt(n) * delta - level * np.sqrt(variance + 2 / n) - 0.841621 * np.sqrt(variance))

        assert plan_for_discordance(d, delta).queries == pytest.approx(brentq(miss, 2, 1e6), abs=2)


def test_a_test_of_the_planned_size_has_the_planned_power() -> None:
    size = plan_for_discordance(0.2, 0.03).queries
    assert simulate_power(0.2, 0.03, size, 4000) == pytest.approx(0.8, abs=0.03)
    assert simulate_power(0.2, 0.03, size // 2, 4000) < 0.6
    assert simulate_power(0.1, 0.05, plan_for_discordance(0.1, 0.05).queries, 4000) >= 0.79  # few differ


@pytest.mark.parametrize("pilot", [20, 50])
def test_plans_from_small_pilots_have_the_planned_power_on_average(pilot: int) -> None:
    rng, powers = np.random.default_rng(2), []
    for _ in range(60):
        differences = pd.Series(rng.choice([1.0, -1.0, 0.0], pilot, p=[0.125, 0.075, 0.8]))
        powers.append(simulate_power(0.2, 0.05, plan_for_pilot(differences, 0.05).queries, 300))
    assert 0.8 <= np.mean(powers) <= 0.92


def test_a_pilot_of_clusters_needs_more_queries() -> None:
    topics = np.random.default_rng(4).normal(0, 0.3, 50)
    differences = pd.Series(np.repeat(topics, 10))
    alone = plan_for_pilot(differences, 0.05).queries
    assert 8 < plan_for_pilot(differences, 0.05, clusters=np.repeat(np.arange(50), 10)).queries / alone < 12


def test_a_pilot_in_which_nothing_differs_expects_that_something_may() -> None:
    for differences, clusters in ((np.zeros(20), None), (np.full(10, 0.5), None), (np.zeros(15), np.zeros(15))):
        assert plan_for_pilot(pd.Series(differences), 0.1, clusters=clusters).queries > 40
