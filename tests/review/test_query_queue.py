"""The judgments of each query on its card, and their counts: the same whatever the order of the table's rows."""

import pandas as pd
import pytest

from querytruth.records import RowsById
from querytruth.review.query_queue import JudgmentIndex

ROWS = [
    ("q_b", "img_1", 0, "rule", "seen"),
    ("q_b", "img_2", 2, "human", None),
    ("q_a", "img_2", 1, "rule", None),
    ("q_a", "img_3", 1, "rule", "seen"),
]
SHOWN = {
    "q_b": [("img_2", 2, "human", ""), ("img_1", 0, "rule", "seen")],
    "q_a": [("img_2", 1, "rule", ""), ("img_3", 1, "rule", "seen")],
    "q_none": [],
}


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1], [0, 2, 3, 1]], ids=["published", "mixed", "torn"])
def test_a_query_has_its_judgments_and_counts(order: list[int]) -> None:
    table = pd.DataFrame(
        [ROWS[row] for row in order], columns=["query_id", "image_id", "relevance", "judged_by", "evidence"]
    )
    texts = dict.fromkeys(("query_id", "image_id", "judged_by", "evidence"), "category")
    index = JudgmentIndex(table.astype({"relevance": "int8"} | texts))
    assert {query: list(index(query)) for query in SHOWN} == SHOWN
    counts = index.count_by_grade([*SHOWN])
    assert counts.columns.tolist() == [0, 1, 2] and counts.to_numpy().tolist() == [[1, 0, 1], [0, 2, 0], [0, 0, 0]]


def test_a_set_may_have_no_judgments() -> None:
    table = pd.DataFrame(
        {name: pd.Series([], dtype="category") for name in ("query_id", "image_id", "judged_by", "evidence")}
    )
    index = JudgmentIndex(table.assign(relevance=pd.Series([], dtype="int8")))
    assert list(index("q_a")) == [] and index.count_by_grade(["q_a"]).shape == (1, 0)


@pytest.mark.parametrize("ids", [["a", "b", "d"], ["d", "a", "b"]], ids=["sorted", "not sorted"])
def test_the_row_of_an_id_is_found_without_a_dictionary(ids: list[str]) -> None:
    rows = RowsById(pd.Series(ids, dtype="str"))
    assert [rows.get(name) for name in ids] == [0, 1, 2]
    assert [rows.get(name) for name in ("", "c", "e")] == [None, None, None]
