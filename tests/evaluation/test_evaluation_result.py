"""The spread of a system's figures over the phrasings of one question."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.evaluation.evaluation_result import (
    SPREAD_COLUMNS,
    compare_phrasing_spread,
    measure_phrasing_spread,
    number_questions,
)

QUERIES = pd.DataFrame(
    [
        ("q1", "dog", "en", ["dog"], None, None),
        ("q2", "an image of a dog", "en", ["dog"], None, None),
        ("q3", "show me dogs", "en", ["dog"], None, None),
        ("q4", "狗", "zh", ["dog"], None, None),
        ("q5", "two dogs", "en", ["dog"], "count/2", None),
        ("q6", "exactly two dogs", "en", ["dog"], "count/2", None),
        ("q7", "a dog left of a cat", "en", ["dog", "cat"], "spatial/left", None),
        ("q8", "a cat left of a dog", "en", ["cat", "dog"], "spatial/left", None),
        ("q9", "a caption", "en", None, None, "img_1"),
        ("qa", "another caption", "en", None, None, "img_1"),
    ],
    columns=["query_id", "text", "language", "labels", "family", "source_image_id"],
).assign(style="word", topic=None)


def figures(**values: float) -> pd.DataFrame:
    table = pd.DataFrame({"hit@1": values, "p@1": {name: value / 2 for name, value in values.items()}})
    return table.rename_axis("query_id")


ALL = figures(q1=1, q2=0, q3=1, q4=0, q5=0.5, q6=0.5, q7=1, q8=0, q9=1, qa=0)


def test_a_question_is_one_meaning_in_one_language() -> None:
    question = number_questions(QUERIES, ALL.index)
    assert question.to_dict() == {"q1": 0, "q2": 0, "q3": 0, "q5": 1, "q6": 1}
    assert number_questions(QUERIES, ALL.index.drop(["q1", "q2"])).to_dict() == {"q5": 0, "q6": 0}, "one is left of dog"


def test_means_over_the_questions() -> None:
    rows = measure_phrasing_spread(ALL, QUERIES, ["hit@1", "p@1"]).set_index("metric")
    assert rows.loc["hit@1", ["questions", "queries"]].tolist() == [2, 5]
    expected = [(0 + 0.5) / 2, (2 / 3 + 0.5) / 2, (1 + 0.5) / 2, (1 + 0) / 2]
    assert rows.loc["hit@1", ["worst", "mean", "best", "spread"]].tolist() == pytest.approx(expected)
    assert rows.loc["p@1", "spread"] == pytest.approx(0.25)
    assert rows.loc["hit@1", "low"] <= 0.5 <= rows.loc["hit@1", "high"]


@pytest.mark.parametrize("queries", [None, QUERIES.drop(columns="labels"), QUERIES.iloc[6:]])
def test_without_phrasings_there_are_no_rows(queries: pd.DataFrame | None) -> None:
    rows = measure_phrasing_spread(ALL, queries, ["hit@1"])
    assert list(rows.columns) == SPREAD_COLUMNS and rows.empty
    assert compare_phrasing_spread({"a": ALL, "b": ALL}, queries, ["hit@1"]).empty


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=4), min_size=1, max_size=5))
def test_the_mean_lies_between_worst_and_best(values: list[list[float]]) -> None:
    rows = [(f"q{n}_{m}", [str(n)], value) for n, texts in enumerate(values) for m, value in enumerate(texts)]
    queries = pd.DataFrame(rows, columns=["query_id", "labels", "value"]).assign(language="en", text="", style="word")
    per_query = queries.set_index("query_id")[["value"]].rename(columns={"value": "ap"})
    (row,) = measure_phrasing_spread(per_query, queries, ["ap"]).to_dict("records")
    assert row["worst"] - 1e-12 <= row["mean"] <= row["best"] + 1e-12
    assert row["spread"] == pytest.approx(np.mean([max(texts) - min(texts) for texts in values]))
    assert (row["questions"], row["queries"]) == (len(values), len(queries))


def test_a_system_that_words_unsettle_is_told_from_a_calm_one() -> None:
    ids = [(f"q{n:03}{side}", n, side) for n in range(60) for side in "ab"]
    queries = pd.DataFrame(
        [(name, [str(n)]) for name, n, _ in ids], columns=["query_id", "labels"]
    ).assign(language="en", text="", style="word")  # fmt: skip
    rng = np.random.default_rng(1)
    calm = {name: float(n % 2) for name, n, _ in ids}
    nervous = {name: float(rng.integers(0, 2)) for name, _, _ in ids}
    rows = compare_phrasing_spread({"nervous": figures(**nervous), "calm": figures(**calm)}, queries, ["hit@1"])
    (row,) = rows.to_dict("records")
    assert (row["one"], row["other"], row["questions"]) == ("nervous", "calm", 60)
    assert row["spread_other"] == 0 and row["difference"] == row["spread_one"] > 0.3
    assert row["low"] > 0 and row["p"] == row["p_holm"] < 0.001
    same = compare_phrasing_spread({"a": figures(**nervous), "b": figures(**nervous)}, queries, ["hit@1"])
    assert same.loc[0, "difference"] == 0 and same.loc[0, "p"] == 1
