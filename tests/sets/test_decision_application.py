"""Decisions on a small set: what each does, which one counts, and that it never matters when they were applied."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.lint import lint_tables
from querytruth.sets import decision_application
from querytruth.sets.benchmark_set import Tables, content_digest, open_candidate_judgments
from querytruth.sets.decision_application import apply_decisions, merge_judgments
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.decision_records import QueryDecision, parse_decision
from querytruth.sets.ledger import Ledger
from querytruth.sets.review_tables import export_judgments
from tests.review.recall_sets import images_table, typed_tables

PAIRS = {  # query, image: relevance, evidence
    ("q_cat", "img_1"): (2, None),
    ("q_dog", "img_1"): (2, "皮鞋 accepted for 鞋子"),
    ("q_dog", "img_2"): (1, "small"),
    ("q_dog", "img_3"): (0, "near miss"),
    ("q_shoe", "img_2"): (1, "small"),
    ("q_shoe", "img_3"): (1, "small"),
}
TEXTS = {"q_cat": "猫", "q_dog": "狗", "q_shoe": "鞋子"}


def tables_of(queries: pd.DataFrame, qrels: pd.DataFrame) -> Tables:
    """With four images."""
    return typed_tables(queries=queries, images=images_table(["1", "2", "3", "4"]), qrels=qrels)


def pets() -> Tables:
    """Three queries, four images, six judgments; img_4 is judged for none."""
    queries = pd.DataFrame({"query_id": list(TEXTS), "text": list(TEXTS.values()), "language": "zh", "style": "word"})
    queries["level"], queries["labels"] = 1, [["a"], None, ["a", "b"]]
    qrels = pd.DataFrame([(*pair, *said) for pair, said in PAIRS.items()])
    qrels.columns = ["query_id", "image_id", "relevance", "evidence"]
    qrels["judged_by"] = "rule"
    return tables_of(queries, qrels)


def on(query: str, decision: str, **more: Any) -> QueryDecision:
    """A word on a query, or with `image_id` on a judgment, by somebody who saw the set's own text."""
    return QueryDecision(**{"query_id": query, "text": TEXTS[query], "decision": decision, "reviewer": "lin", **more})


def applied(
    log: list[QueryDecision], tables: Tables | None = None, before: DecisionOutcome | None = None
) -> tuple[Tables, DecisionOutcome, Ledger]:
    ledger = Ledger()
    in_effect = frozenset(before.as_record()["in_effect"]) if before else frozenset[str]()
    after, outcome = apply_decisions(tables or pets(), log, ledger, in_effect)
    return after, outcome, ledger


def digest(tables: Tables) -> str:
    return content_digest(tables.to_arrow_tables())


def judgments(tables: Tables) -> dict[tuple[str, str], tuple[int, str, str | None]]:
    rows = tables.to_arrow_tables()["qrels"].to_pylist()
    return {(r["query_id"], r["image_id"]): (r["relevance"], r["judged_by"], r["evidence"]) for r in rows}


def texts(tables: Tables) -> dict[str, str]:
    return dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))


def test_an_edit_changes_the_text_and_nothing_else() -> None:
    after, outcome, _ = applied([on("q_dog", "edit", new_text="小狗")])
    assert texts(after) == TEXTS | {"q_dog": "小狗"}
    assert judgments(after) == judgments(pets())
    assert len(outcome.applied) == 1 and not outcome.stale and not outcome.earlier


def test_a_dropped_query_goes_with_its_judgments_and_its_note_is_the_reason() -> None:
    after, _, ledger = applied([on("q_dog", "drop", note="模糊")])
    assert set(texts(after)) == {"q_cat", "q_shoe"}
    assert {query for query, _ in judgments(after)} == {"q_cat", "q_shoe"}
    assert ledger.rows()[["item", "bucket", "reason", "text", "detail"]].values.tolist() == [
        ["q_dog", "rejected", "dropped_by_person", TEXTS["q_dog"], "模糊"]
    ]


