"""Hashes that hang together: the same components as by comparing all with all, however the hashes lie."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querytruth.array_types import Hashes, RowIndices
from querytruth.backends.images import hash_neighbours
from querytruth.backends.images import hash_neighbours as components
from querytruth.backends.images.hash_neighbours import Components, join_near_hashes

MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def by_comparing_all(hashes: Hashes, distance: int) -> list[int]:
    """Per hash the first of its component."""
    names = list(range(len(hashes)))
    for one, other in combinations(range(len(hashes)), 2):
        if (int(hashes[one]) ^ int(hashes[other])).bit_count() <= distance and names[one] != names[other]:
            low, high = sorted((names[one], names[other]))
            names = [low if name == high else name for name in names]
    return names


def find_components(hashes: Hashes, distance: int) -> RowIndices:
    """Per hash the first of its component, as the search finds it."""
    sets = Components(len(hashes))
    join_near_hashes(hashes, distance, sets)
    return sets.names()


def flipped(value: int, places: list[int]) -> int:
    for place in places:
        value ^= 1 << place
    return value


words = st.integers(0, 2**64 - 1)
places = st.lists(st.integers(0, 63), max_size=18)


@st.composite
def piles(draw: st.DrawFn) -> Hashes:
    """Hashes around a few centres, some of these close to each other, some hashes alike, some anywhere."""
    centres = draw(st.lists(words, min_size=1, max_size=4))
    centres += [flipped(centres[0], draw(places)) for _ in range(draw(st.integers(0, 2)))]
    near = [flipped(draw(st.sampled_from(centres)), draw(places)) for _ in range(draw(st.integers(0, 30)))]
    alike = [draw(st.sampled_from(centres))] * draw(st.integers(0, 5))
    return np.array(draw(st.permutations(near + alike + draw(st.lists(words, max_size=10)))), dtype=np.uint64)


@pytest.fixture(params=["as it comes", "every way at once"])
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hashes are one long run: to try the other ways on them, all bounds are made small."""
    if request.param == "every way at once":
        for name, bound in {"_LONG": 6, "_BLOCK": 5, "_TILE": 4, "_MANY": 16}.items():
            monkeypatch.setattr(hash_neighbours, name, bound)
        monkeypatch.setattr(components, "_TILE", 8)
        monkeypatch.setattr(hash_neighbours, "_bands", lambda distance, *_: distance + 2)


@settings(MANY, max_examples=30)
@given(hashes=piles(), distance=st.integers(0, 16))
def test_components_are_those_of_all_pairs(_ways: None, hashes: Hashes, distance: int) -> None:
    assert find_components(hashes, distance).tolist() == by_comparing_all(hashes, distance)


@MANY
@given(hashes=piles(), distance=st.integers(0, 12), seed=st.integers(0, 99))
def test_near_hashes_join_their_owners(hashes: Hashes, distance: int, seed: int) -> None:
    owners = np.random.default_rng(seed).integers(0, 8, len(hashes))
    sets = Components(8, owners)
    join_near_hashes(hashes, distance, sets)
    names = sets.names()
    same = by_comparing_all(hashes, distance)
    assert all(names[owners[row]] == names[owners[first]] for row, first in enumerate(same))
    together = Components(8)
    together.join(owners, owners[same])
    assert names.tolist() == together.names().tolist() and sets.count == together.count


