"""Pairs of vectors with a high cosine: those that numpy finds by comparing all with all."""

import numpy as np
import pytest

from querytruth.array_types import Vectors
from querytruth.backends.models import nearest_neighbours
from querytruth.backends.models.nearest_neighbours import NearestRows, find_near_pairs, find_pairs_above
from querytruth.errors import UserError

pytest.importorskip("faiss")


def pile(seed: int, count: int = 300, dimensions: int = 24) -> Vectors:
    """Vectors of length one, a third of them close to another: pairs lie on both sides of any cut."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, dimensions))
    close = count // 3
    vectors[:close] = vectors[close : 2 * close] + rng.uniform(0, 0.6, (close, 1)) * rng.standard_normal(
        (close, dimensions)
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def by_numpy(vectors: Vectors, cosine: float) -> list[tuple[int, int]]:
    scores = (vectors.astype(np.float64) @ vectors.astype(np.float64).T).round(6)
    return [(one, other) for one, other in np.argwhere(scores >= cosine).tolist() if one < other]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cosine", [0.3, 0.9, 0.95])
def test_exactly_the_pairs_that_comparing_all_with_all_finds(seed: int, cosine: float) -> None:
    vectors = pile(seed)
    pairs, scores = find_pairs_above(vectors, cosine, threads=1)
    assert [tuple(pair) for pair in pairs.tolist()] == by_numpy(vectors, cosine)
    assert scores == pytest.approx([vectors[one] @ vectors[other] for one, other in pairs], abs=1e-5)
    assert (scores >= cosine).all()


@pytest.mark.thorough
def test_neither_block_nor_threads_decide_about_a_pair_at_the_cut() -> None:
    """The cut is a pair's very cosine: single precision, summed in another order, falls on either side of it."""
    vectors = pile(3, count=400, dimensions=96)
    _, scores = find_pairs_above(vectors, 0.8, threads=1)
    for cut in scores[:20]:
        found = {
            find_pairs_above(vectors, float(cut), threads=threads, block=block)[0].tobytes()
            for threads, block in [(1, 512), (2, 512), (1, 1), (1, 7), (2, 300)]
        }
        assert len(found) == 1
        assert by_numpy(vectors, float(cut)) == [
            tuple(pair) for pair in find_pairs_above(vectors, float(cut), threads=1)[0].tolist()
        ]


@pytest.mark.thorough
def test_cells_find_nearly_all_of_many_vectors() -> None:
    vectors = pile(7, count=6000)
    exact, _ = find_pairs_above(vectors, 0.95, threads=2)
    found, scores = find_pairs_above(vectors, 0.95, threads=2, exact_up_to=1000)
    pairs, wanted = ({tuple(pair) for pair in some.tolist()} for some in (found, exact))
    assert pairs <= wanted and len(pairs) == len(found) == len(scores)
    assert len(pairs) > 0.99 * len(wanted) > 500
    for threads, block in [(1, 512), (2, 100)]:
        again, _ = find_pairs_above(vectors, 0.95, threads=threads, block=block, exact_up_to=1000)
        assert (again == found).all()


def test_the_same_vector_many_times_is_paired_in_a_row() -> None:
    vectors = pile(2)
    vectors[100:] = vectors[100]
    pairs, scores = find_pairs_above(vectors, 0.95, threads=1)
    row = [[n, n + 1] for n in range(100, 299)]
    assert [pair for pair in pairs.tolist() if pair[0] >= 100] == row
    assert (scores[pairs[:, 0] >= 100] == 1).all()
    assert [tuple(pair) for pair in pairs.tolist() if pair[1] <= 100] == by_numpy(vectors[:101], 0.95)


def test_too_many_pairs_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_neighbours, "MAX_PAIRS", 1000)
    with pytest.raises(UserError, match="raise near_duplicates"):
        find_pairs_above(pile(1), -1.0, threads=1)


@pytest.mark.parametrize("count", [0, 1])
def test_none_and_one(count: int) -> None:
    pairs, scores = find_pairs_above(pile(0)[:count], 0.5, threads=1)
    assert pairs.shape == (0, 2) and scores.shape == (0,)


def test_threads_are_put_back() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    find_pairs_above(pile(0), 0.9, threads=before + 1)
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("block", [1, 7, 1 << 24])
def test_neighbours_are_those_of_all_pairs_whatever_the_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_neighbours, "_PRODUCTS_PER_BLOCK", block)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    left, right = find_near_pairs(vectors, vectors, np.full(40, 0.4), 99)
    assert set(zip(left, right, strict=True)) == set(zip(*np.nonzero(vectors @ vectors.T >= 0.4), strict=True))
    left, right = find_near_pairs(vectors, vectors, np.full(40, -1.0), 3)
    assert [set(right[left == row]) for row in range(40)] == [
        set(np.argsort(-(vectors[row] @ vectors.T))[:3]) for row in range(40)
    ]


@pytest.mark.parametrize("exact_up_to", [10, 100], ids=["in cells", "exact"])
def test_the_nearest_rows_are_those_of_the_product(monkeypatch: pytest.MonkeyPatch, exact_up_to: int) -> None:
    """Of fifty rows all cells are searched, so that none is missed."""
    monkeypatch.setattr("querytruth.backends.models.nearest_neighbours.EXACT_UP_TO", exact_up_to)
    others = np.random.default_rng(4).standard_normal((50, 8), dtype=np.float32)
    vectors = np.random.default_rng(5).standard_normal((20, 8), dtype=np.float32)
    left, right = NearestRows(others).find(vectors, 3, threads=1)
    assert left.tolist() == np.repeat(np.arange(20), 3).tolist()
    assert right.reshape(20, 3).tolist() == np.argsort(-(vectors @ others.T), axis=1)[:, :3].tolist()
    assert len(NearestRows(others[:0]).find(vectors, 3, threads=1)[0]) == 0
