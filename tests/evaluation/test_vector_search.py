"""Exact search against a sum written out, what an index loses, and runs from matrices of similarities."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.array_types import Vectors
from querytruth.errors import UserError
from querytruth.evaluation import vector_search as searching
from querytruth.evaluation.vector_search import (
    NearestImages,
    build_vector_gallery,
    run_from_similarities,
    search_exact,
    search_with_index,
)
from tests.evaluation.naive_metrics import ranking


def unit(vectors: np.ndarray) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def names(count: int) -> list[str]:
    return [f"img_{(n * 7919) % 100_003:05}" for n in range(count)]


def slowly(queries: Vectors, vectors: Vectors, ids: list[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
    places, scores = [], []
    for query in queries.astype(np.float64):
        found = [(round(float(query @ vector), 6), ids[n], n) for n, vector in enumerate(vectors.astype(np.float64))]
        found.sort(reverse=True)
        places.append([n for _, _, n in found[:k]])
        scores.append([value for value, _, _ in found[:k]])
    return places, scores


def found(queries: Vectors, vectors: Vectors, ids: list[str], k: int, threads: int = 1) -> NearestImages:
    return search_exact(queries, build_vector_gallery(vectors, ids), k, threads=threads)


@given(st.integers(0, 2**31), st.integers(1, 60), st.integers(1, 80), st.sampled_from([2, 16]))
@settings(max_examples=60)
def test_the_nearest_images_in_order_ties_by_id(seed: int, count: int, k: int, dimensions: int) -> None:
    """Whole numbers for coordinates: many images have the same score, and some the same vector."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, (count, dimensions)).astype(np.float32)
    queries = rng.integers(-1, 2, (5, dimensions)).astype(np.float32)
    ids = names(count)
    places, scores = slowly(queries, vectors, ids, k)
    result = found(queries, vectors, ids, k)
    assert result.places.tolist() == places
    assert result.scores.tolist() == scores


