"""How far people agree, what they disagree on until somebody settles it, and what counts of several at one log."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.lint import lint_tables
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_agreement import (
    DISAGREEMENTS_VIEW,
    PairwiseAgreement,
    cohen_kappa,
    compute_agreements,
    decision_category,
    find_disagreements,
    latest_decisions,
    share_decisions,
)
from querytruth.sets.decision_application import apply_decisions
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.decision_records import QueryDecision, effective
from querytruth.sets.ledger import Ledger
from tests.review.recall_sets import images_table, qrels_table, queries_table, typed_tables


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


TEXTS = {"q_zh": "狗", "q_en": "dog", "q_zs": "一张狗的图片", "q_cat": "猫"}


def dogs() -> Tables:
    """“狗” in three wordings, all judged by a detector, and “猫”; nobody judged the third image."""
    queries = [
        {"query_id": "q_zh", "text": "狗", "labels": ["dog"]},
        {"query_id": "q_en", "text": "dog", "language": "en", "labels": ["dog"]},
        {"query_id": "q_zs", "text": "一张狗的图片", "style": "sentence", "labels": ["dog"]},
        {"query_id": "q_cat", "text": "猫", "labels": ["cat"]},
    ]
    rows = [
        (query, image, grade) for query in ("q_zh", "q_en", "q_zs") for image, grade in (("img_1", 2), ("img_2", 1))
    ]
    qrels = qrels_table([*rows, ("q_cat", "img_3", 1)], "detector")
    return typed_tables(queries=queries_table(queries), images=images_table(["1", "2", "3", "4"]), qrels=qrels)


def on(query: str, image: str, grade: int, **more: Any) -> QueryDecision:
    return QueryDecision(query, TEXTS[query], "grade", image, relevance=grade, reviewer="lin", at=str(more), **more)


def applied(
    log: list[QueryDecision], tables: Tables | None = None, before: DecisionOutcome | None = None
) -> tuple[Tables, DecisionOutcome]:
    in_effect = frozenset(before.in_effect) if before else frozenset[str]()
    return apply_decisions(tables or dogs(), log, Ledger(), in_effect)


def grades(tables: Tables, image: str) -> dict[str, int]:
    rows = tables.qrels[tables.qrels["image_id"] == image]
    return dict(zip(rows["query_id"], rows["relevance"], strict=True))


def test_a_missed_image_added_to_one_query_is_added_to_all_that_ask_the_same() -> None:
    after, outcome = applied([on("q_en", "img_3", 2)])
    assert grades(after, "img_3") == {"q_zh": 2, "q_en": 2, "q_zs": 2, "q_cat": 1}
    rows = after.qrels[after.qrels["image_id"] == "img_3"].set_index("query_id")
    assert rows.at["q_en", "evidence"] == "grade by lin"
    assert rows.at["q_zh", "evidence"] == "grade by lin (asked as “dog”)" and rows.at["q_zh", "judged_by"] == "human"
    assert outcome.shared_count == 2 and not outcome.conflicts and len(outcome.in_effect) == 1


def test_a_confirmed_grade_is_confirmed_for_all_and_keeps_each_one_s_evidence() -> None:
    tables = dogs()
    tables = replace(tables, qrels=tables.qrels.assign(evidence=pd.Categorical(["why"] * len(tables.qrels))))
    keep = QueryDecision("q_zh", "狗", "keep", "img_1", relevance=2, reviewer="lin")
    after, _ = applied([keep], tables)
    rows = after.qrels[after.qrels["image_id"] == "img_1"]
    assert rows["relevance"].tolist() == [2] * 3 and rows["evidence"].tolist() == ["why"] * 3
    assert rows["judged_by"].tolist() == ["human"] * 3


def test_a_text_is_edited_or_dropped_for_its_own_query_alone() -> None:
    edit = QueryDecision("q_zh", "狗", "edit", new_text="小狗")
    after, outcome = applied([edit, QueryDecision("q_zs", TEXTS["q_zs"], "drop")])
    assert after.queries["text"].tolist() == ["小狗", "dog", "猫"] and outcome.shared_count == 0


def test_what_was_judged_on_a_dropped_text_holds_for_the_others() -> None:
    after, _ = applied([on("q_zh", "img_3", 1), QueryDecision("q_zh", "狗", "drop")])
    assert grades(after, "img_3") == {"q_en": 1, "q_zs": 1, "q_cat": 1}


def test_two_texts_judged_differently_are_a_conflict_and_each_keeps_its_own() -> None:
    after, outcome = applied([on("q_zh", "img_3", 2), on("q_en", "img_3", 0)])
    assert grades(after, "img_3") == {"q_zh": 2, "q_en": 0, "q_zs": 0, "q_cat": 1}, "the third has the later one"
    (conflict,) = outcome.conflicts
    assert conflict.describe() == "“狗” 2, “dog” 0"
    assert outcome.as_record()["conflicts"] == [{"image_id": "img_3", "grades": {"q_zh": "2", "q_en": "0"}}]
    assert [f.check for f in lint_tables(after) if f.severity == "error"] == ["contradicting_truth"]


def test_two_texts_judged_alike_are_none() -> None:
    after, outcome = applied([on("q_zh", "img_3", 2), on("q_en", "img_3", 2)])
    assert not outcome.conflicts and set(grades(after, "img_3").values()) == {1, 2}


def test_a_conflict_with_a_published_decision_is_shown_until_it_is_resolved() -> None:
    log = [on("q_zh", "img_3", 2)]
    second, first = applied(log)
    log.append(on("q_en", "img_3", 0))
    third, outcome = applied(log, second, first)
    assert grades(third, "img_3") == {"q_zh": 2, "q_en": 0, "q_zs": 0, "q_cat": 1} and len(outcome.conflicts) == 1
    assert len(applied(log, third, outcome)[1].conflicts) == 1, "nothing new was decided, the conflict stands"
    log.append(on("q_zh", "img_3", 0, source="again"))
    fourth, resolved = applied(log, third, outcome)
    assert not resolved.conflicts and grades(fourth, "img_3")["q_zh"] == 0


def test_a_query_that_lost_its_last_right_image_goes_with_all_that_ask_the_same() -> None:
    after, _ = applied([on("q_en", "img_1", 0), on("q_zh", "img_2", 0)])
    assert after.queries["query_id"].tolist() == ["q_cat"]


def test_an_older_decision_is_not_shared_over_a_newer_one_that_a_version_holds() -> None:
    """Logs of two people are joined: hers of Monday arrives after his of Tuesday was published."""
    monday, tuesday = on("q_zh", "img_1", 0), on("q_en", "img_1", 2)
    same = ("q_zh", "q_en", "q_zs")
    shared = share_decisions(
        [monday], [tuesday], dict.fromkeys(same, same), {monday.decision_id: 0, tuesday.decision_id: 1}
    )
    assert shared == {("q_zh", "img_1"): [monday]}
    later = share_decisions(
        [monday], [tuesday], dict.fromkeys(same, same), {monday.decision_id: 1, tuesday.decision_id: 0}
    )
    assert later.keys() == {("q_zh", "img_1"), ("q_zs", "img_1")}