def test_a_grade_is_a_person_s_judgment_with_the_note_as_evidence() -> None:
    log = [
        on("q_dog", "grade", image_id="img_1", relevance=1, note="half hidden"),
        on("q_dog", "grade", image_id="img_3", relevance=2),
    ]
    found = judgments(applied(log)[0])
    assert found["q_dog", "img_1"] == (1, "human", "half hidden")
    assert found["q_dog", "img_3"] == (2, "human", "grade by lin")
    changed = {pair for pair, said in judgments(pets()).items() if found[pair] != said}
    assert changed == {("q_dog", "img_1"), ("q_dog", "img_3")}, "nothing else"


@pytest.mark.parametrize(
    ("query", "decision", "expected"),
    [("q_dog", "drop", (0, "human", "drop by lin")), ("q_cat", "keep", (2, "human", "keep by lin"))],
)
def test_a_judgment_without_evidence_says_who_made_it(query: str, decision: str, expected: tuple[Any, ...]) -> None:
    assert judgments(applied([on(query, decision, image_id="img_1")])[0])[query, "img_1"] == expected


@pytest.mark.parametrize("seen", [None, 2])
def test_a_kept_judgment_is_confirmed_and_keeps_its_evidence(seen: int | None) -> None:
    after, _, _ = applied([on("q_dog", "keep", image_id="img_1", relevance=seen, note="yes")])
    assert judgments(after)["q_dog", "img_1"] == (2, "human", "皮鞋 accepted for 鞋子")


def test_what_was_seen_is_kept_when_the_rule_has_changed_its_mind() -> None:
    """The person confirmed a 1; the new build says 2."""
    after, _, _ = applied([on("q_dog", "keep", image_id="img_1", relevance=1)])
    assert judgments(after)["q_dog", "img_1"] == (1, "human", "keep by lin")


def test_a_judgment_on_an_unjudged_pair_becomes_a_row() -> None:
    log = [on("q_dog", "grade", image_id="img_4", relevance=2), on("q_cat", "drop", image_id="img_4")]
    found = judgments(applied(log)[0])
    assert found["q_dog", "img_4"] == (2, "human", "grade by lin")
    assert found["q_cat", "img_4"] == (0, "human", "drop by lin")
    assert len(found) == len(PAIRS) + 2


def test_a_query_that_lost_its_last_right_image_goes_with_that_reason() -> None:
    log = [on("q_shoe", "drop", image_id="img_2"), on("q_shoe", "grade", image_id="img_3", relevance=0)]
    after, _, ledger = applied(log)
    assert set(texts(after)) == {"q_cat", "q_dog"}
    assert not [pair for pair in judgments(after) if pair[0] == "q_shoe"]
    assert ledger.rows()[["item", "reason"]].values.tolist() == [["q_shoe", "no_relevant_left"]]


def test_one_that_had_no_right_image_before_is_not_the_decisions_affair() -> None:
    tables = pets()
    tables = replace(tables, qrels=tables.qrels[tables.qrels["query_id"] != "q_cat"].reset_index(drop=True))
    after, _, _ = applied([on("q_dog", "edit", new_text="小狗")], tables)
    assert "q_cat" in texts(after)


@pytest.mark.parametrize("first", ["keep", "drop", "edit"])
def test_of_several_on_a_query_the_last_counts(first: str) -> None:
    before = on("q_dog", first, new_text="小狗" if first == "edit" else None)
    after, outcome, _ = applied([before, on("q_dog", "edit", new_text="大狗")])
    assert texts(after)["q_dog"] == "大狗"
    assert outcome.superseded == [before] and len(outcome.applied) == 1
    assert "q_dog" not in texts(applied([before, on("q_dog", "drop")])[0])
    assert digest(applied([before, on("q_dog", "keep")])[0]) == digest(pets())


