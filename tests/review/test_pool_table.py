"""A table of topics while it is judged: whatever a person types comes back from the file to the letter."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.review.deck import ActionError
from querytruth.review.pool_views import PoolFilter, PoolTable, RowAnswer
from querytruth.sets import review_csv
from tests.review.pool_tables import decision_by_text, object_table, topic_table

TABLE = topic_table("汤包")
IDS = dict(zip(TABLE.rows["text"], TABLE.rows["query_id"], strict=True))


def opened() -> PoolTable:
    return PoolTable(TABLE, [])


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(max_examples=150)
@given(st.sampled_from(["keep", "drop", "edit"]), TEXTS, TEXTS)
@pytest.mark.thorough
def test_an_answer_that_is_taken_comes_back_from_the_file_as_it_is(decision: str, new_text: str, note: str) -> None:
    table = opened()
    try:
        changed = table.check_answer([IDS["烤鸭"]], RowAnswer(decision, new_text if decision == "edit" else "", note))
    except ActionError:
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "topics.csv"
        review_csv.write_review_csv(table.fill_in_answers(changed), file)
        (answer,) = changed.values()
        assert decision_by_text(file, TABLE) == {"烤鸭": answer.new_text or answer.decision}


def test_what_nobody_answered_stays_open_and_what_was_is_in_its_row_alone() -> None:
    table = opened()
    rows = table.fill_in_answers({IDS["钢琴"]: RowAnswer("drop", "", "loud")}).rows
    assert list(rows["decision"]) == ["", "", "", "", "", "drop"] and list(rows["note"])[-1] == "loud"
    assert list(rows["row_digest"]) == list(TABLE.rows["row_digest"])
    assert list(rows.columns) == list(TABLE.rows.columns)


def test_one_answer_for_many_rows_in_one_word() -> None:
    table = opened()
    wanted = [IDS["汤包"], IDS["烤鸭"]]
    assert table.check_answer(wanted, RowAnswer("keep")) == dict.fromkeys(
        sorted(wanted, key=list(IDS.values()).index), RowAnswer("keep")
    )
    for rows, answer in (
        ([], RowAnswer("keep")),
        ([*wanted, "o_none"], RowAnswer("keep")),
        (wanted, RowAnswer("edit", "新")),
    ):
        with pytest.raises(ActionError):
            table.check_answer(rows, answer)
    assert table.answers == {}, "nothing is taken by looking"


def test_choices_are_offered_where_they_tell_rows_apart() -> None:
    assert opened().list_filter_choices() == {"topic": ["食物", "乐器"], "origin": ["people", "model"]}
    assert PoolTable(object_table(), []).list_filter_choices() == {"origin": ["people", "model"], "flag": ["alike"]}


def test_filters_meet() -> None:
    table = opened()
    table.answers = {IDS["烤鸭"]: RowAnswer("edit", "Roast Duck"), IDS["食物"]: RowAnswer("drop")}
    assert table.list_row_ids(PoolFilter(topic="食物", origin="model", state="open")) == [IDS["汤包"]]
    assert table.list_row_ids(PoolFilter(search=" roast ")) == [IDS["烤鸭"]]
    assert table.list_row_ids(PoolFilter(flag="alike")) == []
    assert [table.build_card(row)["dropped_with_topic"] for row in IDS.values()] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
