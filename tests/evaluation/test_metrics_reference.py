"""The metrics against a slow reference, and against the programs that others use."""

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metrics import (
    compute_cmc_curve,
    compute_metric,
    compute_precision_recall_curve,
    judged_at_k,
    parse_metric,
)
from querytruth.evaluation.ranking import RankedRun, rank_run
from tests.evaluation.naive_metrics import (
    NaiveQrels,
    NaiveRun,
    judged_share,
    metric_values,
    qrels_table,
    ranking,
    run_table,
)
from tests.evaluation.random_rankings import METRIC_NAMES, qrels_and_runs


def ranked(qrels: NaiveQrels, run: NaiveRun) -> RankedRun:
    return rank_run(run_table(run), index_qrels(qrels_table(qrels)))


def by_query(found: RankedRun, name: str) -> dict[str, float]:
    return dict(zip(found.truth.query_ids.to_pylist(), compute_metric(found, parse_metric(name)).tolist(), strict=True))


@given(qrels_and_runs())
@settings(max_examples=150)
@pytest.mark.thorough
def test_every_metric_is_what_its_definition_says(world: tuple[NaiveQrels, NaiveRun]) -> None:
    qrels, run = world
    found = ranked(qrels, run)
    for name in METRIC_NAMES:
        metric = parse_metric(name)
        expected = metric_values(metric.name, metric.cut, dict(metric.options), qrels, run)
        assert by_query(found, name) == pytest.approx(expected, abs=1e-12), name


@given(qrels_and_runs(), st.randoms(use_true_random=False))
@settings(max_examples=40)
@pytest.mark.thorough
def test_the_order_of_the_rows_and_how_ids_are_held_change_nothing(
    world: tuple[NaiveQrels, NaiveRun], shuffle: random.Random
) -> None:
    qrels, run = world
    truth, rows = qrels_table(qrels), run_table(run)
    plain = rank_run(rows, index_qrels(truth))
    mixed_truth = truth.sample(frac=1, random_state=shuffle.randrange(2**32))
    mixed = rows.sample(frac=1, random_state=shuffle.randrange(2**32)).astype(
        {"query_id": "category", "image_id": "category"}
    )
    other = rank_run(mixed, index_qrels(mixed_truth.astype({"query_id": "category", "image_id": "object"})))
    pieces = rank_run(
        pd.concat([rows.iloc[:1], rows.iloc[1:]]), index_qrels(pd.concat([truth.iloc[:1], truth.iloc[1:]]))
    )
    for name in METRIC_NAMES:
        assert compute_metric(plain, parse_metric(name)).tolist() == compute_metric(other, parse_metric(name)).tolist()
        assert compute_metric(plain, parse_metric(name)).tolist() == compute_metric(pieces, parse_metric(name)).tolist()


@given(qrels_and_runs(), st.integers(1, 12))
@settings(max_examples=50)
def test_curves_and_the_judged_share_are_what_their_definitions_say(world: tuple[NaiveQrels, NaiveRun], k: int) -> None:
    qrels, run = world
    found = ranked(qrels, run)
    ranks = range(1, k + 1)
    curve = compute_cmc_curve(found, k)
    assert curve == pytest.approx([compute_metric(found, parse_metric(f"hit@{n}")).mean() for n in ranks], abs=1e-12)
    assert (np.diff(curve) >= 0).all()
    recalls, precisions = compute_precision_recall_curve(found, k)
    assert recalls == pytest.approx([compute_metric(found, parse_metric(f"r@{n}")).mean() for n in ranks], abs=1e-12)
    assert precisions == pytest.approx([compute_metric(found, parse_metric(f"p@{n}")).mean() for n in ranks], abs=1e-12)
    shares = {query: judged_share(qrels, query, ranking(run.get(query, {})), k) for query in by_query(found, "hit")}
    assert dict(zip(shares, judged_at_k(found, k)[np.argsort(np.argsort(list(shares)))], strict=True)) == shares


# --- against trec_eval's own code ------------------------------------------------------------------------------------

TREC = {f"P_{k}": f"p@{k}" for k in (1, 5, 10, 20)} | {f"recall_{k}": f"r@{k}" for k in (1, 5, 10, 20)}
TREC |= {f"ndcg_cut_{k}": f"ndcg@{k}(gain=linear)" for k in (1, 5, 10, 20)}
TREC |= {f"map_cut_{k}": f"ap@{k}" for k in (1, 5, 10, 20)} | {f"success_{k}": f"hit@{k}" for k in (1, 5, 10)}
TREC |= {"map": "ap", "recip_rank": "rr", "Rprec": "p@r", "ndcg": "ndcg(gain=linear)"}


def tie_heavy(rng: random.Random, runs: int) -> tuple[NaiveQrels, NaiveRun]:
    """So many runs side by side, each of a few queries: few scores for many images, as where matching words count."""
    qrels: NaiveQrels = {}
    run: NaiveRun = {}
    for number in range(runs):
        images = [f"img_{rng.randrange(10**6)}" for _ in range(rng.randint(1, 60))]
        for query in (f"{number}_{n}" for n in range(rng.randint(1, 4))):
            pool = rng.sample(images, rng.randint(1, len(images)))
            qrels[query] = {image: rng.choice([0, 0, 1, 1, 2, 3]) for image in pool}
            qrels[query][pool[0]] = rng.randint(1, 3)
            shown = rng.sample(images, rng.randint(1, len(images)))
            run[query] = {image: rng.randrange(4) / 4 for image in shown}
    return qrels, run


def test_a_thousand_tie_heavy_runs_come_out_as_trec_eval_has_them() -> None:
    trec: Any = pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed: nothing to compare with")
    qrels, run = tie_heavy(random.Random(5), 1000)
    cuts = {"P.1,5,10,20", "recall.1,5,10,20", "ndcg_cut.1,5,10,20", "map_cut.1,5,10,20", "success.1,5,10"}
    figures = trec.RelevanceEvaluator(qrels, cuts | {"map", "recip_rank", "Rprec", "ndcg"}).evaluate(run)
    found = ranked(qrels, run)
    for theirs, ours in TREC.items():
        expected = {query: of[theirs] for query, of in figures.items()}
        assert by_query(found, ours) == pytest.approx(expected, abs=1e-12), theirs


def test_exponential_gain_comes_out_as_trec_eval_has_it_when_told_the_gains() -> None:
    trec: Any = pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed: nothing to compare with")
    qrels, run = tie_heavy(random.Random(6), 200)
    worth = {query: {image: 2**grade - 1 for image, grade in of.items()} for query, of in qrels.items()}
    figures = trec.RelevanceEvaluator(worth, {"ndcg_cut.10"}).evaluate(run)
    expected = {query: of["ndcg_cut_10"] for query, of in figures.items()}
    assert by_query(ranked(qrels, run), "ndcg@10") == pytest.approx(expected, abs=1e-12)


def test_the_judged_share_comes_out_as_ir_measures_has_it() -> None:
    peer: Any = pytest.importorskip("ir_measures", reason="ir_measures is not installed: nothing to compare with")
    qrels, run = tie_heavy(random.Random(7), 100)
    run = {q: {image: float(n) for n, image in enumerate(of)} for q, of in run.items()}  # it breaks ties another way
    found = ranked(qrels, run)
    shares = dict(zip(found.truth.query_ids.to_pylist(), judged_at_k(found, 5).tolist(), strict=True))
    assert shares == {m.query_id: m.value for m in peer.iter_calc([peer.Judged @ 5], qrels, run)}
