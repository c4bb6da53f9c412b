"""Figures of a drawn sample of a search log, weighted back to the whole log."""

import numpy as np
import pandas as pd
import pytest

from builders.queries.frequency_strata import assign_strata, draw_queries
from querytruth.evaluation.traffic import estimate_log_mean, measure_traffic


def draw(*rows: tuple[str, float, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["stratum", "inclusion", "searches"])


def test_a_rare_question_stands_for_many_and_a_frequent_search_counts_often() -> None:
    """One head query of one, two tail queries of ten: 11 questions; 100 and 10 x 2 searches."""
    sample, values = draw(("head", 1, 100), ("tail", 0.2, 2), ("tail", 0.2, 2)), np.array([0, 1, 1])
    assert estimate_log_mean(values, sample, "questions")[0] == pytest.approx(10 / 11)
    assert estimate_log_mean(values, sample, "searches")[0] == pytest.approx(20 / 120)


def test_where_the_whole_log_was_drawn_the_mean_is_known() -> None:
    sample = draw(("head", 1, 5), ("tail", 1, 1))
    assert estimate_log_mean(np.array([1.0, 0.0]), sample, "searches") == (5 / 6, 5 / 6, 5 / 6)


def test_ten_right_queries_leave_room_for_a_wrong_one() -> None:
    mean, low, high = estimate_log_mean(np.ones(10), draw(*[("tail", 0.01, 1)] * 10), "questions")
    assert mean == pytest.approx(1) and high == pytest.approx(1)
    assert 0.025**0.1 - 0.01 <= low <= 0.025**0.1 + 0.01, "Clopper and Pearson's of ten hits"


def test_figures_are_weighted_only_where_every_query_knows_its_chances() -> None:
    per_query = pd.DataFrame({"hit@1": [1.0, 0.0]}, index=["a", "b"])
    queries = draw(("head", 1, 3), ("tail", 0.5, 1)).assign(query_id=["a", "b"])
    found = measure_traffic(per_query, queries, ["hit@1"])
    assert found[["metric", "over"]].values.tolist() == [["hit@1", "questions"], ["hit@1", "searches"]]
    assert found["value"].tolist() == pytest.approx([1 / 3, 3 / 5])
    assert measure_traffic(per_query, queries.assign(inclusion=[1, None]), ["hit@1"]).empty
    assert measure_traffic(per_query, queries.drop(columns="searches"), ["hit@1"]).empty
    assert measure_traffic(per_query, None, ["hit@1"]).empty


@pytest.mark.slow
@pytest.mark.parametrize("over", ["questions", "searches"])
@pytest.mark.parametrize("share", ["even", "head easy", "graded"])
def test_the_interval_holds_in_drawn_logs(over: str, share: str) -> None:
    """3,000 and 20,000 questions asked by Zipf's law, of which 60 and 200 are drawn."""
    rng = np.random.default_rng(7)
    for size, slope, count in ((3000, 1.1, 60), (3000, 1.1, 200), (20_000, 0.8, 200)):
        searches = np.maximum(1, size * 5 / np.arange(1, size + 1) ** slope).astype(int)
        log = pd.DataFrame({"query_id": [f"q{number}" for number in range(size)], "searches": searches})
        log["stratum"] = assign_strata(log)
        chance = {"even": 0.9, "graded": 0.5}.get(share, log["stratum"].map({"head": 0.98, "torso": 0.8, "tail": 0.4}))
        held = 0
        for seed in range(300):
            values = (rng.random(size) < chance) * (rng.beta(2, 1, size) if share == "graded" else 1.0)
            drawn = draw_queries(log, count, seed)
            _, low, high = estimate_log_mean(values[drawn.index], drawn, over)
            weights = searches if over == "searches" else np.ones(size)
            held += low <= (weights @ values) / weights.sum() <= high
        assert held / 300 >= 0.95 - 3 * (0.05 * 0.95 / 300) ** 0.5, (size, count)
