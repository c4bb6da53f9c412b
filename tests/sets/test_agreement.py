"""How far two people agree: Cohen's own worked table, and what they disagree on until somebody settles it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.sets.decision_agreement import (
    DISAGREEMENTS_VIEW,
    PairwiseAgreement,
    cohen_kappa,
    compute_agreements,
    decision_category,
    find_disagreements,
    latest_decisions,
)
from querytruth.sets.decision_records import QueryDecision, effective


def said(reviewer: str, image: str | None, decision: str, relevance: int | None = None, **more: str) -> QueryDecision:
    return QueryDecision("q_1", "狗", decision, image, relevance=relevance, reviewer=reviewer, **more)


def test_kappa_is_that_of_a_table_worked_by_hand() -> None:
    """50 items: both yes 20, both no 15, 5 and 10 mixed; observed 0.7, expected 0.5 * 0.6 + 0.5 * 0.4 = 0.5."""
    both = [("1", "1")] * 20 + [("1", "0")] * 5 + [("0", "1")] * 10 + [("0", "0")] * 15
    assert cohen_kappa(both) == pytest.approx(0.4)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("012"), st.sampled_from("012")), min_size=1, max_size=40))
def test_kappa_is_that_of_the_reference(both: list[tuple[str, str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    mine = cohen_kappa(both)
    if mine is not None:
        assert mine == pytest.approx(metrics.cohen_kappa_score(*zip(*both, strict=True)))
        assert cohen_kappa([(b, a) for a, b in both]) == pytest.approx(mine)


def test_where_kappa_says_nothing_there_is_none() -> None:
    assert cohen_kappa([]) is None
    assert cohen_kappa([("1", "1")] * 9) is None, "one and the same of everything: no chance to differ"
    assert cohen_kappa([("1", "1"), ("0", "0")]) == 1.0
    assert cohen_kappa([("1", "0"), ("0", "1")]) == -1.0


def test_what_people_mean_is_compared_and_not_how_they_said_it() -> None:
    assert decision_category(said("lin", "img_1", "drop")) == decision_category(said("mei", "img_1", "grade", 0)) == "0"
    assert (
        decision_category(said("lin", "img_1", "keep", 2)) == decision_category(said("mei", "img_1", "grade", 2)) == "2"
    )
    assert decision_category(said("lin", "img_1", "keep")) == "1", "a pair that waited, confirmed"
    assert decision_category(QueryDecision("q_1", "狗", "edit", new_text="小狗")) != decision_category(
        QueryDecision("q_1", "狗", "edit", new_text="大狗")
    )


def test_queries_and_judgments_are_counted_apart_and_each_two_people() -> None:
    log = [
        *[said(who, f"img_{n}", "grade", n % 2) for who in ("lin", "mei") for n in range(4)],
        said("lin", None, "keep"), said("mei", None, "drop"), said("wu", "img_9", "drop"),
    ]  # fmt: skip
    assert compute_agreements(latest_decisions(log)) == [
        PairwiseAgreement("lin", "mei", "queries", 1, 0, 0.0),
        PairwiseAgreement("lin", "mei", "judgments", 4, 4, 1.0),
    ]
    assert compute_agreements(latest_decisions([])) == []


def test_the_last_word_of_each_counts() -> None:
    log = [said("lin", "img_1", "grade", 2), said("mei", "img_1", "grade", 0), said("lin", "img_1", "grade", 0)]
    assert find_disagreements(latest_decisions(log[:2])) == [("q_1", "img_1")]
    assert find_disagreements(latest_decisions(log)) == []


def test_a_word_on_the_dispute_settles_it_until_somebody_speaks_again() -> None:
    log = [said("lin", "img_1", "grade", 2), said("mei", "img_1", "grade", 0)]
    log.append(said("lin", "img_1", "grade", 1, view=DISAGREEMENTS_VIEW))
    assert find_disagreements(latest_decisions(log)) == []
    log.append(said("mei", "img_1", "grade", 0, view="pairs"))
    assert find_disagreements(latest_decisions(log)) == [("q_1", "img_1")]


def test_one_person_cannot_disagree() -> None:
    assert (
        find_disagreements(latest_decisions([said("lin", "img_1", "grade", 2), said("lin", "img_1", "grade", 0)])) == []
    )


def undo(decision: QueryDecision) -> QueryDecision:
    return QueryDecision(decision.query_id, decision.text, "undo", decision.image_id, undoes=decision.decision_id)


def test_what_was_taken_back_does_not_stand() -> None:
    first, second = said("lin", "img_1", "grade", 2, at="1"), said("lin", "img_1", "grade", 0, at="2")
    assert effective([first, second]) == [first, second]
    assert effective([first, second, undo(second)]) == [first]
    assert effective([first, second, undo(second), undo(first)]) == []
    assert effective([first, undo(first), first]) == [first], "said again after it was taken back"
    assert effective([first, first, undo(first)]) == [first], "one undo takes one line back"
    lost = undo(said("lin", "img_2", "drop"))
    assert effective([first, lost]) == [first, lost], "an undo of nothing is not passed over in silence"
    final = frozenset([first.decision_id])
    assert effective([first, undo(first)], final) == [first, undo(first)], "what is published is not taken back"
