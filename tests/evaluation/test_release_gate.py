"""The gate: worked by hand, and by simulating systems of which the truth is known."""

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from querytruth.array_types import FloatArray
from querytruth.evaluation.release_gate import GateCheck, GatedFigure, check_gate, combine_verdicts, find_p_values
from querytruth.evaluation.sample_size import plan_for_discordance


def check(candidate: FloatArray, baseline: FloatArray, margin: float, clusters: FloatArray | None = None) -> GateCheck:
    (found,) = check_gate([GatedFigure("hit@1", "", candidate, baseline, margin, clusters)])
    return found


def draw_hits(
    rng: np.random.Generator, queries: int, loss: float, discordance: float, cluster_size: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Hits of two systems that differ on a share of the queries; the queries of a cluster share half their luck."""
    shared = np.repeat(rng.random(-(-queries // cluster_size)), cluster_size)[:queries]
    luck = np.where(rng.random(queries) < 0.5, shared, rng.random(queries)) if cluster_size > 1 else shared
    wins, losses = luck < (discordance - loss) / 2, luck > 1 - (discordance + loss) / 2
    both = rng.random(queries) < 0.5
    return (both & ~losses | wins).astype(float), (both & ~wins | losses).astype(float)


def count_verdicts(
    gates: int, queries: int, loss: float, margin: float, discordance: float = 0.2, cluster_size: int = 1
) -> dict[str, int]:
    """How many simulated gates end how."""
    rng = np.random.default_rng(7)
    clusters = np.arange(queries) // cluster_size if cluster_size > 1 else None
    verdicts = []
    for _ in range(gates):
        candidate, baseline = draw_hits(rng, queries, loss, discordance, cluster_size)
        verdicts.append(check(candidate, baseline, margin, clusters).verdict)
    return {name: verdicts.count(name) for name in ("PASS", "FAIL", "UNDECIDED")}


def test_the_p_values_are_those_of_students_test_with_one_more_difference() -> None:
    """One more query that lost all against a pass, half of one that won all against a fail."""
    rng = np.random.default_rng(1)
    candidate, baseline = rng.random(80), rng.random(80)
    found, differences = check(candidate, baseline, 0.05), candidate - baseline
    lost = ttest_1samp(np.r_[differences, -1.0], -0.05, alternative="greater")
    mean = (differences.sum() + 0.5) / 80.5
    error = np.sqrt((((differences - mean) ** 2).sum() + (0.5 * (1 - mean)) ** 2) * 81 / 80) / 80.5
    freedom = 80.5**2 / 80.25 - 1
    won = student.cdf((mean + 0.05) / error, freedom)
    assert (found.p_not_worse, found.p_worse) == pytest.approx((lost.pvalue, won))
    assert found.low == pytest.approx(lost.confidence_interval(0.95).low)
    assert found.high == pytest.approx(mean + student.ppf(0.95, freedom) * error)


def test_a_search_that_lost_a_third_of_seven_topics_fails() -> None:
    rng = np.random.default_rng(4)
    topics, lost = np.arange(70) // 10, rng.random(70) < 0.35
    found = check(np.where(lost, 0.0, 1.0), np.ones(70), 0.02, topics)
    assert (found.verdict, found.clusters) == ("FAIL", 7)


def test_a_small_loss_of_all_queries_does_not_fail_where_a_gain_may_be_unseen() -> None:
    baseline = np.full(40, 0.9)
    assert check(baseline - 0.03, baseline, 0.02).verdict == "UNDECIDED"  # one more that gains all: the mean is above


def test_the_three_verdicts() -> None:
    rng = np.random.default_rng(2)
    baseline = rng.random(2000)
    better, worse = baseline + rng.normal(0.03, 0.1, 2000), baseline - rng.normal(0.05, 0.1, 2000)
    assert check(better, baseline, 0.01).verdict == "PASS"
    assert check(worse, baseline, 0.01).verdict == "FAIL"
    assert check(better[:5], baseline[:5], 0.01).verdict == "UNDECIDED"
    assert combine_verdicts(["PASS", "FAIL", "UNDECIDED"]) == "FAIL"
    assert combine_verdicts(["PASS", "UNDECIDED"]) == "UNDECIDED"
    assert combine_verdicts(["PASS", "PASS"]) == "PASS"


def test_identical_runs_have_a_verdict_of_their_own_and_the_number_that_decides() -> None:
    same = np.ones(100)
    found = check(same, same, 0.01)  # a loss of 1% changes no query of 100 in 37 of 100 cases
    assert (found.verdict, found.is_identical) == ("IDENTICAL", True)
    assert -found.low == pytest.approx((1 + student.ppf(0.95, 100)) / 101)  # the rule of three, nearly
    assert found.further_queries == pytest.approx((1 + student.ppf(0.95, 264)) / 0.01 - 101, abs=1)
    assert check(np.ones(302), np.ones(302), 0.01).verdict == "PASS"
    topics = check(np.ones(200), np.ones(200), 0.02, np.arange(200) // 20)  # no failed topic of 10: 82 of 100 cases
    assert (topics.verdict, topics.clusters) == ("IDENTICAL", 10)
    assert -topics.low == pytest.approx((1 + student.ppf(0.95, 10)) / 11)
    assert topics.further_queries == pytest.approx(20 * (1 + student.ppf(0.95, 132)) / 0.02 - 220, abs=1)
    alone = check(np.ones(1), np.zeros(1), 0.01)
    assert alone.verdict == "UNDECIDED" and alone.further_queries is None
    assert combine_verdicts(["PASS", "IDENTICAL"]) == "IDENTICAL" and combine_verdicts(["PASS"]) == "PASS"


def test_a_loss_that_comes_by_topic_hardly_ever_passes() -> None:
    """One topic in 50 fails as a whole, which is the margin: of 10 topics of 20 queries, none in 82 of 100 cases."""
    rng = np.random.default_rng(6)
    for topics, size in ((10, 20), (50, 20), (200, 5)):
        clusters = np.repeat(np.arange(topics), size)
        noise = rng.choice([-1.0, 0.0, 1.0], (topics * size, 500), p=[0.05, 0.9, 0.05])
        fails = np.repeat(rng.random((topics, 500)) < 0.02, size, axis=0)
        assert (find_p_values(np.where(fails, -1.0, 0.0), 0.02, clusters)[0] <= 0.05).mean() <= 0.05
        assert (find_p_values(np.where(fails, -1.0, noise), 0.02, clusters)[0] <= 0.05).mean() <= 0.05


def test_the_correction_is_for_all_that_is_gated() -> None:
    rng = np.random.default_rng(3)
    figures = [GatedFigure(f"m{n}", "", rng.random(60) - 0.02 * n, rng.random(60), 0.05) for n in range(3)]
    alone = sorted(check_gate([figure])[0].p_worse for figure in figures)
    together = sorted(one.p_worse for one in check_gate(figures))
    assert together[0] == pytest.approx(min(1, 3 * alone[0])) and together[0] > alone[0]


@pytest.mark.thorough
def test_as_many_further_queries_as_stated_decide() -> None:
    """Four of five gates on the stated number of queries end as the measured difference points."""
    rng = np.random.default_rng(5)
    candidate, baseline = draw_hits(rng, 200, 0.06, 0.2)
    first = check(candidate, baseline, 0.01)
    assert first.verdict == "UNDECIDED" and first.further_queries
    share = abs(candidate - baseline).mean()
    counts = count_verdicts(400, 200 + first.further_queries, -first.difference, 0.01, float(share))
    assert 0.74 <= max(counts["FAIL"], counts["PASS"]) / 400 <= 0.86


def test_equal_systems_hardly_ever_fail() -> None:
    assert count_verdicts(200, 200, 0.0, 0.01)["FAIL"] <= 0.05 * 200
    assert count_verdicts(200, 200, 0.05, 0.01)["PASS"] <= 0.05 * 200


def count_at_planned_size(power: float) -> dict[str, int]:
    """A loss of five points on as many queries as plan-size names for it, less the margin of one."""
    return count_verdicts(60, plan_for_discordance(0.2, 0.05 - 0.01, power).queries, 0.05, 0.01)


def test_a_loss_of_five_points_is_stopped_at_the_planned_size() -> None:
    assert count_at_planned_size(0.8)["PASS"] <= 3
    assert count_at_planned_size(0.95)["FAIL"] >= 57
