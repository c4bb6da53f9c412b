"""Runs from matrices of similarities."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.errors import UserError
from querytruth.evaluation import exact_search as similarity_run
from querytruth.evaluation.exact_search import run_from_similarities
from tests.evaluation.naive_metrics import ranking


def table(run: pd.DataFrame) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for query, image, value in zip(run["query_id"], run["image_id"], run["score"], strict=True):
        found.setdefault(query, {})[image] = value
    return found


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 9), st.integers(1, 12), st.sampled_from("248"))
@settings(max_examples=80)
def test_the_highest_of_each_row_ties_by_id(seed: int, rows: int, columns: int, k: int, size: str) -> None:
    matrix = np.random.default_rng(seed).integers(0, 4, (rows, columns)).astype(f"f{size}") / 4
    queries, images = [f"q{n}" for n in range(rows)], [f"{(n * 7) % 10}x" for n in range(columns)]
    run = table(run_from_similarities(matrix, queries, images, k))
    for query, line in zip(queries, matrix.tolist(), strict=True):
        whole = dict(zip(images, line, strict=True))
        assert run[query] == {image: whole[image] for image in ranking(whole)[:k]}


def test_blocks_and_the_turned_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.random.default_rng(1).random((20, 30))
    rows, columns = [f"r{n}" for n in range(20)], [f"c{n}" for n in range(30)]
    whole = table(run_from_similarities(matrix, rows, columns, 4))
    turned = table(run_from_similarities(matrix.T, columns, rows, 4))
    assert turned["c3"] == {rows[n]: matrix[n, 3] for n in np.argsort(-matrix[:, 3])[:4]}
    monkeypatch.setattr(similarity_run, "_AT_ONCE", 70)
    assert table(run_from_similarities(matrix, rows, columns, 4)) == whole


def test_broken_matrices_are_refused() -> None:
    matrix = np.zeros((2, 3))
    matrix[1, 2] = np.nan
    with pytest.raises(UserError, match=r"q2 .*similarity nan with c"):
        run_from_similarities(matrix, ["q1", "q2"], ["a", "b", "c"], 1)
    with pytest.raises(UserError, match=r"shape \(2, 3\), the ids are 3 and 2"):
        run_from_similarities(matrix, ["q1", "q2", "q3"], ["a", "b"], 1)
    with pytest.raises(UserError, match=r"a .*is there twice"):
        run_from_similarities(np.zeros((1, 2)), ["q1"], ["a", "a"], 1)
    with pytest.raises(UserError, match=r"q .*is there twice"):
        run_from_similarities(np.zeros((2, 1)), ["q", "q"], ["a"], 1)
    assert len(run_from_similarities(np.zeros((0, 2)), [], ["a", "b"], 1)) == 0