@pytest.mark.parametrize(("distance", "more"), [(1, 0), (6, 0), (8, 2), (9, 3), (16, 1)])
def test_no_pair_is_lost_whichever_bits_differ(monkeypatch: pytest.MonkeyPatch, distance: int, more: int) -> None:
    """A thousand pairs, each exactly as far apart as may be: every one depends on its own run alone."""
    monkeypatch.setattr(hash_neighbours, "_bands", lambda *_: distance + more)
    rng = np.random.default_rng(100 * distance + more)
    ones = rng.integers(0, 2**64, 1000, dtype=np.uint64)
    bits = rng.permuted(np.tile(np.arange(64, dtype=np.uint64), (1000, 1)), axis=1)[:, :distance]
    others = ones ^ np.bitwise_or.reduce(np.uint64(1) << bits, axis=1)
    found = find_components(np.concatenate([ones, others]), distance)
    alone = find_components(np.concatenate([ones, others]), distance - 1)
    assert (found[1000:] == found[:1000]).all()
    if distance < 10:  # beyond that, other pairs happen to lie between
        assert (alone[1000:] == np.arange(1000, 2000)).all()


def test_a_third_of_the_choices_of_bands_finds_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_neighbours, "_bands", lambda *_: 12)
    rng = np.random.default_rng(3)
    ones = rng.integers(0, 2**64, 3000, dtype=np.uint64)
    for bits, least in ((4, 3000), (6, 2980), (8, 2600)):
        places = rng.permuted(np.tile(np.arange(64, dtype=np.uint64), (3000, 1)), axis=1)[:, :bits]
        others = ones ^ np.bitwise_or.reduce(np.uint64(1) << places, axis=1)
        sets = Components(6000)
        join_near_hashes(np.concatenate([ones, others]), 8, sets, 165)
        assert least <= (sets.names()[3000:] == np.arange(3000)).sum() <= 3000 - (bits == 8)
    runs = hash_neighbours._candidate_runs(ones, 8, 165)
    assert sum(1 for _ in runs) == 165


@pytest.mark.parametrize("hashes", [[], [7], [7, 7], [0, 2**64 - 1]])
def test_none_one_and_two(hashes: list[int]) -> None:
    found = find_components(np.array(hashes, dtype=np.uint64), 16)
    assert found.tolist() == [hashes.index(value) for value in hashes]


@MANY
@given(pairs=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=40))
def test_joining_many_pairs_at_once_is_joining_them_one_by_one(pairs: list[tuple[int, int]]) -> None:
    names = list(range(20))
    for one, other in pairs:
        low, high = sorted((names[one], names[other]))
        names = [low if name == high else name for name in names]
    sets = Components(20)
    ones, others = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    sets.join(ones, others)
    assert sets.names().tolist() == names
    assert sets.count == len(set(names))


def test_a_long_chain_of_pairs_is_followed_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step by step the way from one end to the other would be gone through thousands of times."""
    order = np.random.default_rng(2).permutation(20_000)
    steps = []
    equal = np.array_equal
    monkeypatch.setattr(np, "array_equal", lambda *both: steps.append(1) or equal(*both))
    for rows in (np.arange(len(order)), order):
        sets = Components(len(rows))
        sets.join(rows[:-1], rows[1:])
        assert sets.count == 1 and not sets.names().any()
    assert len(steps) < 300


def around(rng: np.random.Generator, count: int, bits: int) -> Hashes:
    """Distinct hashes of which this many bits at most differ from one."""
    changes = np.uint64(1) << rng.integers(0, 64, (count, bits), dtype=np.uint64)
    return np.unique(np.bitwise_xor.reduce(changes, axis=1) ^ rng.integers(0, 2**64, dtype=np.uint64))


def test_a_dense_cluster_is_not_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 hashes in a ball all two hundred million pairs are near; nobody wants to see them."""
    rng = np.random.default_rng(5)
    hashes = np.concatenate([around(rng, 20_000, 4), rng.integers(0, 2**64, 20_000, dtype=np.uint64)])
    seen: list[int] = []
    joined = Components.join

    def counted(self: Components, ones: Any, others: Any) -> None:
        seen.append(len(ones))
        joined(self, ones, others)

    monkeypatch.setattr(Components, "join", counted)
    found = find_components(hashes, 8)
    assert np.bincount(found).max() == len(hashes) - 20_000
    assert sum(seen) < 100 * len(hashes)