def test_of_several_on_a_judgment_the_last_counts() -> None:
    words = [on("q_dog", d, image_id="img_1", relevance=r) for d, r in (("drop", None), ("grade", 1), ("keep", 2))]
    assert judgments(applied(words[:1])[0])["q_dog", "img_1"] == (0, "human", "drop by lin")
    assert judgments(applied(words[:2])[0])["q_dog", "img_1"] == (1, "human", "grade by lin")
    assert judgments(applied(words)[0])["q_dog", "img_1"] == (2, "human", "keep by lin")


def test_a_keep_without_a_grade_confirms_what_is_there_whether_that_was_published_or_not() -> None:
    drop, keep = (on("q_dog", decision, image_id="img_1") for decision in ("drop", "keep"))
    at_once, _, _ = applied([drop, keep])
    published, outcome, _ = applied([drop])
    after, _ = apply_decisions(published, [drop, keep], Ledger(), {one.decision_id for one in outcome.applied})
    assert judgments(at_once)["q_dog", "img_1"] == judgments(after)["q_dog", "img_1"] == (0, "human", "drop by lin")


STALE = [
    (on("q_dog", "drop", text="旧的"), "the text of the query is now '狗'"),
    (on("q_dog", "edit", text="旧的", new_text="新的"), "the text of the query is now '狗'"),
    (on("q_dog", "grade", text="旧的", image_id="img_1", relevance=0), "the text of the query is now '狗'"),
    (on("q_dog", "drop", query_id="q_gone"), "the query is no longer in the set"),
    (on("q_dog", "drop", image_id="img_gone"), "the image is no longer in the set"),
]


@pytest.mark.parametrize(("decision", "why"), STALE)
def test_a_decision_that_no_longer_fits_says_why_and_changes_nothing(decision: QueryDecision, why: str) -> None:
    after, outcome, ledger = applied([decision])
    assert outcome.stale == [(decision, why)] and not outcome.applied
    assert digest(after) == digest(pets()) and not ledger.stages
    (listed,) = outcome.as_record()["stale"]
    assert (listed["decision"], listed["why"]) == (decision.decision_id, why)
    assert outcome.as_record()["in_effect"] == []


def test_a_stale_one_neither_undoes_an_earlier_word_nor_is_told_after_a_later_one() -> None:
    stale = on("q_dog", "keep", text="旧的")
    after, outcome, _ = applied([on("q_dog", "drop"), stale])
    assert "q_dog" not in texts(after) and len(outcome.stale) == 1
    after, outcome, _ = applied([stale, on("q_dog", "drop")])
    assert "q_dog" not in texts(after) and not outcome.stale


def test_an_edit_to_what_the_query_reads_already_fits() -> None:
    after, outcome, _ = applied([on("q_dog", "edit", text="旧的", new_text="狗")])
    assert not outcome.stale and digest(after) == digest(pets())


def test_a_decision_on_a_text_that_was_edited_since_is_stale() -> None:
    log = [on("q_dog", "edit", new_text="小狗")]
    second, first_outcome, _ = applied(log)
    third, outcome, _ = applied([*log, on("q_dog", "drop")], second, first_outcome)
    assert outcome.stale[0][1] == "the text of the query is now '小狗'"
    assert outcome.earlier == log and digest(third) == digest(second)


def test_the_log_on_the_set_it_led_to_changes_nothing() -> None:
    log = [on("q_dog", "edit", new_text="小狗"), on("q_cat", "drop"), on("q_dog", "keep", image_id="img_1"),
           on("q_shoe", "drop", image_id="img_2"), on("q_dog", "grade", image_id="img_4", relevance=1)]  # fmt: skip
    second, first_outcome, _ = applied(log)
    again, outcome, ledger = applied(log, second, first_outcome)
    assert digest(again) == digest(second) == digest(applied(log)[0])
    assert len(outcome.earlier) == 5 and not outcome.applied and not outcome.stale and not ledger.stages


