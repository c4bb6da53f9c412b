"""Intervals and tests: worked by hand, and by simulating systems of which the truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, lists, sampled_from
from scipy.stats import t, ttest_1samp, ttest_ind

from querytruth.evaluation.statistics import (
    compare_means,
    correct_holm,
    detectable_difference,
    estimate_interval,
    find_p_of_difference,
)

# --- intervals -------------------------------------------------------------------------------------------------------


def test_the_interval_holds_the_mean_and_narrows_with_more_queries() -> None:
    rng = np.random.default_rng(1)
    values = rng.random(4000)
    wide, narrow = estimate_interval(values[:100]), estimate_interval(values)
    assert wide.low[0] < values[:100].mean() < wide.high[0]
    assert narrow.high[0] - narrow.low[0] == pytest.approx((wide.high[0] - wide.low[0]) / np.sqrt(40), rel=0.15)
    assert narrow.high[0] - narrow.low[0] == pytest.approx(2 * 1.96 * values.std() / np.sqrt(4000), rel=0.06)


def test_columns_do_not_disturb_each_other() -> None:
    values = np.random.default_rng(2).random((50, 2))
    both = estimate_interval(values)
    assert estimate_interval(values[:, 1]).low[0] == pytest.approx(both.low[1], abs=1e-9)
    assert estimate_interval(values[::-1]).low == pytest.approx(both.low, abs=1e-9)


def test_published_intervals_and_p_values_stay_as_they_are() -> None:
    """They are part of every figure that was published: a change of them is a decision."""
    values = (np.arange(60) * 37 % 60) / 60
    even, hits = estimate_interval(values), estimate_interval((np.arange(60) % 3 == 0).astype(float))
    assert (even.low[0], even.high[0]) == pytest.approx((0.4156890917, 0.5681818761), abs=1e-8)
    assert (hits.low[0], hits.high[0]) == pytest.approx((0.2175402044, 0.4598791505), abs=1e-8)
    assert find_p_of_difference(values, np.roll(values, 7) * 0.9) == pytest.approx(0.4329297555, abs=1e-8)


@pytest.mark.parametrize(("hits", "queries"), [(20, 20), (50, 50), (200, 200), (19, 20), (3, 50), (60, 100)])
def test_the_interval_is_students_of_the_figures_and_one_more_at_each_end(hits: int, queries: int) -> None:
    values = (np.arange(queries) < hits).astype(float)
    found, expected = estimate_interval(values), ttest_1samp(np.r_[values, 0, 1], 0.5).confidence_interval()
    assert found.low[0] == pytest.approx(max(expected.low, 0))
    assert found.high[0] == pytest.approx(min(expected.high, 1))


@given(lists(floats(0, 1), min_size=1, max_size=40), integers(1, 6))
@settings(max_examples=50)
def test_any_figures_have_an_interval_around_their_mean_within_the_range(figures: list[float], size: int) -> None:
    values = np.array(figures)
    for clusters in (None, np.arange(len(values)) // size):
        found = estimate_interval(values, clusters=clusters)
        assert -1e-9 <= found.low[0] <= values.mean() + 1e-9
        assert values.mean() - 1e-9 <= found.high[0] <= 1 + 1e-9


def test_an_interval_is_a_point_only_where_the_range_is() -> None:
    same = estimate_interval(np.full(40, 0.25))
    assert same.low[0] < 0.25 - 0.01 and same.high[0] > 0.25 + 0.05  # an unseen query may be 0, or 1
    alone = estimate_interval(np.array([[0.7, 0.2]]))
    assert (alone.low < 0.1).all() and (alone.high > 0.9).all()
    equal = estimate_interval(np.zeros(20), ends=(-1.0, 1.0))
    assert (-equal.low[0], equal.high[0]) == pytest.approx((0.137, 0.137), abs=0.001)  # 3 / 20 is the rule of three


def test_queries_of_one_cluster_are_drawn_together() -> None:
    """Ten topics of which every query is alike: a hundred queries say no more than ten."""
    rng = np.random.default_rng(3)
    topics = rng.random(10)
    values, topic = np.repeat(topics, 10), np.repeat([f"topic {n}" for n in range(10)], 10)
    clustered, single = estimate_interval(values, clusters=topic), estimate_interval(values)
    assert clustered.high[0] - clustered.low[0] > 2.5 * (single.high[0] - single.low[0])
    assert clustered.low[0] == pytest.approx(estimate_interval(topics).low[0])
    order = rng.permutation(100)
    mixed = estimate_interval(values[order], clusters=topic[order])
    assert mixed.low[0] == pytest.approx(clustered.low[0])


def test_a_cluster_that_outweighs_the_others_widens_the_interval() -> None:
    """100 single queries and a topic of 100: what the topic has by luck is half of the mean."""
    values, topic = np.r_[np.arange(100) % 2, np.full(100, 0.9)], np.r_[np.arange(100), np.full(100, 100)]
    found = estimate_interval(values, clusters=topic)
    assert found.low[0] < 0.35 and found.high[0] > 0.85


# --- the test --------------------------------------------------------------------------------------------------------


def test_the_p_value_is_students_of_the_differences_and_one_more_at_each_end() -> None:
    ones, others = np.array([0.9, 0.8, 0.5, 0.7, 0.3]), np.array([0.2, 0.3, 0.5, 0.6, 0.4])
    expected = ttest_1samp(np.r_[ones - others, -1, 1], 0).pvalue
    assert find_p_of_difference(ones, others) == pytest.approx(expected)
    assert find_p_of_difference(others, ones) == pytest.approx(expected)
    assert find_p_of_difference(ones, ones) == 1


@given(lists(sampled_from([-1.0, -0.3, 0.0, 0.0, 0.2, 1.0]), min_size=2, max_size=80), integers(1, 5))
@settings(max_examples=60)
def test_the_p_value_is_below_5_percent_where_the_interval_leaves_zero_out(figures: list[float], size: int) -> None:
    differences = np.array(figures)
    clusters = np.arange(len(differences)) // size
    found = estimate_interval(differences, clusters=clusters, ends=(-1.0, 1.0))
    is_one_sided = found.low[0] > 0 or found.high[0] < 0
    assert is_one_sided == (find_p_of_difference(differences, 0 * differences, clusters=clusters) < 0.05)


def test_the_means_of_two_groups_differ_by_welchs_test_of_each_with_one_more_at_each_end() -> None:
    rng = np.random.default_rng(6)
    values, is_first = rng.random(60), np.arange(60) < 20
    found, p = compare_means(values, is_first, np.arange(60))
    sides = [np.r_[values[side], 0, 1] for side in (is_first, ~is_first)]
    welch = ttest_ind(*sides, equal_var=False)
    assert p == pytest.approx(welch.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(welch.confidence_interval()))
    assert found.value == pytest.approx(values[:20].mean() - values[20:].mean())
    same, p = compare_means(np.ones(60), is_first, np.arange(60))
    assert same.low < same.value == 0 < same.high and p > 0.5


def test_whole_clusters_ask_for_more() -> None:
    topic = np.repeat(np.arange(6), 10)
    together = find_p_of_difference(np.ones(60), np.zeros(60), clusters=topic)
    assert 0.01 < together < 0.05 and find_p_of_difference(np.ones(60), np.zeros(60)) < 1e-15


def test_holm() -> None:
    assert correct_holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_holm(np.array([0.6, 0.7])).tolist() == [1, 1]
    assert correct_holm(np.array([0.02])).tolist() == [0.02]


def test_the_smallest_detectable_difference() -> None:
    differences = np.random.default_rng(4).normal(0, 0.5, 400)
    expected = (t.ppf(0.975, 401) + 0.841621) * np.r_[differences, -1, 1].std(ddof=1) / np.sqrt(402)
    assert detectable_difference(differences) == pytest.approx(expected, rel=1e-6)
    assert detectable_difference(np.array([0.1])) > 1
    topic = np.repeat(np.arange(40), 10)
    alike = np.repeat(differences[:40], 10)
    assert detectable_difference(alike, clusters=topic) == pytest.approx(detectable_difference(differences[:40]))


# --- systems of which the truth is known ----------------------------------------------------------------------------
