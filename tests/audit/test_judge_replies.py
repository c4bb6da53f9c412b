"""Grades in the replies of judges, which write more than they are asked for."""

import pytest

from querytruth.audit.judge import parse_judge_reply

GRADES = (0, 1, 2)


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ('{"grade": 2, "reason": "a wet dog"}', 2),
        ('```json\n{"grade": "1", "reason": "part of it"}\n```', 1),
        ('<think>maybe {"grade": 0}</think>{"grade": 2, "reason": "yes"}', 2),
        ("Here it is:\n{'grade': 1, 'reason': 'x'}", 1),
        ('{"grade": 0, "reason": "图片里没有狗"} 希望有帮助', 0),
        ("等级：2，图片里有一只狗", 2),
        ('{"grade": 3, "reason": "no such grade"}', None),
        ('{"grade": 1} or rather {"grade": 2}', None),
        ('{"grade": 1.5}', None),
        ('{"grade": true}', None),
        ('{"reason": "I cannot see any image"}', None),
        ("", None),
        ("{" * 50_000, None),
    ],
)
def test_a_grade_is_read_or_there_is_none(reply: str, grade: int | None) -> None:
    assert parse_judge_reply(reply, GRADES) == grade