def test_an_edit_of_an_edit_is_rebuilt_from_the_start() -> None:
    """Someone saw v2 and went on from its text: a rebuild knows that text only by the first edit."""
    log = [on("q_dog", "edit", new_text="小狗")]
    second, outcome, _ = applied(log)
    log += [on("q_dog", "edit", text="小狗", new_text="小小狗"), on("q_dog", "drop", text="小狗", image_id="img_2")]
    third, third_outcome, _ = applied(log, second, outcome)
    assert texts(third)["q_dog"] == "小小狗" and not third_outcome.stale
    assert digest(applied(log)[0]) == digest(third)
    in_effect = third_outcome.as_record()["in_effect"]
    assert digest(applied([d for d in log if d.decision_id in in_effect])[0]) == digest(third)


def test_edits_of_edits_fit_in_whatever_order_two_logs_were_joined() -> None:
    log = [on("q_dog", "edit", text="小狗", new_text="小小狗"), on("q_dog", "edit", new_text="小狗")]
    _, outcome, _ = applied([*log, on("q_dog", "drop", text="小小狗", image_id="img_2")])
    assert not outcome.stale


def test_a_drop_in_effect_stays_in_effect_when_somebody_regrets_it() -> None:
    """The row is gone, so `keep` cannot bring it back here; that the drop is in effect must not be forgotten."""
    log = [on("q_dog", "drop")]
    second, outcome, _ = applied(log)
    regret = on("q_dog", "keep")
    third, outcome, _ = applied([*log, regret], second, outcome)
    assert outcome.stale == [(regret, "the query is no longer in the set")]
    assert outcome.as_record()["in_effect"] == [log[0].decision_id]
    assert digest(applied([*log, regret])[0]) == digest(pets()), "a new build takes the last word"
    assert digest(third) == digest(second)


def steps(draw: st.DrawFn, tables: Tables) -> list[QueryDecision]:
    """What people who look at these tables might decide, some of them on an older text."""
    said = []
    for _ in range(draw(st.integers(0, 4))):
        query = draw(st.sampled_from(sorted(TEXTS)))
        text = draw(st.sampled_from([texts(tables).get(query, "?"), TEXTS[query], "小狗"]))
        image = draw(st.sampled_from([None, "img_1", "img_2", "img_4"]))
        choice = draw(st.sampled_from(["keep", "drop", "edit"] if image is None else ["keep", "drop", "grade"]))
        grade = draw(st.integers(0, 2)) if choice == "grade" else None
        if choice == "keep" and image is not None:
            grade = judgments(tables).get((query, image), (1,))[0]
        new = draw(st.sampled_from(["小狗", "大狗", "狗"])) if choice == "edit" else None
        said.append(QueryDecision(query, text, choice, image, new, grade, note=draw(st.sampled_from(["", "why"]))))
    return said


@settings(max_examples=60)
@given(st.data())
@pytest.mark.slow
def test_a_rebuild_with_what_is_in_effect_gives_the_same_content(data: st.DataObject) -> None:
    """Three rounds of decisions, a version each; from the start with those in effect it is the same version."""
    tables, log, outcome = pets(), list[QueryDecision](), DecisionOutcome()
    for _ in range(3):
        said = data.draw(st.composite(lambda draw, t=tables: steps(draw, t))())
        log += [replace(decision, at=f"{len(log) + n}") for n, decision in enumerate(said)]
        before = [frame.copy(deep=True) for frame in (tables.queries, tables.images, tables.qrels)]
        after, outcome, ledger = applied(log, tables, outcome)
        for frame, copy in zip((tables.queries, tables.images, tables.qrels), before, strict=True):
            pd.testing.assert_frame_equal(frame, copy)
        for stage in ledger.funnel():
            assert stage["entered"] == len(tables.queries) and stage["accepted"] == len(after.queries)
        in_effect = outcome.as_record()["in_effect"]
        rebuilt, _, _ = applied([decision for decision in log if decision.decision_id in in_effect])
        assert digest(rebuilt) == digest(after)
        assert digest(applied(log, after, outcome)[0]) == digest(after)
        tables = after


