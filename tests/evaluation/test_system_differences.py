"""Leaked queries against clean ones, with Welch's test as SciPy has it as the oracle."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from querytruth.evaluation.system_differences import compare_leaked, compare_leaked_of_systems, find_leaked_warnings


def draw(gain: float, count: int = 80) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(5)
    index = pd.Index([f"q{row}" for row in range(count)])
    overlap = pd.Series(np.where(np.arange(count) % 3 == 0, "leaked", "clean"), index)
    values = rng.normal(0.5, 0.2, count) + gain * (overlap == "leaked")
    return pd.DataFrame({"m": values, "n": rng.random(count)}, index=index), overlap


def test_the_p_value_is_that_of_scipy() -> None:
    figures, overlap = draw(0.08)
    row = compare_leaked(figures, overlap, ["m"]).iloc[0]
    sides = [figures.loc[overlap == name, "m"].to_numpy() for name in ("leaked", "clean")]
    oracle = ttest_ind(*(np.r_[side, 0, 1] for side in sides), equal_var=False)  # one more at each end
    assert row["difference"] == np.mean(sides[0]) - np.mean(sides[1])
    assert row["p"] == pytest.approx(oracle.pvalue)
    assert row["low"] < row["difference"] < row["high"]


def test_a_system_that_knows_the_leaked_queries_is_found_and_another_is_not() -> None:
    known, overlap = draw(0.4)
    fair, _ = draw(0.0)
    rows = compare_leaked_of_systems({"known": known, "fair": fair}, overlap, ["m", "n"])
    assert rows["system"].unique().tolist() == ["known", "fair", "known minus fair"]
    p = rows[rows["metric"] == "m"].set_index("system")["p"]
    assert p["known"] <= 0.001 and p["fair"] > 0.05 and p["known minus fair"] <= 0.001
    assert [one.metric for one in find_leaked_warnings(compare_leaked(known, overlap, ["m", "n"]))] == ["m"]
    assert find_leaked_warnings(compare_leaked(known, overlap.map({"leaked": "clean", "clean": "leaked"}), ["m"])) == []


def test_queries_of_one_cluster_are_one_piece_of_evidence() -> None:
    figures, overlap = draw(0.4, 16)
    repeated = pd.concat([figures.set_axis(figures.index + suffix) for suffix in "abcdefgh"])
    labels = pd.concat([overlap.set_axis(overlap.index + suffix) for suffix in "abcdefgh"])
    alone = compare_leaked(figures, overlap, ["n"]).iloc[0]["p"]
    together = compare_leaked(repeated, labels, ["n"], clusters=repeated.index.str[:-1].to_numpy()).iloc[0]["p"]
    assert together == pytest.approx(alone)
    assert compare_leaked(repeated, labels, ["n"]).iloc[0]["p"] < alone


def test_too_few_queries_of_a_side_or_no_overlap_give_no_row() -> None:
    figures, overlap = draw(0.4, 12)
    assert compare_leaked(figures, overlap, ["m"]).empty
    assert compare_leaked(figures, None, ["m"]).empty


def test_two_leaked_topics_say_next_to_nothing() -> None:
    """Leaked queries of two topics, all right: what these two have by luck is all of the difference."""
    _, overlap = draw(0.0, 90)
    figures = pd.DataFrame({"m": np.where(overlap == "leaked", 1.0, 0.5)}, index=overlap.index)
    topics = np.where(overlap == "leaked", np.arange(90) % 2, np.arange(90))
    row = compare_leaked(figures, overlap, ["m"], clusters=topics).iloc[0]
    assert row["high"] - row["low"] > 0.5
