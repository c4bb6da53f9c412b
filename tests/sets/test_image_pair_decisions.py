"""Decisions about images in the log of a set: read, taken back, and kept apart from those about queries."""

from dataclasses import replace
from pathlib import Path

import pytest

from querytruth.errors import UserError
from querytruth.sets import decision_log
from querytruth.sets.decision_records import ImagePairDecision, QueryDecision, effective, latest_by_target

APART = ImagePairDecision(
    ("img_a", "img_b"), "different", "另一次拍的", "lin", "duplicates", "2026-01-02T03:04:05+00:00"
)


def undo(of: ImagePairDecision) -> ImagePairDecision:
    return ImagePairDecision(of.images, "undo", reviewer=of.reviewer, undoes=of.decision_id)


def test_both_kinds_share_a_log_and_older_ids_stay(tmp_path: Path) -> None:
    older = QueryDecision("q_1", "狗", "drop", reviewer="lin")
    assert older.decision_id == "d_b53b91ab549c9a2e675f"
    decision_log.append_decisions(tmp_path, [older])
    decision_log.append_decisions(tmp_path, [APART])
    decision_log.append_decisions(tmp_path, [QueryDecision("q_2", "猫", "keep")])
    assert decision_log.read_decisions(tmp_path, QueryDecision) == [older, QueryDecision("q_2", "猫", "keep")]
    images, end = decision_log.DecisionLog(tmp_path, ImagePairDecision).read_from(0)
    assert images == [APART] and end == (tmp_path / "decisions.jsonl").stat().st_size
    assert decision_log.DecisionLog(tmp_path, ImagePairDecision).read_from(end) == ([], end)


def test_an_undo_takes_back_the_last_of_its_id_and_the_last_word_counts() -> None:
    same = replace(APART, decision="same", at="later")
    assert effective([APART, APART, undo(APART)]) == [APART]
    assert latest_by_target([APART, same]) == {APART.images: same}
    assert latest_by_target([APART, same, undo(same)]) == {APART.images: APART}
    assert latest_by_target([undo(APART), APART]) == {APART.images: APART}, "only what was decided before it"


@pytest.mark.parametrize(
    "line",
    ['{"images": ["a"], "decision": "same"}', '{"images": ["b", "a"], "decision": "same"}',
     '{"images": ["a", "a"], "decision": "same"}', '{"images": ["a", 1], "decision": "same"}',
     '{"images": ["a", "b"], "decision": "drop"}', '{"images": ["a", "b"], "decision": "undo"}',
     '{"images": ["a", "b"], "decision": "same", "undoes": "d_1"}', '{"images": ["a", "b"]}',
     '{"images": ["a", "b"], "decision": "same", "note": 3}', '{"images": "ab", "decision": "same"}',
     '{"images": ["a", "b"], "decision": "same", "colour": "red"}'],
)  # fmt: skip
def test_a_damaged_line_is_named_whoever_reads_the_log(line: str, tmp_path: Path) -> None:
    (tmp_path / "decisions.jsonl").write_text(line + "\n")
    for kind in (QueryDecision, ImagePairDecision):
        with pytest.raises(UserError, match=r"decisions\.jsonl line 1"):
            decision_log.read_decisions(tmp_path, kind)