def test_an_undo_names_what_it_undoes_and_older_lines_keep_their_ids() -> None:
    drop = on("q_dog", "drop")
    assert "undoes" not in drop.as_json()
    back = QueryDecision("q_dog", TEXTS["q_dog"], "undo", undoes=drop.decision_id)
    assert parse_decision(back.as_json()) == back
    for broken in (replace(back, undoes=None), replace(drop, undoes="d_1")):
        with pytest.raises(ValueError, match="undo needs"):
            parse_decision(broken.as_json())


DROPPED = on("q_dog", "drop")
TAKEN_BACK = QueryDecision("q_dog", TEXTS["q_dog"], "undo", undoes=DROPPED.decision_id)


def test_what_was_taken_back_changes_nothing_and_is_not_in_effect() -> None:
    tables, outcome, _ = applied([DROPPED, TAKEN_BACK])
    assert digest(tables) == digest(pets()) and outcome.as_record() == {"in_effect": [], "stale": []}


def test_an_undo_of_what_is_published_is_listed_as_stale() -> None:
    second, outcome, _ = applied([DROPPED])
    third, outcome, _ = applied([DROPPED, TAKEN_BACK], second, outcome)
    assert digest(third) == digest(second) and "decide again" in outcome.stale[0][1]


def test_a_word_that_fits_too_late_changes_nothing_under_a_later_one_that_is_published() -> None:
    early = QueryDecision("q_shoe", "小狗", "keep", "img_1", relevance=1)  # a text that the query does not have yet
    later = QueryDecision("q_shoe", TEXTS["q_shoe"], "keep", "img_1", relevance=1, note="why")
    second, outcome, _ = applied([early, later])
    edit = QueryDecision("q_shoe", TEXTS["q_shoe"], "edit", new_text="小狗")
    third, outcome, _ = applied([early, later, edit], second, outcome)
    assert [(d, "published version already" in why) for d, why in outcome.stale] == [(early, True)]
    assert early.decision_id not in outcome.as_record()["in_effect"]
    assert digest(applied([early, later, edit], third, outcome)[0]) == digest(third)


def test_only_the_judgments_that_were_decided_are_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten: list[int] = []

    def count(rest: pd.DataFrame, changed: pd.DataFrame) -> pd.DataFrame:
        rewritten.append(len(changed))
        return merge_judgments(rest, changed)

    monkeypatch.setattr(decision_application, "merge_judgments", count)
    applied([on("q_dog", "grade", image_id="img_2", relevance=2), on("q_dog", "keep", image_id="img_4")])
    assert rewritten == [2], "img_1 and img_3 of the same query stay as they are"


GREY = "a grey landscape indoors."


def landscape(judge: str = "caption", labels: list[str] | None = None) -> Tables:
    """One query, of its own image and of another that the caption fitted; a person judged a third."""
    queries = pd.DataFrame({"query_id": ["q_a", "q_b"], "text": [GREY, "a red boat"], "language": "en"})
    queries = queries.assign(style="caption", level=1, source_image_id=["img_1", "img_4"])
    queries["labels"] = [labels, labels]
    rows = [
        ("q_a", "img_1", 1, judge),
        ("q_a", "img_2", 1, judge),
        ("q_a", "img_3", 0, "human"),
        ("q_b", "img_4", 1, judge),
    ]
    qrels = pd.DataFrame(rows, columns=["query_id", "image_id", "relevance", "judged_by"]).assign(evidence=None)
    return tables_of(queries, qrels)


def edit(new: str) -> QueryDecision:
    return QueryDecision("q_a", GREY, "edit", new_text=new, reviewer="lin")


