"""The certificate of a truth: its bounds hold at every look, on real judgments too, and it costs what it promises."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from querytruth.array_types import BoolArray, FloatArray
from querytruth.audit.certificate import CountBound, divide_error
from querytruth.audit.judge_reliability import fit_curve, rank_area
from querytruth.audit.next_cards import CARD_COLUMNS, AnsweredPool, PooledPairs
from tests.audit.certified_worlds import Review, plant_pool
from tests.audit.expert_pairs import read_expert_pairs


def test_draws_without_a_hit_bound_what_is_left() -> None:
    bound = CountBound(1000, 0.05)
    for _ in range(180):
        bound.add_drawn(is_hit=False, forecast=0.0)
    # About 3 / 180 of the 1,000: the rule of three, at every look.
    assert 14 <= bound.at_most <= 18


def test_chosen_cards_count_what_they_find_and_prove_nothing_of_the_rest() -> None:
    bound = CountBound(1000, 0.05)
    bound.add_chosen(200, 50)
    assert (bound.found, bound.at_most) == (50, 850)


def test_all_cards_answered_leave_no_doubt() -> None:
    bound = CountBound(20, 0.05)
    for number in range(20):
        bound.add_drawn(is_hit=number % 4 == 0, forecast=0.2)
    assert bound.at_most == 5


def test_error_is_divided_among_what_there_is_to_bound() -> None:
    shares = divide_error(missing=100, wrong=0, outside=0)
    assert shares.keys() == {"missing", "people"} and sum(shares.values()) == pytest.approx(0.05)
    assert sum(divide_error(missing=100, wrong=10, outside=1000).values()) == pytest.approx(0.05)


def test_a_draw_that_waits_ends_the_draws_that_count() -> None:
    pool, relevant = plant_pool(400, 0.1, "good", 1)
    rows, kinds, forecasts = np.arange(100), np.ones(100, dtype=np.int64), np.full(100, 0.1)
    answers = relevant[rows].astype(float)
    whole = AnsweredPool(pool, rows, kinds, forecasts, answers)
    answers[40] = np.nan
    waits = AnsweredPool(pool, rows, kinds, forecasts, answers)
    until = AnsweredPool(pool, rows[:40], kinds[:40], forecasts[:40], answers[:40])
    assert whole.missing.at_most < waits.missing.at_most <= until.missing.at_most


def test_no_draw_counts_while_a_card_before_it_waits() -> None:
    """Else whoever leaves a chosen card open chooses, knowing the draws, what they say."""
    pool, relevant = plant_pool(400, 0.1, "good", 1)
    rows, forecasts = np.arange(100), np.full(100, 0.1)
    kinds = np.append(np.zeros(20, dtype=np.int64), np.ones(80, dtype=np.int64))  # chosen, then drawn
    answers = relevant[rows].astype(float)
    whole = AnsweredPool(pool, rows, kinds, forecasts, answers).missing
    answers[5] = np.nan
    waits = AnsweredPool(pool, rows, kinds, forecasts, answers).missing
    assert whole.at_most < waits.at_most == waits.found + waits.left


def test_what_the_set_had_counts_as_far_as_it_is_right() -> None:
    pool, relevant = plant_pool(600, 0.2, "good", 3, marked=0.5)
    review = Review(pool, relevant)
    certificate = review.work()
    found = certificate["found"] + int((relevant & pool.is_marked).sum())
    assert review.was_true and certificate["is_reached"]
    assert certificate["recall_at_least"] <= found / relevant.sum()
    assert 0 < certificate["wrong_at_most"] <= 0.06


def test_the_next_cards_are_the_same_again_and_none_comes_twice() -> None:
    pool, relevant = plant_pool(500, 0.1, "weak", 5, marked=0.3)
    cards = pd.DataFrame(columns=CARD_COLUMNS)
    for _ in range(6):
        pairs = zip(cards["query_id"], cards["image_id"], strict=True)
        answers = {pair: bool(relevant[int(pair[1].rpartition("_")[2])]) for pair in pairs}
        new, again = (pool.name_cards(pool.find_cards(cards, answers).plan_round(0.9), len(cards), 0) for _ in "12")
        pd.testing.assert_frame_equal(new, again)
        cards = pd.concat([cards, new], ignore_index=True)
    assert not cards.duplicated(["query_id", "image_id"]).any()
    assert sorted(cards["order"]) == list(range(1, len(cards) + 1))
    assert (cards.loc[cards["stratum"] == "drawn", "probability"] < 1).all()


def test_draws_estimate_the_relevant_pairs_without_bias() -> None:
    ratios = []
    for seed in range(60):
        pool, relevant = plant_pool(300, 0.1, "good", seed)
        estimate = Review(pool, relevant).work()["relevant_estimate"]
        ratios.append(estimate / relevant.sum())
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(("prevalence", "judge"), [(0.05, "weak"), (0.1, "good"), (0.3, "none")])
def test_what_a_hundred_more_judgments_give_is_not_promised_too_high(prevalence: float, judge: str) -> None:
    promised, reached = [], []
    for seed in range(8):
        pool, relevant = plant_pool(600, prevalence, judge, seed)
        rows = kinds = np.zeros(0, dtype=np.int64)
        forecasts = np.zeros(0)
        promise: float | None = None
        for most in (250, 350):
            while len(rows) < most:
                answered = AnsweredPool(pool, rows, kinds, forecasts, relevant[rows].astype(float))
                new = answered.plan_round(0.95)
                rows, kinds = np.concatenate([rows, new.rows])[:most], np.concatenate([kinds, new.kinds])[:most]
                forecasts = np.concatenate([forecasts, new.forecasts])[:most]
            stated = AnsweredPool(pool, rows, kinds, forecasts, relevant[rows].astype(float)).certify(0.95)
            promise = promise or stated["further"]["recall_at_least"]
        assert promise is not None and stated["further"]["judgments"] == 100
        promised.append(promise)
        reached.append(stated["recall_at_least"])
    assert np.mean(reached) - 0.25 < np.mean(promised) < np.mean(reached) + 0.05, (promised, reached)


@pytest.mark.parametrize("judge", ["good", "biased", "adversarial"])
def test_what_is_stated_is_true_at_every_look(judge: str) -> None:
    reviews = [Review(*plant_pool(300, 0.1, judge, seed, marked=0.3)) for seed in range(12)]
    for review in reviews:
        review.work(goes_on=True)
    assert sum(not review.was_true for review in reviews) <= 2


def test_a_good_judge_saves_most_of_the_work() -> None:
    review = Review(*plant_pool(4000, 0.1, "good", 1))
    review.work()
    assert review.was_true and review.at_goal is not None and review.at_goal < 0.4


@pytest.mark.filterwarnings("error::RuntimeWarning")  # a rate that rounds below 0 planned draws without end
@pytest.mark.slow
@pytest.mark.parametrize("judge", ["useless", "adversarial", "biased", "weak"])
@pytest.mark.parametrize("prevalence", [0.005, 0.02, 0.1, 0.3])
def test_no_judge_costs_more_than_judging_by_rank(prevalence: float, judge: str) -> None:
    asked, by_rank = [], []
    for seed in range(3):
        pool, relevant = plant_pool(4000, prevalence, judge, seed)
        asked.append(Review(pool, relevant).work()["asked"])
        by_rank.append(Review(order_by_rank(pool), relevant).work()["asked"])
    assert np.mean(asked) <= 1.05 * np.mean(by_rank)


def order_by_rank(pool: PooledPairs) -> PooledPairs:
    """The pool without a judge, queries and systems: its most probable pairs are those of the first ranks."""
    plain = PooledPairs(
        pool.pairs.assign(judge=-1), np.ones(len(pool.pairs)), pool.outside, 0, pool.query_count, pool.seed
    )
    plain.queries = np.arange(len(pool.pairs))
    return plain


@pytest.fixture
def experts(shared: Callable[[str], Path]) -> pd.DataFrame:
    """Pairs of a caption and another photo: whether the experts' median is 3 or 4, and how alike its captions are."""
    return read_expert_pairs(shared("captions")).pairs.rename(columns={"letters": "score"})


