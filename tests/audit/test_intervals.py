"""Intervals against other ways to compute them."""

import numpy as np
import pytest
from scipy import stats

from querytruth.audit.pair_audit import StratumCounts, allocate_sample, estimate_total, split_by_judge
from querytruth.evaluation.statistics import (
    IntervalEstimate,
    bound_proportion,
    divide_estimates,
    estimate_proportion,
    sum_estimates,
)


def test_a_proportion_of_a_huge_pool_has_jeffreys_interval() -> None:
    found = estimate_proportion([0, 3, 40], [40, 40, 40], np.inf)
    assert found.value.tolist() == [0, 0.075, 1]
    assert found.low[1] == pytest.approx(stats.beta.ppf(0.025, 3.5, 37.5)) and found.low[0] == 0
    assert found.high[0] == pytest.approx(stats.beta.ppf(0.975, 0.5, 40.5)) and found.high[2] == 1


def test_what_is_left_over_has_the_ends_of_the_share_turned_round() -> None:
    rest = IntervalEstimate(0.25, 0.125, 0.5).complement()
    assert (rest.low, rest.value, rest.high) == (0.5, 0.75, 0.875)


def test_a_ratio_to_what_is_hardly_known_reaches_to_the_corner() -> None:
    found = divide_estimates(IntervalEstimate(4.0, 3.0, 5.0), IntervalEstimate(1.0, 0.5, 3.0))
    assert found.low == pytest.approx(3 / 3) and found.value == 4


def test_a_census_is_a_point_and_no_draw_says_nothing() -> None:
    found = estimate_proportion([3, 0], [12, 0], [12, 50])
    assert (found.low[0], found.value[0], found.high[0]) == (0.25, 0.25, 0.25)
    assert (found.low[1], found.value[1], found.high[1]) == (0, 0.5, 1)


def test_the_upper_bound_is_scipys_exact_one_sided_one() -> None:
    exact = stats.binomtest(2, 50, alternative="less").proportion_ci(0.95, "exact").high
    assert bound_proportion(2, 50) == pytest.approx(exact)
    assert bound_proportion(0, 30) > 0 and bound_proportion(0, 0) == bound_proportion(4, 4) == 1


def test_a_sum_joins_the_distances_of_the_ends() -> None:
    parts = IntervalEstimate(np.array([10.0, 20.0]), np.array([7.0, 16.0]), np.array([18.0, 26.0]))
    total = sum_estimates(parts)
    assert (total.value, total.low, total.high) == (30, 30 - 5, 30 + 10)


def test_a_ratio_of_known_divisor_is_plain_and_an_open_divisor_has_no_end() -> None:
    top = IntervalEstimate(*map(np.asarray, (4.0, 2.0, 9.0)))
    by_known = divide_estimates(top, IntervalEstimate(*map(np.asarray, (2.0, 2.0, 2.0))))
    assert (by_known.value, by_known.low, by_known.high) == pytest.approx((2, 1, 4.5))
    assert divide_estimates(top, IntervalEstimate(*map(np.asarray, (2.0, 0.0, 3.0)))).high == np.inf
    wide = divide_estimates(top, IntervalEstimate(*map(np.asarray, (2.0, 1.0, 9.0))))
    assert 0 < wide.low < wide.value < wide.high


def test_a_total_counts_each_stratum_by_its_size() -> None:
    total = estimate_total(StratumCounts([1000, 10], [100, 10], [5, 7]))
    assert total.value == pytest.approx(57) and total.low >= 7 and total.low < 57 < total.high


def test_an_allocation_has_a_floor_a_sum_and_no_more_than_there_is() -> None:
    drawn = allocate_sample([5, 10_000, 100_000], [0.5, 0.2, 0.01], 300, 20)
    assert drawn.sum() == 300 and drawn[0] == 5 and min(drawn[1:]) >= 20
    # Neyman: in proportion to size times standard deviation.
    assert (drawn[2] - 20) / (drawn[1] - 20) == pytest.approx(100_000 * np.sqrt(0.0099) / (10_000 * 0.4), rel=0.05)
    assert allocate_sample([50, 50], [0.5, 0.5], 10, 20).tolist() == [5, 5]
    assert allocate_sample([3, 4], [0.5, 0.5], 100, 2).tolist() == [3, 4]


def test_a_judge_never_takes_a_part_much_below_its_share() -> None:
    for sizes in ([900, 19_100], [10_000, 10_000], [1, 19_999], [0, 20_000]):
        drawn = split_by_judge(sizes, [0.5, 0.02], 200)
        assert drawn.sum() == 200
        assert all(got >= 200 * size / 20_000 / 1.07 - 1 for got, size in zip(drawn, sizes, strict=True))
    assert split_by_judge([900, 19_100], [0.5, 0.02], 200)[0] > 2 * 9  # more than proportional
    assert split_by_judge([3, 2], [0.5, 0.02], 200).tolist() == [3, 2]
    assert split_by_judge([0, 0], [0.5, 0.02], 200).tolist() == [0, 0]
