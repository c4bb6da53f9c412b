"""Corrected figures of systems and their intervals, from single pairs, on pools whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from querytruth.audit.pair_audit import (
    PairAudit,
    StratumCounts,
    allocate_sample,
    estimate_slices,
    estimate_systems,
    estimate_total,
    estimate_truth,
    split_by_judge,
)
from querytruth.audit.pool import AuditPool, build_audit_pool, draw_pairs
from querytruth.evaluation.statistics import (
    IntervalEstimate,
    bound_proportion,
    divide_estimates,
    estimate_proportion,
    sum_estimates,
)
from tests.audit.planted_worlds import (
    JUDGED,
    JUDGES,
    PREVALENCES,
    WRONG,
    coverage,
    mean_width,
    plant_world,
    sample_alone,
    sample_judged,
    sample_with_judge,
)

QUERIES, IMAGES, DEPTH = 150, 60, 20


def plant(seed: int) -> tuple[AuditPool, pd.Series, dict[str, dict[int, set[tuple[str, str]]]]]:
    """A pool of two systems, its truth by pair, and the pairs of each system's first results by cut."""
    rng = np.random.default_rng(seed)
    queries, images = [f"q{n:03}" for n in range(QUERIES)], [f"i{n:02}" for n in range(IMAGES)]
    share = rng.beta(1, 6, (QUERIES, 1))
    relevant = rng.random((QUERIES, IMAGES)) < share
    relevant[np.arange(QUERIES), rng.integers(0, IMAGES, QUERIES)] = True
    marked = relevant & (np.cumsum(relevant, axis=1) == 1)  # the set knows the first alone
    wrong = (rng.random(relevant.shape) < 0.002) & ~relevant
    runs, tops = {}, {}
    for name, noise in (("a", 0.5), ("b", 1.5)):
        order = np.argsort(-(relevant + noise * rng.normal(size=relevant.shape)), axis=1)[:, :DEPTH]
        rows = [(queries[q], images[i], rank + 1) for q in range(QUERIES) for rank, i in enumerate(order[q])]
        runs[name] = pd.DataFrame(rows, columns=["query_id", "image_id", "rank"])
        tops[name] = {k: {(query, image) for query, image, rank in rows if rank <= k} for k in (1, 5, 10, 20)}
    judged = [(queries[q], images[i], 1) for q, i in np.argwhere(marked | wrong)]
    qrels = pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"])
    pool = build_audit_pool(qrels, pd.DataFrame({"query_id": [], "image_id": []}), runs, QUERIES, IMAGES)
    index = pd.MultiIndex.from_frame(pool.pairs[["query_id", "image_id"]])
    truth = pd.Series([bool(relevant[int(q[1:]), int(i[1:])]) for q, i in index], index)
    return pool, truth, tops


@pytest.mark.thorough
def test_intervals_of_the_systems_hold_their_true_figures() -> None:
    pool, truth, tops = plant(1)
    total = int(truth.sum())
    found = {
        name: {k: sum(bool(truth[pair]) for pair in top) for k, top in cuts.items()} for name, cuts in tops.items()
    }
    covered: dict[str, list[bool]] = {}
    for seed in range(60):
        sample = draw_pairs(pool, {"judged_relevant": 50, "first_ranks": 150, "later_ranks": 100}, seed)
        answers = truth.reindex(pd.MultiIndex.from_frame(sample[["query_id", "image_id"]]))
        figures = estimate_systems(PairAudit.from_answers(pool.pairs, answers), pool.ranks, QUERIES, DEPTH)
        for row in figures.itertuples():
            measure, k = row.metric.split("@")
            hits = found[row.system][int(k)]
            true = hits / (int(k) * QUERIES) if measure == "p" else hits / total
            covered.setdefault(f"{row.system} {row.metric}", []).append(row.low <= true <= row.high)
    means = {name: float(np.mean(values)) for name, values in covered.items()}
    assert len(means) == 16
    assert min(means.values()) >= 0.85, means


def test_a_census_gives_the_true_figures_and_the_sets_own_stand_beside_them() -> None:
    pool, truth, tops = plant(2)
    audit = PairAudit.from_answers(pool.pairs, truth)
    figures = estimate_systems(audit, pool.ranks, QUERIES, DEPTH).set_index(["system", "metric"])
    hits = sum(bool(truth[pair]) for pair in tops["a"][10])
    row = figures.loc[("a", "p@10")]
    assert row["low"] == row["value"] == row["high"] == pytest.approx(hits / (10 * QUERIES))
    marked = set(map(tuple, pool.pairs.loc[pool.pairs["relevance"] > 0, ["query_id", "image_id"]].to_numpy()))
    assert row["before"] == pytest.approx(len(marked & tops["a"][10]) / (10 * QUERIES))
    assert figures.loc[("a", "found@10"), "value"] == pytest.approx(hits / int(truth.sum()))
    wrong = audit.estimate_truth()["wrong_share"]
    assert wrong.value == pytest.approx(1 - np.mean([truth[pair] for pair in marked]))


def test_slices_are_of_aspects_with_several_values() -> None:
    pool, truth, _ = plant(2)
    ids = [f"q{n:03}" for n in range(QUERIES)]
    queries = pd.DataFrame(
        {"query_id": ids, "language": ["en", "zh", "zh"] * (QUERIES // 3), "style": "caption", "level": 1}
    )
    slices = estimate_slices(PairAudit.from_answers(pool.pairs, truth), queries)
    assert slices[["aspect", "value"]].drop_duplicates().to_numpy().tolist() == [["language", "en"], ["language", "zh"]]
    chinese = truth[truth.index.get_level_values(0).isin([q for n, q in enumerate(ids) if n % 3])]
    marked = pool.pairs.set_index(["query_id", "image_id"])["relevance"].reindex(chinese.index) > 0
    (row,) = slices[(slices["value"] == "zh") & (slices["measure"] == "missing_share")].to_dict("records")
    assert row["estimate"] == pytest.approx((chinese & ~marked).sum() / chinese.sum())
    assert row["answered"] == len(chinese)


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


@pytest.mark.parametrize("prevalence", PREVALENCES)
@pytest.mark.parametrize("judge", JUDGES)
def test_intervals_hold_planted_truths(judge: str, prevalence: float) -> None:
    """A quick look at each kind of world: `tests/evaluation/promises.py` draws more, and promises 93 to 97 of 100."""
    rng, samples = np.random.default_rng(7), 250
    covered: dict[str, list[float]] = {}
    widths = []
    for _ in range(4):
        world = plant_world(prevalence, judge, rng)
        total, right = world.total, JUDGED - WRONG
        counts, alone = sample_with_judge(world, 200, samples, rng), sample_alone(world, 200, samples, rng)
        truth = estimate_truth(sample_judged(samples, rng), counts)
        for name, estimate, planted in (
            ("alone", estimate_total(alone), total),
            ("missing", truth["missing"], total),
            ("wrong_share", truth["wrong_share"], WRONG / JUDGED),
            ("missing_share", truth["missing_share"], total / (total + right)),
            ("multiplier", truth["multiplier"], (total + right) / JUDGED),
        ):
            covered.setdefault(name, []).append(coverage(estimate, planted))
        widths.append(mean_width(truth["missing"]) / mean_width(estimate_total(alone)))
    means = {name: float(np.mean(values)) for name, values in covered.items()}
    assert all(0.91 <= value <= 0.99 for value in means.values()), means
    assert np.mean(widths) <= 1.07, widths
    if (judge, prevalence) == ("good", 0.02):
        assert np.mean(widths) <= 0.8, widths
