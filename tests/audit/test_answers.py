"""Which answers of an audit count: the last of a person, the majority of several, and none of another audit."""

import pandas as pd

from querytruth.audit.answers import CANNOT_TELL_MARK, collect_answers, median_seconds, take_out_undetermined
from querytruth.sets.decision_agreement import find_disputes
from querytruth.sets.decision_records import QueryDecision, UndeterminedPair, parse_decision

AUDIT = "a_1"


def grade(image: str, relevance: int, reviewer: str, second: int, **fields: str) -> QueryDecision:
    return QueryDecision(
        "q", "a dog", "grade", image, relevance=relevance, reviewer=reviewer,
        **{"view": "audit", "source": AUDIT, "at": f"2026-01-01T00:00:{second:02}+00:00"} | fields,
    )  # fmt: skip


def unsure(image: str, reviewer: str, second: int) -> UndeterminedPair:
    return UndeterminedPair("q", image, AUDIT, reviewer=reviewer, at=f"2026-01-01T00:00:{second:02}+00:00")


def test_two_people_who_differ_wait_for_a_third() -> None:
    log = [grade("a", 1, "lin", 1), grade("a", 0, "kim", 2), grade("b", 1, "lin", 3), grade("b", 2, "kim", 4)]
    answers = collect_answers(AUDIT, log, [])
    assert answers.grades == {("q", "b"): 2} and answers.disputed == answers.undetermined == [("q", "a")]
    assert (answers.judged_twice, answers.same) == (2, 1)
    third = collect_answers(AUDIT, [*log, grade("a", 0, "bo", 5)], [])
    assert third.grades == {("q", "a"): 0, ("q", "b"): 2} and not third.disputed
    assert third.relevant().to_dict() == {("q", "a"): False, ("q", "b"): True}


def test_kappa_is_that_of_relevant_or_not() -> None:
    pairs = [(1, 1), (2, 1), (0, 0), (0, 1), (0, 0), (1, 0)]
    log = [grade(f"i{n}", one, who, n) for n, both in enumerate(pairs) for who, one in zip("ab", both, strict=True)]
    # observed 4/6; both say yes 3 and 3 times: expected 1/2
    assert collect_answers(AUDIT, log, []).kappa == 1 / 3 or abs(collect_answers(AUDIT, log, []).kappa - 1 / 3) < 1e-12


def test_the_last_answer_of_a_person_counts_whichever_kind_it_is() -> None:
    log = [grade("a", 1, "lin", 1), grade("b", 1, "lin", 4)]
    answers = collect_answers(AUDIT, log, [unsure("a", "lin", 2), unsure("b", "lin", 3)])
    assert answers.grades == {("q", "b"): 1} and answers.undetermined == [("q", "a")] and not answers.disputed


def test_undone_answers_and_those_of_other_audits_or_views_do_not_count() -> None:
    first = grade("a", 1, "lin", 1)
    undo = QueryDecision(
        "q", "a dog", "undo", "a", reviewer="lin", view="audit", source=AUDIT, undoes=first.decision_id
    )
    others = [grade("b", 1, "lin", 2, source="a_2"), grade("c", 1, "lin", 3, view="pairs")]
    assert collect_answers(AUDIT, [first, undo, *others], []).grades == {}


def test_an_answer_that_nobody_can_tell_survives_the_log_and_is_no_judgment() -> None:
    line = unsure("a", "lin", 1)
    assert parse_decision(line.as_json()) == line
    assert collect_answers(AUDIT, [], [line]).undetermined == [("q", "a")]


def test_the_pace_leaves_out_pauses_and_tables() -> None:
    quick = [grade(f"i{n}", 1, "lin", 4 * n, view="pairs") for n in range(12)]
    late = grade("late", 1, "lin", 59, view="pairs", at="2026-01-01T02:00:00+00:00")
    assert median_seconds([*quick, late]) == 4.0
    assert median_seconds(quick[:5]) is None
    assert median_seconds([grade(f"i{n}", 1, "lin", n, view="csv") for n in range(30)]) is None


def test_the_pace_is_that_of_single_judgments() -> None:
    """Forty images that one key confirms take a second, and are no forty judgments nor a quick one."""
    single = [grade(f"i{n}", 1, "lin", 5 * n, view="pairs") for n in range(11)]
    whole = [grade(f"w{n}", 1, "lin", 0, view="queries", at=f"2026-01-01T01:00:{n // 4:02}+00:00") for n in range(160)]
    assert median_seconds([*single, *whole]) == 5.0
    pauses = [grade(f"p{n}", 1, "lin", 0, view="pairs", at=f"2026-01-01T{n + 2:02}:00:00+00:00") for n in range(20)]
    assert median_seconds([*single, *pauses]) == 5.0


def test_of_a_split_pair_no_answer_changes_the_set_until_a_third_person_answers() -> None:
    yes, no = grade("a", 1, "lin", 1), grade("a", 0, "kim", 2)
    agreed = [grade("b", 1, "lin", 3), grade("b", 2, "kim", 4)]
    disputes = find_disputes([yes, no, *agreed], [])
    assert disputes.left_out == {yes.decision_id, no.decision_id} and disputes.unsettled == [no]
    settled = find_disputes([yes, no, grade("a", 1, "bo", 5)], [])
    assert settled.left_out == {no.decision_id} and not settled.unsettled
    outvoted_last = find_disputes([yes, grade("a", 1, "bo", 3), grade("a", 0, "kim", 5)], [])
    assert outvoted_last.left_out == {grade("a", 0, "kim", 5).decision_id}


def test_a_dispute_that_somebody_judged_elsewhere_is_settled() -> None:
    log = [grade("a", 1, "lin", 1), grade("a", 0, "kim", 2), grade("a", 2, "bo", 3, view="pairs", source="s")]
    disputes = find_disputes(log, [])
    assert disputes.unsettled == [] and disputes.left_out == {one.decision_id for one in log[:2]}


def test_who_cannot_tell_any_more_takes_the_answer_back() -> None:
    yes, no = grade("a", 1, "lin", 1), grade("a", 0, "kim", 2)
    assert find_disputes([yes, no], [unsure("a", "lin", 3)]).left_out == {yes.decision_id}


def test_what_a_person_cannot_tell_is_taken_out_of_a_table_and_the_rest_stays() -> None:
    columns = {"query_id": ["q", "q"], "image_id": ["a", "b"], "note": ["blurred", ""]}
    table = pd.DataFrame(columns | {"decision": [f" {CANNOT_TELL_MARK}", "1"]})
    rest, taken = take_out_undetermined(table, AUDIT, "lin", "2026-01-01")
    assert [(one.image_id, one.note) for one in taken] == [("a", "blurred")]
    assert rest["decision"].tolist() == ["", "1"] and rest["note"].tolist() == ["", ""]
    assert take_out_undetermined(table.drop(columns="decision"), AUDIT, "lin", "2026-01-01")[1] == []
