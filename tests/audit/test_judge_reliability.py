"""Agreement of judges with people, on eight real judges and against another library."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from querytruth.audit.judge_reliability import describe_agreement, describe_reliability, fit_curve, weighted_kappa
from querytruth.audit.pair_audit import StratumCounts, estimate_total, split_by_judge
from tests.audit.planted_worlds import coverage, mean_width

LABELS, SAMPLES = 200, 4000
# What the judges' authors published (github.com/naghmefarzi/llmjudge, analysis/, of the test split).
PUBLISHED = {
    "test_naiveb_on_decomposed": 0.17410234518367074,
    "test_baseline_prompt_order_0123": 0.12726056974474897,
    "test_decomposed_relavance": 0.1829442621350349,
    "test_gen_query_similarity": 0.14076384195997538,
    "test_sum_of_decomposed_prompts": 0.20884347071761322,
}


@pytest.fixture
def graded(shared: Callable[[str], Path]) -> pd.DataFrame:
    return pd.read_csv(shared("judges/llmjudge.csv"))


def judges_of(graded: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By judge the pairs that it graded."""
    return {name: graded[graded[name].notna()] for name in graded.columns[3:]}


def test_kappa_is_scikit_learns_also_with_weights(graded: pd.DataFrame) -> None:
    weights = np.random.default_rng(0).random(len(graded))
    for name, pairs in judges_of(graded).items():
        people, judge = pairs["human"].astype(int).tolist(), pairs[name].astype(int).tolist()
        weight = weights[: len(pairs)].tolist()
        assert weighted_kappa(people, judge, weight) == pytest.approx(
            cohen_kappa_score(people, judge, sample_weight=weight), abs=1e-12
        )
    assert weighted_kappa([1, 1], [1, 1], [1, 1]) is None


def test_kappas_are_those_that_were_published(graded: pd.DataFrame) -> None:
    for name, pairs in judges_of(graded[["query_id", "item_id", "human", *PUBLISHED]]).items():
        people, judge = pairs["human"].astype(int).tolist(), pairs[name].astype(int).tolist()
        assert weighted_kappa(people, judge, [1.0] * len(pairs)) == pytest.approx(PUBLISHED[name], abs=5e-5), name


def test_two_hundred_labels_hold_the_truth_whichever_judge_divides_the_pool(graded: pd.DataFrame) -> None:
    rng = np.random.default_rng(2)
    for name, pairs in judges_of(graded).items():
        relevant, says = (pairs["human"] >= 2).to_numpy(), (pairs[name] >= 2).to_numpy()
        parts = [relevant[says], relevant[~says]]
        sizes = [part.size for part in parts]
        split = split_by_judge(sizes, [0.5, 0.02], LABELS)
        drawn = zip(parts, split, strict=True)
        found = [rng.hypergeometric(part.sum(), (~part).sum(), count, SAMPLES) for part, count in drawn]
        divided = estimate_total(StratumCounts(np.array(sizes), split, np.stack(found, axis=-1)))
        plain = rng.hypergeometric(relevant.sum(), (~relevant).sum(), LABELS, SAMPLES)[:, None]
        alone = estimate_total(StratumCounts(np.array([len(pairs)]), np.array([LABELS]), plain))
        assert 0.93 <= coverage(divided, relevant.sum()) <= 0.97, name
        assert mean_width(divided) <= 1.05 * mean_width(alone), name


def test_a_card_weighs_the_pairs_that_were_rarely_drawn() -> None:
    # One stratum drawn wholly (the judge says yes), one drawn 1 in 10 (the judge says no).
    people, judge = [1, 1, 0, 1, 0, 0], [2, 1, 1, 0, 0, 0]
    card = describe_agreement(people, judge, [1, 1, 1, 10, 10, 10])
    assert card["relevant_by_people"] == pytest.approx(12 / 33) and card["relevant_by_judge"] == pytest.approx(3 / 33)
    assert card["sensitivity"]["value"] == pytest.approx(2 / 12) and card["specificity"]["value"] == pytest.approx(
        20 / 21
    )
    assert card["sensitivity"]["low"] < 2 / 12 < card["sensitivity"]["high"]
    assert card["confusion"] == {"0": {"0": 2, "1": 1}, "1": {"0": 1, "1": 1, "2": 1}}


def draw_scores(answers: int, seed: int) -> tuple[Any, Any, list[str]]:
    """Overconfident scores of pairs of 40 queries, a third of them relevant."""
    rng = np.random.default_rng(seed)
    relevant = (rng.random(answers) < 0.33).astype(float)
    raw = 2.4 * relevant + rng.normal(0, 1, answers)
    return 1 / (1 + np.exp(-3 * raw)), relevant, [f"q{n}" for n in rng.integers(0, 40, answers)]


def test_scores_are_not_believed_below_thirty_answers() -> None:
    assert describe_reliability(*draw_scores(29, 1)) is None
    scores, _, queries = draw_scores(60, 1)
    assert describe_reliability(scores, np.ones(60), queries) is None


@pytest.mark.parametrize("answers", [150, 2000])
def test_calibrated_scores_say_what_people_say(answers: int) -> None:
    found = describe_reliability(*draw_scores(answers, 1))
    assert found is not None and found["area"] > 0.9
    assert found["expected_error"] < (0.08 if answers < 1000 else 0.03)
    assert sum(one["pairs"] for one in found["curve"]) == answers


@pytest.mark.parametrize("scores", [(0.1, 0.9), (-3.0, 5.0)])
def test_a_step_has_two_more_answers_at_the_base_rate(scores: tuple[float, float]) -> None:
    """Of 135 pairs with the lower score none is relevant, of 15 with the higher 10, in whatever order."""
    known = np.repeat(scores, (135, 15))[::-1]
    relevant = np.concatenate([np.ones(10), np.zeros(140)])
    expected = [2 / 15 / 137, (10 + 2 / 15) / 17]
    assert fit_curve(known, relevant, np.array(scores)) == pytest.approx(expected)


def test_three_relevant_pairs_on_top_are_not_certain() -> None:
    scores, relevant = np.arange(100.0), (np.arange(100) > 96).astype(float)
    assert fit_curve(scores, relevant, np.array([99.0]))[0] == pytest.approx((3 + 2 * 0.03) / 5)


@pytest.mark.parametrize("share", [0.02, 0.04, 0.1, 0.2, 0.4])
def test_what_is_published_from_nine_tenths_on_is_right_in_nine_tenths(share: float) -> None:
    """A strong judge whose scores have no logistic shape, at 150 to 2,000 answers; 20 draws of each."""
    rng = np.random.default_rng(7)

    def draw(count: int) -> tuple[Any, Any]:
        relevant = (rng.random(count) < share).astype(float)
        return 1 / (1 + np.exp(-3 * (2.4 * relevant + rng.normal(0, 1, count)))), relevant

    scores, relevant = draw(40_000)
    for answers in (150, 200, 500, 2000):
        curves = [fit_curve(*draw(answers), scores) for _ in range(20)]
        published = np.concatenate([relevant[curve >= 0.9] for curve in curves])
        assert not len(published) or published.mean() > 0.87, answers
