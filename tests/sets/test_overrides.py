"""Rescues in the log of a set: read, taken back, and kept apart from what else people decided."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.errors import UserError
from querytruth.sets import decision_log
from querytruth.sets.decision_records import (
    ImagePairDecision,
    Override,
    QueryDecision,
    latest_by_target,
    parse_decision,
)

WANTED = Override("img_a", "rescue", "夏天/a.jpg", "", "全景，值得留下", "lin", "rejects", "2026-01-02T03:04:05+00:00")


def undo(of: Override) -> Override:
    return Override(of.item, "undo", of.name, reviewer=of.reviewer, undoes=of.decision_id)


def test_three_kinds_share_a_log_and_each_reader_finds_its_own(tmp_path: Path) -> None:
    said = [QueryDecision("q_1", "狗", "drop"), ImagePairDecision(("img_a", "img_b"), "same"), WANTED, undo(WANTED)]
    for word in said:
        decision_log.append_decisions(tmp_path, [word])
    assert decision_log.read_decisions(tmp_path, QueryDecision) == said[:1]
    assert decision_log.read_decisions(tmp_path, ImagePairDecision) == said[1:2]
    rescues, end = decision_log.DecisionLog(tmp_path, Override).read_from(0)
    assert rescues == said[2:] and end == (tmp_path / "decisions.jsonl").stat().st_size
    assert decision_log.DecisionLog(tmp_path, Override).read_from(end) == ([], end)


@pytest.mark.thorough
def test_the_last_word_on_an_item_counts_and_undo_brings_the_one_before_back() -> None:
    other, again = replace(WANTED, item="img_b"), replace(WANTED, note="另一个理由", at="later")
    assert latest_by_target([other, WANTED]) == {"img_a": WANTED, "img_b": other}
    assert list(latest_by_target([other, WANTED])) == ["img_a", "img_b"], "whatever the order of the log"
    assert latest_by_target([WANTED, again]) == {"img_a": again}
    assert latest_by_target([WANTED, again, undo(again)]) == {"img_a": WANTED}
    assert latest_by_target([WANTED, undo(WANTED)]) == {}


@given(st.text(max_size=60), st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_a_line_comes_back_as_it_was(item: str, note: str, caption: str) -> None:
    word = Override("q_" + item, "rescue", item, caption, note, at="2026-01-02")
    if note.strip():
        assert parse_decision(word.as_json()) == word and "\n" not in word.as_json()
    else:
        with pytest.raises(ValueError, match="reason"):
            parse_decision(word.as_json())


@pytest.mark.parametrize(
    "line",
    ['{"item": "img_a", "decision": "rescue"}', '{"item": "img_a", "decision": "rescue", "note": "  "}',
     '{"item": "", "decision": "rescue", "note": "why"}', '{"item": 3, "decision": "rescue", "note": "why"}',
     '{"item": "img_a", "decision": "keep", "note": "why"}', '{"item": "img_a", "decision": "undo"}',
     '{"item": "img_a", "decision": "rescue", "note": "why", "undoes": "d_1"}',
     '{"item": "img_a", "decision": "rescue", "note": ["why"]}',
     '{"item": "img_a", "decision": "rescue", "note": "half \\ud83d of it"}',
     '{"query_id": "q_1", "text": "\\ud83d", "decision": "keep"}',
     '{"item": "img_a", "decision": "rescue", "note": "why", "colour": "red"}'],
)  # fmt: skip
def test_a_damaged_line_is_named_whoever_reads_the_log(line: str, tmp_path: Path) -> None:
    (tmp_path / "decisions.jsonl").write_text(line + "\n")
    for kind in (QueryDecision, ImagePairDecision, Override):
        with pytest.raises(UserError, match=r"decisions\.jsonl line 1"):
            decision_log.read_decisions(tmp_path, kind)