@pytest.mark.parametrize("block", [8192, 70])
def test_ties_at_the_cut_are_seen_beyond_what_faiss_proposes(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Five hundred copies of one vector, behind ten that are nearer: of the copies the highest ids come first, wherever
    they lie."""
    monkeypatch.setattr(searching, "_BLOCK", block)
    rng = np.random.default_rng(1)
    vectors = unit(rng.normal(size=(600, 32)))
    queries = unit(vectors[:3])
    vectors[50:550] = unit(vectors[:1] + 0.05 * vectors[1:2])
    vectors[580:590] = unit(vectors[:1] + 0.003 * rng.normal(size=(10, 32)))
    ids = names(600)
    result = found(queries, vectors, ids, 20)
    places, scores = slowly(queries, vectors, ids, 20)
    assert result.places.tolist() == places
    assert result.scores.tolist() == scores
    highest = sorted(ids[50:550], reverse=True)[:9]
    assert [ids[n] for n in result.places[0]][11:] == highest, "after the query itself and the ten"
    assert len(set(result.scores[0].tolist())) == 12


def test_batches_threads_and_the_order_of_the_gallery_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    vectors, queries, ids = unit(rng.normal(size=(3000, 64))), unit(rng.normal(size=(40, 64))), names(3000)
    vectors[1000:2000] = vectors[:1000]
    whole = found(queries, vectors, ids, 20)
    named = [[ids[n] for n in row] for row in whole.places]
    order = rng.permutation(3000)
    mixed = found(queries, vectors[order], [ids[n] for n in order], 20, threads=2)
    assert [[ids[order[n]] for n in row] for row in mixed.places] == named
    assert mixed.scores.tolist() == whole.scores.tolist()
    monkeypatch.setattr(searching, "_QUERIES", 7)
    monkeypatch.setattr(searching, "_FEW", 3)
    monkeypatch.setattr(searching, "_BLOCK", 100)
    assert found(queries, vectors, ids, 20).places.tolist() == whole.places.tolist()


def test_broken_vectors_are_refused() -> None:
    broken = np.ones((3, 4), np.float32)
    broken[1, 2] = np.nan
    with pytest.raises(UserError, match=r"b .*has a vector that is not finite"):
        build_vector_gallery(broken, ["a", "b", "c"])
    with pytest.raises(UserError, match=r"a .*occurs twice"):
        build_vector_gallery(np.ones((2, 4), np.float32), ["a", "a"])
    with pytest.raises(ValueError, match="2 vectors for 1 ids"):
        build_vector_gallery(np.ones((2, 4), np.float32), ["a"])
    with pytest.raises(UserError, match=r"query in row 1 .*not finite"):
        found(broken[1:2], np.ones((2, 4), np.float32), ["a", "b"], 1)
    with pytest.raises(UserError, match=r"queries .*have 3 dimensions, but the vectors of the images have 4"):
        found(np.ones((1, 3), np.float32), np.ones((2, 4), np.float32), ["a", "b"], 1)
    with pytest.raises(UserError, match="contains no vectors"):
        build_vector_gallery(np.ones((0, 4), np.float32), [])
    with pytest.raises(UserError, match="too long to be compared"):
        found(np.full((1, 4), 1e9, np.float32), np.full((30, 4), 1e9, np.float32), names(30), 1)


# --- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["exact", "ivf", "hnsw"])
def test_an_index_scores_as_the_exact_search_and_tells_what_it_missed(index: str) -> None:
    rng = np.random.default_rng(4)
    vectors, ids = unit(rng.normal(size=(4000, 16))), names(4000)
    queries = unit(rng.normal(size=(50, 16)))
    gallery, query_ids = build_vector_gallery(vectors, ids), [f"q{n}" for n in range(50)]
    result, loss = search_with_index(index, queries, query_ids, gallery, 10, threads=1)
    exact = search_exact(queries, gallery, 10, threads=1)
    shared = [
        len({*mine} & {*theirs}) for mine, theirs in zip(result.places.tolist(), exact.places.tolist(), strict=True)
    ]
    assert loss.query_count == 50
    assert loss.missed_share == pytest.approx(1 - sum(shared) / 500)
    assert loss.missed_share == 0 if index == "exact" else loss.missed_share < 0.3
    known = {(row, n): s for row in range(50) for n, s in zip(exact.places[row], exact.scores[row], strict=True)}
    for row in range(50):
        for place, score in zip(result.places[row].tolist(), result.scores[row].tolist(), strict=True):
            assert known.get((row, place), score) == score
        assert result.scores[row].tolist() == sorted(result.scores[row].tolist(), reverse=True)


@pytest.mark.parametrize("index", ["ivf", "hnsw"])
def test_an_index_does_not_depend_on_the_order_of_the_gallery(index: str) -> None:
    rng = np.random.default_rng(5)
    vectors, queries, ids = unit(rng.normal(size=(2000, 16))), unit(rng.normal(size=(20, 16))), names(2000)
    order = rng.permutation(2000)
    named = []
    for rows in (np.arange(2000), order):
        mine = [ids[n] for n in rows]
        gallery = build_vector_gallery(vectors[rows], mine)
        result, loss = search_with_index(index, queries, [f"q{n}" for n in range(20)], gallery, 5, threads=1)
        named.append(([[mine[n] for n in row] for row in result.places], loss))
    assert named[0] == named[1]


def test_each_name_builds_its_own_index(monkeypatch: pytest.MonkeyPatch) -> None:
    gallery, built = build_vector_gallery(unit(np.eye(3)), ["a", "b", "c"]), list[str]()
    for name, build in (("ivf", searching._ivf), ("hnsw", searching._hnsw)):
        monkeypatch.setattr(searching, f"_{name}", lambda *given, n=name, b=build: (built.append(n), b(*given))[1])
    for name in ("ivf", "hnsw"):
        search_with_index(name, unit(np.eye(3)), ["x", "y", "z"], gallery, 2, threads=1)
    assert built == ["ivf", "hnsw"]


def test_few_images_and_an_unknown_index() -> None:
    vectors = unit(np.eye(3))
    gallery = build_vector_gallery(vectors, ["a", "b", "c"])
    for index in ("ivf", "hnsw"):
        result, loss = search_with_index(index, vectors, ["x", "y", "z"], gallery, 2, threads=1)
        assert result.places[:, 0].tolist() == [0, 1, 2]
        assert loss.missed_share == 0
    with pytest.raises(UserError, match=r"hnws .*did you mean 'hnsw'\?"):
        search_with_index("hnws", vectors, ["x", "y", "z"], gallery, 2, threads=1)


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
    monkeypatch.setattr(searching, "_AT_ONCE", 70)
    assert table(run_from_similarities(matrix, rows, columns, 4)) == whole


def test_broken_matrices_are_refused() -> None:
    matrix = np.zeros((2, 3))
    matrix[1, 2] = np.nan
    with pytest.raises(UserError, match=r"q2 .*similarity nan with c"):
        run_from_similarities(matrix, ["q1", "q2"], ["a", "b", "c"], 1)
    with pytest.raises(UserError, match=r"shape \(2, 3\), but there are 3 and 2 ids"):
        run_from_similarities(matrix, ["q1", "q2", "q3"], ["a", "b"], 1)
    with pytest.raises(UserError, match=r"a .*occurs twice"):
        run_from_similarities(np.zeros((1, 2)), ["q1"], ["a", "a"], 1)
    with pytest.raises(UserError, match=r"q .*occurs twice"):
        run_from_similarities(np.zeros((2, 1)), ["q", "q"], ["a"], 1)
    assert len(run_from_similarities(np.zeros((0, 2)), [], ["a", "b"], 1)) == 0
