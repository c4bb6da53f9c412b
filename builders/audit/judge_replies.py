"""What a judge replies about an image: a grade, and one sentence."""

import json
import re
from collections.abc import Collection

from builders.recall.reply_markup import strip_reasoning

_OBJECT = re.compile(r"\{[^{}]{0,2000}\}", re.DOTALL)
_GRADE = re.compile(r"[\"“”']?(?:grade|等级)[\"“”']?\s{0,4}[:：]\s{0,4}[\"“”']?(-?[0-9]{1,3})(?![0-9.])", re.IGNORECASE)
_MAX_CHARACTERS = 20_000  # of a reply that are read


def parse_judge_reply(text: str, grades: Collection[int]) -> int | None:
    """Returns the grade of a reply, or None where it gives none of the grades, or several."""
    answer = strip_reasoning(text[:_MAX_CHARACTERS])
    found = {grade for part in _OBJECT.findall(answer) if (grade := _grade_of_object(part)) is not None}
    found = found or {int(number) for number in _GRADE.findall(answer)}
    return found.pop() if len(found) == 1 and found <= set(grades) else None


def _grade_of_object(part: str) -> int | None:
    try:
        grade = json.loads(part).get("grade")
    except (ValueError, RecursionError):
        return None
    if isinstance(grade, str) and grade.strip().isdecimal():
        grade = int(grade)
    return grade if isinstance(grade, int) and not isinstance(grade, bool) else None
