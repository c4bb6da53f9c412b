"""What a judge replies about an image: a grade, and one sentence."""

import re
from collections.abc import Collection

from builders.recall.reply_markup import strip_reasoning
from builders.strict_json import parse_json

_OBJECT = re.compile(r"\{[^{}]{0,2000}\}", re.DOTALL)
_GRADE = re.compile(r"[\"“”']?(?:grade|等级)[\"“”']?\s{0,4}[:：]\s{0,4}[\"“”']?(-?[0-9]{1,3})(?![0-9.])", re.IGNORECASE)
_MAX_CHARACTERS = 20_000  # of a reply that are read
_MAX_REASON = 300  # characters


def parse_judge_reply(text: str, grades: Collection[int]) -> int | None:
    """Returns the grade of a reply, or None where it gives none of the grades, or several."""
    answer = strip_reasoning(text[:_MAX_CHARACTERS])
    found = {grade for part in _OBJECT.findall(answer) if (grade := _grade_of_object(part)) is not None}
    found = found or {int(number) for number in _GRADE.findall(answer)}
    return found.pop() if len(found) == 1 and found <= set(grades) else None


def parse_judge_reason(text: str) -> str:
    """Returns the sentence that a reply gives as its reason, "" where it gives none."""
    for part in _OBJECT.findall(strip_reasoning(text[:_MAX_CHARACTERS])):
        reason = _read_key(part, "reason")
        if isinstance(reason, str) and reason.strip():
            return " ".join(reason.split())[:_MAX_REASON]
    return ""


def _read_key(part: str, key: str) -> object:
    try:
        return parse_json(part).get(key)
    except (ValueError, RecursionError):
        return None


def _grade_of_object(part: str) -> int | None:
    grade = _read_key(part, "grade")
    if isinstance(grade, str) and grade.strip().isdecimal():
        grade = int(grade)
    return grade if isinstance(grade, int) and not isinstance(grade, bool) else None
