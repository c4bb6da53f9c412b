"""A sample that later systems extend: nothing drawn is lost, and the estimates still hold the truth."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from querytruth.audit.pair_audit import PairAudit, estimate_systems
from querytruth.audit.pool import (
    OUTSIDE,
    PAIR,
    AuditPool,
    build_audit_pool,
    draw_added_pairs,
    draw_outside,
    draw_pairs,
    find_added_pairs,
    mark_added,
)

QUERIES, IMAGES, DEPTH = [f"q{n:03}" for n in range(120)], [f"i{n:02}" for n in range(50)], 10


def plant(seed: int) -> tuple[AuditPool, AuditPool, pd.Series]:
    """The pool of one system, that of two which find different images, and the truth of all pairs."""
    rng = np.random.default_rng(seed)
    relevant = rng.random((len(QUERIES), len(IMAGES))) < rng.beta(1, 5, (len(QUERIES), 1))
    runs = {}
    for name, half in (("first", slice(0, 30)), ("second", slice(20, 50))):
        score = np.full(relevant.shape, -9.0)
        score[:, half] = (relevant + rng.normal(size=relevant.shape))[:, half]
        order = np.argsort(-score, axis=1)[:, :DEPTH]
        rows = [(QUERIES[q], IMAGES[i], rank + 1) for q in range(len(QUERIES)) for rank, i in enumerate(order[q])]
        runs[name] = pd.DataFrame(rows, columns=["query_id", "image_id", "rank"])
    marked = [(QUERIES[q], IMAGES[int(np.argmax(relevant[q]))], 1) for q in np.flatnonzero(relevant.any(axis=1))]
    qrels = pd.DataFrame(marked, columns=["query_id", "image_id", "relevance"])
    none = pd.DataFrame({"query_id": [], "image_id": []})
    first, both = (
        build_audit_pool(qrels, none, {name: runs[name] for name in names}, len(QUERIES), len(IMAGES))
        for names in (["first"], ["first", "second"])
    )
    truth = pd.DataFrame(relevant, index=QUERIES, columns=IMAGES).stack()
    truth.index.names = PAIR
    return first, both, truth


def extend(first: AuditPool, both: AuditPool, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The first sample, what the second system adds to it, and the whole pool's pairs."""
    inside = draw_pairs(first, {"judged_relevant": 40, "first_ranks": 120}, seed)
    before = pd.concat([inside, draw_outside(first, QUERIES, IMAGES, 60, seed)], ignore_index=True)
    added = find_added_pairs(first.pairs, both)
    drawn = draw_added_pairs(added, {"first_ranks": 100}, before, seed)
    pairs = pd.concat([first.pairs, added.pairs.assign(stratum=mark_added(added.pairs["stratum"], 1))])
    return before, drawn.assign(stratum=mark_added(drawn["stratum"], 1)), pairs.sort_values(PAIR, ignore_index=True)


def test_what_was_drawn_stays_and_pairs_drawn_outside_count_in_their_new_stratum() -> None:
    first, both, _ = plant(1)
    before, drawn, pairs = extend(first, both, 0)
    assert len(pairs) == len(both.pairs) and not pairs.duplicated(PAIR).any()
    old = pairs.merge(first.pairs, on=PAIR, suffixes=("", "_before"))
    assert (old["stratum"] == old["stratum_before"]).all() and len(old) == len(first.pairs)
    assert set(drawn["stratum"]) == {"first_ranks.added1"} and len(drawn) == 100
    outside = set(before.loc[before["stratum"] == OUTSIDE, PAIR].itertuples(index=False, name=None))
    new = set(pairs.loc[pairs["stratum"].str.contains("added"), PAIR].itertuples(index=False, name=None))
    taken = set(drawn[PAIR].itertuples(index=False, name=None))
    assert outside & new and outside & new <= taken < new


def test_strata_of_extensions_are_listed_beside_their_own_kind() -> None:
    first, both, _ = plant(1)
    _, _, pairs = extend(first, both, 0)
    pool = replace(both, pairs=pairs)
    assert list(pool.count_strata()) == ["judged_relevant", "first_ranks", "first_ranks.added1"]
    divided = pool.divide_by_judge([1] * len(pairs), [""] * len(pairs))
    assert mark_added(pd.Series(["first_ranks.yes"]), 2).tolist() == ["first_ranks.added2.yes"]
    assert sum(divided.count_strata().values()) == len(pairs)


@pytest.mark.thorough
@pytest.mark.parametrize(("draws", "slack"), [(20, 0.13), pytest.param(400, 0, marks=pytest.mark.slow)])
def test_an_extended_sample_holds_the_truth(draws: int, slack: float) -> None:
    first, both, truth = plant(2)
    inside = truth.reindex(pd.MultiIndex.from_frame(both.pairs[PAIR]))
    total, marked = int(inside.sum()), int((both.pairs["relevance"] > 0).sum())
    top = both.ranks[(both.ranks["system"] == "second") & (both.ranks["rank"] <= 10)]
    hits = int(truth.reindex(pd.MultiIndex.from_frame(top[PAIR])).sum())
    held: dict[str, list[bool]] = {"missing share": [], "found": [], "p": []}
    for seed in range(draws):
        before, drawn, pairs = extend(first, both, seed)
        answered = pd.concat([before, drawn]).drop_duplicates(PAIR)
        answered = answered[pd.MultiIndex.from_frame(answered[PAIR]).isin(inside.index)]
        audit = PairAudit.from_answers(pairs, truth.reindex(pd.MultiIndex.from_frame(answered[PAIR])))
        share = audit.estimate_truth().missing_share
        held["missing share"].append(bool(share.low <= 1 - marked / total <= share.high))
        figures = estimate_systems(audit, both.ranks, len(QUERIES), DEPTH).set_index(["system", "metric"])
        for name, metric, true in (("found", "found@10", hits / total), ("p", "p@10", hits / (10 * len(QUERIES)))):
            row = figures.loc[("second", metric)]
            held[name].append(row["low"] <= true <= row["high"])
    shares = {name: float(np.mean(values)) for name, values in held.items()}
    assert all(0.93 - slack <= share <= 0.97 + slack for share in shares.values()), shares
