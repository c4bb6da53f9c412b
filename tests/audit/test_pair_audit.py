"""Corrected figures of systems, from single pairs, on a pool whose truth is known."""

import numpy as np
import pandas as pd
import pytest

from querytruth.audit.pair_audit import PairAudit, estimate_slices, estimate_systems
from querytruth.audit.pool import AuditPool, build_audit_pool, draw_pairs

QUERIES, IMAGES, DEPTH = 150, 60, 20


def plant(seed: int) -> tuple[AuditPool, pd.Series, dict[str, dict[int, set[tuple[str, str]]]]]:
    """A pool of two systems, its truth by pair, and the pairs of each system's first results by cut."""
    rng = np.random.default_rng(seed)
    queries, images = [f"q{n:03}" for n in range(QUERIES)], [f"i{n:02}" for n in range(IMAGES)]
    share = rng.beta(1, 6, (QUERIES, 1))
    relevant = rng.random((QUERIES, IMAGES)) < share
    relevant[np.arange(QUERIES), rng.integers(0, IMAGES, QUERIES)] = True
    marked = relevant & (np.cumsum(relevant, axis=1) == 1)  # the set knows the first alone
    wrong = (rng.random(relevant.shape) < 0.002) & ~relevant
    runs, tops = {}, {}
    for name, noise in (("a", 0.5), ("b", 1.5)):
        order = np.argsort(-(relevant + noise * rng.normal(size=relevant.shape)), axis=1)[:, :DEPTH]
        rows = [(queries[q], images[i], rank + 1) for q in range(QUERIES) for rank, i in enumerate(order[q])]
        runs[name] = pd.DataFrame(rows, columns=["query_id", "image_id", "rank"])
        tops[name] = {k: {(query, image) for query, image, rank in rows if rank <= k} for k in (1, 5, 10, 20)}
    judged = [(queries[q], images[i], 1) for q, i in np.argwhere(marked | wrong)]
    qrels = pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"])
    pool = build_audit_pool(qrels, pd.DataFrame({"query_id": [], "image_id": []}), runs, QUERIES, IMAGES)
    index = pd.MultiIndex.from_frame(pool.pairs[["query_id", "image_id"]])
    truth = pd.Series([bool(relevant[int(q[1:]), int(i[1:])]) for q, i in index], index)
    return pool, truth, tops


@pytest.mark.thorough
@pytest.mark.parametrize(("draws", "slack"), [(60, 0.08), pytest.param(250, 0.03, marks=pytest.mark.slow)])
def test_intervals_of_the_systems_hold_their_true_figures(draws: int, slack: float) -> None:
    pool, truth, tops = plant(1)
    total = int(truth.sum())
    found = {
        name: {k: sum(bool(truth[pair]) for pair in top) for k, top in cuts.items()} for name, cuts in tops.items()
    }
    covered: dict[str, list[bool]] = {}
    for seed in range(draws):
        sample = draw_pairs(pool, {"judged_relevant": 50, "first_ranks": 150, "later_ranks": 100}, seed)
        answers = truth.reindex(pd.MultiIndex.from_frame(sample[["query_id", "image_id"]]))
        figures = estimate_systems(PairAudit.from_answers(pool.pairs, answers), pool.ranks, QUERIES, DEPTH)
        for row in figures.itertuples():
            measure, k = row.metric.split("@")
            hits = found[row.system][int(k)]
            true = hits / (int(k) * QUERIES) if measure == "p" else hits / total
            covered.setdefault(f"{row.system} {row.metric}", []).append(row.low <= true <= row.high)
    means = {name: float(np.mean(values)) for name, values in covered.items()}
    assert len(means) == 16
    # A cut of which few pairs are drawn has a wide interval: it may hold more often than 97 times.
    assert min(means.values()) >= 0.93 - slack, means
    wide = {name: value for name, value in means.items() if not name.endswith(("@1", "@5"))}
    assert max(wide.values()) <= 0.97 + slack, means


def test_a_census_gives_the_true_figures_and_the_sets_own_stand_beside_them() -> None:
    pool, truth, tops = plant(2)
    audit = PairAudit.from_answers(pool.pairs, truth)
    figures = estimate_systems(audit, pool.ranks, QUERIES, DEPTH).set_index(["system", "metric"])
    hits = sum(bool(truth[pair]) for pair in tops["a"][10])
    row = figures.loc[("a", "p@10")]
    assert row["low"] == row["value"] == row["high"] == pytest.approx(hits / (10 * QUERIES))
    marked = set(map(tuple, pool.pairs.loc[pool.pairs["relevance"] > 0, ["query_id", "image_id"]].to_numpy()))
    assert row["before"] == pytest.approx(len(marked & tops["a"][10]) / (10 * QUERIES))
    assert figures.loc[("a", "found@10"), "value"] == pytest.approx(hits / int(truth.sum()))
    wrong = audit.estimate_truth()["wrong_share"]
    assert wrong.value == pytest.approx(1 - np.mean([truth[pair] for pair in marked]))


def test_slices_are_of_aspects_with_several_values() -> None:
    pool, truth, _ = plant(2)
    ids = [f"q{n:03}" for n in range(QUERIES)]
    queries = pd.DataFrame(
        {"query_id": ids, "language": ["en", "zh", "zh"] * (QUERIES // 3), "style": "caption", "level": 1}
    )
    slices = estimate_slices(PairAudit.from_answers(pool.pairs, truth), queries)
    assert slices[["aspect", "value"]].drop_duplicates().to_numpy().tolist() == [["language", "en"], ["language", "zh"]]
    chinese = truth[truth.index.get_level_values(0).isin([q for n, q in enumerate(ids) if n % 3])]
    marked = pool.pairs.set_index(["query_id", "image_id"])["relevance"].reindex(chinese.index) > 0
    (row,) = slices[(slices["value"] == "zh") & (slices["measure"] == "missing_share")].to_dict("records")
    assert row["estimate"] == pytest.approx((chinese & ~marked).sum() / chinese.sum())
    assert row["answered"] == len(chinese)
