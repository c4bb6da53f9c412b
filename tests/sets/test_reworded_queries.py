"""An edited query: what was judged by its old text dies with it, and a person says what the new one shows."""

from dataclasses import replace

import pandas as pd
import pytest

from builders.lint import lint_tables
from querytruth.sets.benchmark_set import Tables, open_candidate_judgments
from querytruth.sets.decision_application import apply_decisions
from querytruth.sets.decision_records import QueryDecision, parse_decision
from querytruth.sets.ledger import Ledger
from querytruth.sets.review_tables import export_judgments
from tests.sets.test_application import from_arrow, judgments, texts, to_arrow

GREY = "a grey landscape indoors."


def landscape(judge: str = "caption", labels: list[str] | None = None) -> Tables:
    """One query, of its own image and of another that the caption fitted; a person judged a third."""
    queries = pd.DataFrame({"query_id": ["q_a", "q_b"], "text": [GREY, "a red boat"], "language": "en"})
    queries = queries.assign(style="caption", level=1, source_image_id=["img_1", "img_4"])
    queries["labels"] = [labels, labels]
    images = pd.DataFrame({"image_id": [f"img_{n}" for n in (1, 2, 3, 4)], "width": 9, "height": 9})
    for column in ("path", "file_name", "sha256", "taken_at", "latitude", "longitude", "duplicate_group"):
        images[column] = None
    for column in ("source_url", "page_url", "licence"):
        images[column] = None
    qrels = pd.DataFrame(
        [
            ("q_a", "img_1", 1, judge),
            ("q_a", "img_2", 1, judge),
            ("q_a", "img_3", 0, "human"),
            ("q_b", "img_4", 1, judge),
        ],
        columns=["query_id", "image_id", "relevance", "judged_by"],
    ).assign(evidence=None)
    frames = {"queries": queries, "images": images, "qrels": qrels}
    return Tables(**{name: from_arrow(to_arrow(name, frame)) for name, frame in frames.items()})


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
