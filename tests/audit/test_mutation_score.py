"""Damages do what they state, and what is reported of them is what a gate would do."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from querytruth.audit import mutation_score
from querytruth.audit.mutation_score import (
    Damage,
    DamageGate,
    draw_any,
    draw_highest,
    list_damages,
    lose_images,
    measure_kind,
    read_answers,
)
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.release_gate import GatedFigure, check_gate
from querytruth.evaluation.sample_size import plan_for_discordance

HIT = parse_metric("hit@1")
Answers, Kind = mutation_score.AnsweredQueries, SimpleNamespace


def answer(results: dict[str, list[str]], relevant: dict[str, str], images: list[str]) -> Answers:
    """Answers as lists of image ids; one image is right for each query."""
    run = pd.DataFrame(
        [(query, image, -float(rank)) for query, found in results.items() for rank, image in enumerate(found)],
        columns=["query_id", "image_id", "score"],
    )
    qrels = pd.DataFrame(relevant.items(), columns=["query_id", "image_id"]).assign(relevance=1)
    return read_answers(rank_run(run, index_qrels(qrels, images, list(relevant))))


def many(queries: int, images: int = 0) -> Answers:
    """Each query finds its own image first."""
    images = images or queries
    names = [f"i{number:05}" for number in range(images)]
    pairs = {f"q{number:05}": names[number % images] for number in range(queries)}
    return answer({query: [image] for query, image in pairs.items()}, pairs, names)


def measure(answers: Answers, damage: Damage, size: float = 0.05, **spec: object) -> Kind:
    given = {"metric": HIT, "margin": 0.01, "clusters": None, "size": size, "draws": 50} | spec
    return SimpleNamespace(**measure_kind(answers, damage, DamageGate(**given)))  # type: ignore[arg-type]


def lose_queries(answers: Answers, size: float, rng: np.random.Generator) -> mutation_score.Rows:
    return mutation_score.lose_queries("x", partial(draw_any, total=answers.queries)).plant(answers, size, rng)


IMAGES = [f"i{number}" for number in range(8)]
LISTS = {"q0": ["i3", "i0", "i5", "i1", "i2", "i6"], "q1": ["i1", "i4", "i7"], "q2": ["i6", "i2"]}
RIGHT = {"q0": "i2", "q1": "i4", "q2": "i2"}


def oracle(damaged: dict[str, list[str]]) -> list[float]:
    """The reciprocal rank of the right image in each list."""
    return [1 / (1 + found.index(RIGHT[query])) if RIGHT[query] in found else 0.0 for query, found in damaged.items()]


def score(plant: mutation_score.Plant, size: float, seed: int = 0) -> list[float]:
    answers = answer(LISTS, RIGHT, IMAGES)
    return answers.score(parse_metric("rr@10"), plant(answers, size, np.random.default_rng(seed))).tolist()


@pytest.mark.parametrize("size", [0.125, 0.25, 0.5, 1.0])
def test_lost_stale_and_shifted_images_equal_a_plain_rewrite_of_the_lists(size: float) -> None:
    order = np.array([5.0, 1, 3, 8, 0, 2, 7, 4])
    lost = [IMAGES[row] for row in np.argsort(-order)[: max(1, round(8 * size))]]
    kept = {query: [one for one in found if one not in lost] for query, found in LISTS.items()}
    assert score(lose_images("x", partial(draw_highest, order=order)).plant, size) == oracle(kept)
    drawn = np.random.default_rng(4).choice(8, max(1, round(8 * size)), replace=False)
    stale = {query: ["?" if int(one[1]) in drawn else one for one in found] for query, found in LISTS.items()}
    assert score(mutation_score._make_stale, size, seed=4) == oracle(stale)
    start, count = int(np.random.default_rng(4).integers(8)), max(1, round(8 * size))

    def shift(one: str) -> str:
        return f"i{(int(one[1]) + 1) % 8}" if (int(one[1]) - start) % 8 < count else one

    shifted = {query: [shift(one) for one in found] for query, found in LISTS.items()}
    assert score(mutation_score._shift_ids, size, seed=4) == oracle(shifted)


def test_damaged_lists_of_all_queries() -> None:
    doubled = {query: [one for one in found for _ in (0, 1)] for query, found in LISTS.items()}
    assert score(mutation_score._double_results, 1.0) == oracle(doubled)
    halves = {query: found[: len(found) // 2] for query, found in LISTS.items()}
    assert score(partial(mutation_score._cut_results, cut=10), 1.0) == oracle(halves)
    assert score(lose_queries, 1.0) == [0.0, 0.0, 0.0]
    shuffled = [score(mutation_score._shuffle_tail, 1.0, seed) for seed in range(60)]
    assert {row[0] for row in shuffled} == {1 / 4, 1 / 5, 1 / 6} and {tuple(row[1:]) for row in shuffled} == {
        (0.5, 0.5)
    }
    first = [score(mutation_score._replace_first, 1.0, seed) for seed in range(60)]
    assert {row[2] for row in first} == {0.5, 1.0}  # a random result may be right


def test_groups_are_lost_whole_and_the_last_one_in_part() -> None:
    codes = np.repeat([0, 1, 2, -1], 10)
    for seed in range(20):
        drawn = mutation_score.draw_groups(0.4, np.random.default_rng(seed), codes=codes)
        counts = sorted(drawn.reshape(4, 10).sum(axis=1))
        assert counts == [0, 0, 6, 10] and drawn.sum() == 16 and not drawn[30:].any()


def test_a_set_has_the_kinds_that_it_knows() -> None:
    images = pd.DataFrame({"file_name": ["a/1.jpg", "b/2.png"], "width": [4, 8], "height": [4, 4]})
    images = images.assign(taken_at=["2024-05-01", "2024-06-01"], latitude=None, longitude=None)
    queries = pd.DataFrame({"topic": ["sea", "hill"], "language": ["en", "en"]})
    kinds = [one.kind for one in list_damages(images, queries, HIT)]
    assert "whole folders missing" in kinds and "newest images missing" in kinds and "whole topics lost" in kinds
    assert "whole languages lost" not in kinds and "whole creators missing" not in kinds


def test_a_loss_that_is_missed_has_a_reason_and_what_would_help() -> None:
    empty = Damage("empty", lose_queries)
    assert measure(many(400), empty).reason == ""
    few = measure(many(100), empty)
    assert few.reason == "too_few" and few.further is not None
    assert measure(many(100 + few.further), empty).reason == ""
    assert measure(many(100), empty, margin=0.06).reason == "within_margin"
    order = np.where(np.arange(1000) < 500, 0.0, 1.0)
    assert measure(many(500, 1000), lose_images("newest", partial(draw_highest, order=order))).reason == "not_asked"
    assert measure(many(100), Damage("twice", mutation_score._double_results)).reason == "not_seen"
    wrong = answer({"q": ["i1"]}, {"q": "i0"}, IMAGES)
    assert measure(wrong, empty).reason == "nothing_to_lose"


def test_topics_count_and_not_their_queries() -> None:
    empty = Damage("empty", lose_queries)
    topics = np.repeat(np.arange(40), 10)
    whole = mutation_score.lose_queries("topics", partial(mutation_score.draw_groups, codes=topics))
    assert measure(many(400), empty, clusters=topics).stopped == 1.0
    assert measure(many(400), whole, clusters=topics).stopped == 0.0


def test_stopped_is_the_verdict_of_the_gate() -> None:
    rng = np.random.default_rng(0)
    differences = rng.choice([-1.0, 0.0, 1.0], (80, 30), p=[0.3, 0.6, 0.1])
    spec = DamageGate(HIT, 0.05, None, 0.05, 50)
    base = np.ones(80)
    verdicts = [check_gate([GatedFigure("hit@1", "", base + one, base, 0.05)])[0].verdict for one in differences.T]
    assert spec.stops(differences).tolist() == [verdict == "FAIL" for verdict in verdicts]


def lose_some(answers: Answers, size: float, rng: np.random.Generator) -> mutation_score.Rows:
    return answers.keep(rng.random(answers.queries)[answers.ranked.query] >= size)


@pytest.mark.thorough
def test_the_smallest_size_is_within_a_step_of_the_truth_in_90_of_100_runs() -> None:
    answers, sizes = many(250), mutation_score.SIZES
    truth = measure(answers, Damage("truth", lose_some), draws=1000).smallest
    assert truth is not None
    near = [measure(answers, Damage(f"draw {number}", lose_some)).smallest for number in range(200)]
    steps = [abs(sizes.index(one) - sizes.index(truth)) <= 1 for one in near if one is not None]
    assert sum(steps) >= 0.9 * 200
    exact = [one == truth for one in near]
    assert sum(exact) >= 0.5 * 200


@pytest.mark.thorough
@pytest.mark.parametrize("make", [lambda: None, lambda: np.repeat(np.arange(50), 5)])
def test_an_undamaged_system_gives_at_most_5_of_100_alarms(make: Callable[[], object]) -> None:
    answers = many(250)
    kinds = [measure(answers, Damage(f"alarm {n}", lose_some), 0.2, clusters=make(), draws=100) for n in range(10)]
    assert mutation_score.summarize_kinds([vars(one) for one in kinds])["false_alarms_at_most"] <= 0.05


@pytest.mark.thorough
def test_the_queries_that_find_a_loss_are_those_that_plan_size_states() -> None:
    """`plan-size` plans a two-sided test, the gate has one side: (1.645 + .842)² / (1.960 + .842)² of its queries."""
    loss = 0.1
    planned = plan_for_discordance(loss, loss - 0.01).queries * ((1.645 + 0.842) / (1.960 + 0.842)) ** 2
    rates = {factor: measure(many(round(planned * factor)), Damage("x", lose_some), loss).stopped
             for factor in (0.6, 1.0, 1.5)}  # fmt: skip
    assert rates[0.6] < 0.8 and rates[1.5] >= 0.8 and 0.6 <= rates[1.0] <= 1.0