def test_judgments_made_from_a_text_die_with_it_and_wait_for_a_person() -> None:
    after, outcome = apply_decisions(landscape(), [edit("a white rose")], Ledger())
    assert texts(after)["q_a"] == "a white rose" and len(outcome.applied) == 1
    assert judgments(after).keys() == {("q_a", "img_3"), ("q_b", "img_4")}, "a person's judgment stays"
    waiting = open_candidate_judgments(after)
    assert waiting[["query_id", "image_id"]].to_numpy().tolist() == [["q_a", "img_1"], ["q_a", "img_2"]]
    assert set(waiting["evidence"]) == {f"judged for the text before an edit: {GREY}"}
    findings = {finding.check: finding for finding in lint_tables(after)}
    assert findings["edited_query_waits"].count == 1 and "empty_truth" not in findings


def test_a_yes_to_the_new_text_gives_the_query_its_image_back() -> None:
    log = [edit("a white rose")]
    edited, outcome = apply_decisions(landscape(), log, Ledger())
    log.append(QueryDecision("q_a", "a white rose", "keep", image_id="img_2", reviewer="lin"))
    answered, _ = apply_decisions(edited, log, Ledger(), frozenset(outcome.as_record()["in_effect"]))
    assert judgments(answered)["q_a", "img_2"][:2] == (1, "human")
    assert "edited_query_waits" not in {finding.check for finding in lint_tables(answered)}
    log[-1] = QueryDecision("q_a", "a white rose", "drop", image_id="img_2", reviewer="lin")
    refused, _ = apply_decisions(edited, log, Ledger(), frozenset(outcome.as_record()["in_effect"]))
    assert "q_a" in texts(refused), "its own image still waits"
    log.append(QueryDecision("q_a", "a white rose", "drop", image_id="img_1", reviewer="lin"))
    ledger = Ledger()
    gone, _ = apply_decisions(edited, log, ledger, frozenset(outcome.as_record()["in_effect"]))
    assert "q_a" not in texts(gone) and ledger.rows()["reason"].tolist() == ["no_relevant_left"]


def test_who_keeps_an_edited_query_keeps_its_text_not_the_old_truth() -> None:
    kept = QueryDecision("q_a", "a white rose", "keep", reviewer="lin")
    after, _ = apply_decisions(landscape(), [edit("a white rose"), kept], Ledger())
    assert texts(after)["q_a"] == "a white rose" and ("q_a", "img_1") not in judgments(after)
    back = QueryDecision("q_a", GREY, "keep", reviewer="lin")
    assert len(judgments(apply_decisions(landscape(), [edit("a white rose"), back], Ledger())[0])) == 4


def test_a_person_may_say_that_the_truth_outlives_an_edit() -> None:
    same = replace(edit("a landscape in grey, indoors"), keeps_truth=True)
    assert parse_decision(same.as_json()) == same and "keeps_truth" not in edit("x").as_json()
    after, _ = apply_decisions(landscape(), [same], Ledger())
    assert texts(after)["q_a"] == same.new_text and len(judgments(after)) == 4
    other = QueryDecision("q_a", same.new_text or "", "edit", new_text="a white rose", reviewer="lin")
    asked, _ = apply_decisions(landscape(), [same, other], Ledger())
    assert ("q_a", "img_1") not in judgments(asked)
    with pytest.raises(ValueError, match="only an edit"):
        parse_decision(replace(same, decision="keep", new_text=None).as_json())


def test_the_csv_shows_the_pairs_of_the_old_text_as_not_judged() -> None:
    after, _ = apply_decisions(landscape(), [edit("a white rose")], Ledger())
    rows = export_judgments(after, "a", "0" * 64, 9).rows
    rows = rows[rows["query_id"] == "q_a"].set_index("image_id")
    assert rows.loc["img_1", "judged_by"] == "" and "before an edit" in rows.loc["img_1", "evidence"]


def test_case_and_punctuation_change_no_meaning_and_labels_are_no_text() -> None:
    after, _ = apply_decisions(landscape(), [edit("A grey landscape, indoors")], Ledger())
    assert len(judgments(after)) == 4
    after, _ = apply_decisions(landscape("rule", ["landscape"]), [edit("a white rose")], Ledger())
    assert len(judgments(after)) == 4
