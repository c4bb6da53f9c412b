"""Ids as numbers and the order of a run: the same by the fast ways, for tables in order, as by the slow ones."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.ground_truth import encode_ids, index_qrels
from querytruth.evaluation.ranking import rank_run

QRELS = pd.DataFrame({"query_id": ["q1", "q2", "q3"], "image_id": ["a", "b", "c"], "relevance": [1, 1, 1]})
ROWS = [("q2", "a", 3.0), ("q2", "b", 4.0), ("q1", "c", 2.0), ("q1", "a", 5.0), ("q3", "c", 1.0), ("q3", "b", 0.5)]


def make_run(rows: list[tuple[str, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"])


@pytest.mark.parametrize("length", [1, 8, 22, 64, 70])
@pytest.mark.parametrize("each", [1, 40], ids=["mixed", "together"])
def test_ids_are_encoded_by_first_appearance(length: int, each: int) -> None:
    drawn = np.random.default_rng(length).integers(0, 700, 3000 // each).repeat(each)
    texts = [f"{number:0{length}}"[-length:] for number in drawn.tolist()]
    for ids in (texts, [*texts[:-1], None], [*texts[:-1], "another"], texts[:5], []):
        given = pa.array(ids, pa.large_string())
        codes, distinct = encode_ids(given)
        expected = given.dictionary_encode()
        assert distinct.equals(expected.dictionary) and codes.tolist() == expected.indices.fill_null(-1).to_pylist()


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [2, 3, 0, 1, 4], [0, 2, 1, 3, 5, 4], [5, 0, 3, 4, 2, 1]])
def test_the_rows_of_a_run_may_be_in_any_order(order: list[int]) -> None:
    ranked = rank_run(make_run([ROWS[row] for row in order]), index_qrels(QRELS))
    rows = zip(ranked.query, ranked.rank, ranked.image_ids.take(pa.array(ranked.image_code)).to_pylist(), strict=True)
    shown = [(0, 1, "a"), (0, 2, "c"), (1, 1, "b"), (1, 2, "a"), (2, 1, "c"), (2, 2, "b")]
    assert [(int(query), int(rank), image) for query, rank, image in rows] == shown[: len(order)]


@pytest.mark.parametrize("place", range(7))
def test_an_image_twice_is_found_wherever_it_is(place: int) -> None:
    rows = [*ROWS[:place], ("q1", "c", 1.5), *ROWS[place:]]
    with pytest.raises(UserError, match="image c is returned twice"):
        rank_run(make_run(rows), index_qrels(QRELS))
