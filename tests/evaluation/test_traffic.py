"""Figures of a drawn sample of a search log, weighted back to the whole log."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from builders.queries.search_log import assign_strata, draw_queries
from querytruth.evaluation.traffic import estimate_log_mean, measure_traffic, select_log_sample


def draw(*rows: tuple[str, float, int]) -> pd.DataFrame:
    queries = pd.DataFrame(rows, columns=["stratum", "inclusion", "searches"])
    sample = select_log_sample(queries.assign(query_id=range(len(rows))), range(len(rows)), ())
    assert sample is not None
    return sample


def test_a_rare_question_stands_for_many_and_a_frequent_search_counts_often() -> None:
    """One head query of one, two tail queries of ten: 11 questions; 100 and 10 x 2 searches."""
    sample, values = draw(("head", 1, 100), ("tail", 0.2, 2), ("tail", 0.2, 2)), np.array([0, 1, 1])
    assert estimate_log_mean(values, sample, "questions")[0] == pytest.approx(10 / 11)
    assert estimate_log_mean(values, sample, "searches")[0] == pytest.approx(20 / 120)


def test_where_the_whole_log_was_drawn_the_mean_is_known() -> None:
    sample = draw(("head", 1, 5), ("tail", 1, 1))
    assert estimate_log_mean(np.array([1.0, 0.0]), sample, "searches") == (5 / 6, 5 / 6, 5 / 6)


def test_what_was_drawn_and_not_judged_leaves_the_mean_open() -> None:
    """All 52 questions of a log were drawn, 5 are judged: the mean of these says little of the others."""
    queries = pd.DataFrame({"query_id": range(52), "stratum": "tail", "inclusion": 1.0, "searches": 1})
    sample = select_log_sample(queries, range(5), ())
    assert sample is not None
    mean, low, high = estimate_log_mean(np.array([1.0, 1, 1, 0, 0]), sample, "questions")
    assert mean == pytest.approx(0.6) and low < 0.3 and high > 0.85


def test_ten_right_queries_leave_room_for_a_wrong_one() -> None:
    mean, low, high = estimate_log_mean(np.ones(10), draw(*[("tail", 0.01, 1)] * 10), "questions")
    assert mean == pytest.approx(1) and high == pytest.approx(1)
    assert 0.025**0.1 - 0.01 <= low <= 0.025**0.1 + 0.01, "Clopper and Pearson's of ten hits"


def test_an_interval_is_that_of_korn_and_graubard() -> None:
    """Survey Methodology 24 (1998): Clopper and Pearson's with p (1 - p) / variance draws, fewer where the degrees of
    freedom are; the variance is that of a stratified mean (Cochran)."""
    sample, values = draw(*[("head", 0.5, 1)] * 3, *[("tail", 0.1, 1)] * 4), np.array([1, 1, 0, 1, 0, 0, 1])
    mean, shares, counts = 24 / 46, np.array([6, 40]) / 46, np.array([3, 4])
    parts = shares**2 * (1 - np.array([0.5, 0.1])) * (1 / 3) / counts
    freedom = parts.sum() ** 2 / (parts**2 / (counts - 1)).sum()
    draws = mean * (1 - mean) / parts.sum() * (stats.t.ppf(0.975, 6) / stats.t.ppf(0.975, freedom)) ** 2
    low = stats.beta.ppf(0.025, draws * mean, draws * (1 - mean) + 1)
    high = stats.beta.ppf(0.975, draws * mean + 1, draws * (1 - mean))
    assert estimate_log_mean(values, sample, "questions") == pytest.approx((mean, low, high))


def test_figures_are_weighted_only_where_every_query_knows_its_chances() -> None:
    per_query = pd.DataFrame({"hit@1": [1.0, 0.0]}, index=["a", "b"])
    queries = pd.DataFrame(
        {"query_id": ["a", "b"], "stratum": ["head", "tail"], "inclusion": [1, 0.5], "searches": [3, 1]}
    )
    found = measure_traffic(per_query, select_log_sample(queries, ["a", "b"], ()), ["hit@1"])
    assert found[["metric", "over"]].values.tolist() == [["hit@1", "questions"], ["hit@1", "searches"]]
    assert found["value"].tolist() == pytest.approx([1 / 3, 3 / 5])
    assert select_log_sample(queries.assign(inclusion=[1, None]), ["a", "b"], ()) is None
    assert select_log_sample(queries.drop(columns="searches"), ["a", "b"], ()) is None
    assert measure_traffic(per_query, None, ["hit@1"]).empty


def test_a_stratum_weighs_what_it_has_in_the_log_and_a_query_without_an_answer_takes_its_share_along() -> None:
    """The tail has 40 searches; of the two that were drawn, one of 6 and one of 2, the first has no answer."""
    ids, names = ["a", "b", "c"], ["head", "tail", "tail"]
    columns = {"query_id": ids, "stratum": names, "inclusion": [1, 0.2, 0.2], "searches": [30, 6, 2]}
    queries = pd.DataFrame(columns)
    strata = [{"stratum": "head", "queries": 1, "searches": 30}, {"stratum": "tail", "queries": 10, "searches": 40}]
    sample = select_log_sample(queries, ids, strata)
    found = measure_traffic(pd.DataFrame({"hit@1": [0.0, 1.0]}, index=["a", "c"]), sample, ["hit@1"])
    assert found["value"].tolist() == pytest.approx([5 / 6, 10 / 40])


@pytest.mark.slow
@pytest.mark.parametrize("over", ["questions", "searches"])
@pytest.mark.parametrize("share", ["even", "head easy", "head hard", "graded"])
def test_the_interval_holds_in_drawn_logs(over: str, share: str) -> None:
    """1,000 to 8,000 questions asked by Zipf's law, of which 60 to 200 are drawn."""
    rng = np.random.default_rng(7)
    for size, slope, count in ((8000, 0.8, 200), (3000, 1.3, 100), (1000, 1.0, 60)):
        searches = np.maximum(1, size * 5 / np.arange(1, size + 1) ** slope).astype(int)
        log = pd.DataFrame({"query_id": [f"q{number}" for number in range(size)], "searches": searches})
        log["stratum"] = assign_strata(log)
        totals = log.groupby("stratum")["searches"].agg(queries="count", searches="sum").reset_index()
        easy = {"head easy": (0.98, 0.8, 0.4), "head hard": (0.3, 0.6, 0.9), "even": (0.9,) * 3, "graded": (0.5,) * 3}
        chance = log["stratum"].map(dict(zip(("head", "torso", "tail"), easy[share], strict=True))).to_numpy()
        weights = searches if over == "searches" else np.ones(size)
        held = 0
        for seed in range(150):
            values = (rng.random(size) < chance) * (rng.beta(2, 1, size) if share == "graded" else 1.0)
            drawn = draw_queries(log, count, seed)
            sample = select_log_sample(drawn, drawn["query_id"], totals.to_dict("records"))
            assert sample is not None
            _, low, high = estimate_log_mean(values[drawn.index], sample, over)
            held += low <= (weights @ values) / weights.sum() <= high
        assert held / 150 >= 0.95 - 3 * (0.05 * 0.95 / 150) ** 0.5, (size, count)