def certify(experts: pd.DataFrame, *, with_judge: bool) -> tuple[Review, float]:
    pairs = experts[["query_id", "image_id"]].assign(relevance=-1, best_rank=0, judge=-1)
    pairs = pairs.assign(score=experts["score"]) if with_judge else pairs
    none, queries = pairs[["query_id", "image_id"]].iloc[:0], experts["query_id"].nunique()
    review = Review(PooledPairs(pairs, np.ones(len(pairs)), none, 0, queries, 1), experts["relevant"].to_numpy())
    stated = review.work()
    return review, stated["found"] / experts["relevant"].sum()


def expected_error(chances: FloatArray, relevant: BoolArray) -> float:
    parts = np.array_split(np.argsort(chances, kind="stable"), 10)
    return sum(len(part) * abs(chances[part].mean() - relevant[part].mean()) for part in parts) / len(chances)


@pytest.mark.thorough
def test_captions_alone_save_a_third_of_the_judgments_and_the_bound_is_true(experts: pd.DataFrame) -> None:
    with_judge, found = certify(experts, with_judge=True)
    alone, _ = certify(experts, with_judge=False)
    assert with_judge.was_true and alone.was_true and found >= 0.9
    assert with_judge.at_goal is not None and alone.at_goal is not None
    assert with_judge.at_goal < 0.75 * alone.at_goal


@pytest.mark.thorough
def test_two_hundred_answers_calibrate_a_judge_of_captions(experts: pd.DataFrame) -> None:
    scores, relevant = experts["score"].to_numpy(), experts["relevant"].to_numpy()
    assert rank_area(scores, relevant.astype(float)) == pytest.approx(0.875, abs=0.01)
    errors = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(scores))
        known, other = order[:200], order[200:]
        curve = fit_curve(scores[known], relevant[known].astype(float), scores[other])
        errors.append(expected_error(curve, relevant[other]))
    assert np.mean(errors) <= 0.03
