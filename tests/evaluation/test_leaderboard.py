"""Rank intervals: worked by hand, and on simulated boards of which the true ranks are known."""

import numpy as np

from querytruth.array_types import RowIndices
from querytruth.evaluation.leaderboard import rank_systems


def count_boards_that_hold(boards: int, quality: list[float], queries: int, clusters: RowIndices | None = None) -> int:
    """How many simulated boards have the true rank of every system in its interval; equal systems share ranks."""
    rng, held = np.random.default_rng(13), 0
    true = np.array(quality)
    for _ in range(boards):
        hard = rng.random(queries)
        luck = 0.0 if clusters is None else rng.normal(0, 0.1, (len(true), queries))[:, clusters]
        noise = 0.4 * (hard - 0.5) + luck + rng.normal(0, 0.2, (len(true), queries))
        noisy = {f"s{n}": np.clip(q + noise[n], 0, 1) for n, q in enumerate(true)}
        ranks = {one.name: one for one in rank_systems(noisy, clusters=clusters)[0]}
        held += all(
            ranks[f"s{n}"].best_rank <= 1 + int((true > q).sum())
            and ranks[f"s{n}"].worst_rank >= len(true) - int((true < q).sum())
            for n, q in enumerate(true)
        )
    return held


def test_clear_differences_have_one_rank_and_equal_systems_share_theirs() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, (4, 500))
    means = {"best": 0.7, "one": 0.5, "other": 0.5, "worst": 0.2}
    ranks, groups = rank_systems({name: mean + noise[n] for n, (name, mean) in enumerate(means.items())})
    intervals = {one.name: (one.best_rank, one.worst_rank) for one in ranks}
    assert intervals == {"best": (1, 1), "one": (2, 3), "other": (2, 3), "worst": (4, 4)}
    assert [set(group) for group in groups] == [{"best"}, {"one", "other"}, {"worst"}]


def test_groups_overlap_where_only_the_ends_differ() -> None:
    random = np.random.default_rng(2).normal(size=(100, 3))
    noise = np.linalg.qr(np.column_stack([np.ones(100), random]))[0][:, 1:] * 0.6  # uncorrelated, with a mean of 0
    figures = {name: mean + noise[:, n] for n, (name, mean) in enumerate((("a", 0.5), ("b", 0.47), ("c", 0.44)))}
    assert rank_systems(figures)[1] == [["a", "b"], ["b", "c"]]
    (alone,), groups = rank_systems({"a": figures["a"]})
    assert (alone.best_rank, alone.worst_rank, groups) == (1, 1, [["a"]])


def test_equal_figures_are_not_told_apart() -> None:
    same = np.full(50, 0.5)
    assert rank_systems({"a": same, "b": same.copy()})[1] == [["a", "b"]]
    assert rank_systems({"a": same, "b": same - 0.1})[1] == [["a"], ["b"]]


def test_clusters_widen_the_intervals() -> None:
    topics = np.random.default_rng(3).normal(0.03, 0.1, 20)
    figures, clusters = {"a": np.repeat(0.5 + topics, 20), "b": np.full(400, 0.5)}, np.repeat(np.arange(20), 20)
    assert len(rank_systems(figures)[1]) == 2 and len(rank_systems(figures, clusters=clusters)[1]) == 1


def test_the_intervals_hold_the_true_ranks() -> None:
    assert count_boards_that_hold(40, [0.5, 0.5, 0.52, 0.6], 100) >= 38


def test_a_topic_of_100_beside_100_single_queries_separates_no_equal_systems() -> None:
    clusters = np.r_[np.arange(100), np.full(100, 100)]
    assert count_boards_that_hold(40, [0.5] * 4, 200, clusters) >= 37


def test_where_judgments_are_missing_only_what_none_could_change_is_a_rank() -> None:
    """The better of two by the test may be the worse one once what came back is judged."""
    figures = {"a": np.array([1.0] * 60), "b": np.array([0.5] * 60)}
    ranks = {
        most: [
            (one.best_rank, one.worst_rank) for one in rank_systems(figures, bounds={"a": (1, 1), "b": (0.5, most)})[0]
        ]
        for most in (0.9, 1.0)
    }
    assert ranks == {0.9: [(1, 1), (2, 2)], 1.0: [(1, 1), (2, 2)]}
    open_ = rank_systems(figures, bounds={"a": (0.8, 1), "b": (0.5, 0.9)})[0]
    assert [(one.best_rank, one.worst_rank) for one in open_] == [(1, 2), (1, 2)]
