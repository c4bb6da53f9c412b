"""What a reply lists whose every answer is one phrase, with the thought that led to it:
思考：我决定选择（2）个视觉元素，…… / 答案：长毛的猫."""

from __future__ import annotations

import re

from builders.generated.reply_grammar import Listed
from builders.generated.reply_items import has_hashed, hashed_items, listed_items, one_item
from builders.generated.reply_parts import Part, read_parts

_CLASS = re.compile(
    r"[（(]\s*([\u3400-\u9fff]{1,10})\s*[）)]\s*分类|\bof the class\s*[（(]\s*([A-Za-z][A-Za-z -]{0,38})\s*[）)]"
)
LONGEST_THOUGHT = 200  # characters: longer ones are no sample for others
_LOOSE = " \t\n*_#>-"


def read_phrases(reply: str, was_cut: bool) -> Listed:
    """A phrase an answer, or several where it numbers or marks them; of a thought that leads to several none is told.
    `was_cut`: the limit on tokens ended the reply, whose last phrase is no whole one."""
    parts, is_long = read_parts(reply)
    told = [(phrase, thought) for part in parts for phrase, thought in _phrases(part)]
    lost = told.pop()[0] if told and (was_cut or is_long) else ""
    return Listed("", tuple(phrase for phrase, _ in told), lost, tuple(thought for _, thought in told))


def class_of(thought: str) -> str:
    """What a thought takes its first element from, as people's samples say it: 动物 of （动物）分类中的（猫）. '' where
    it names no class."""
    found = _CLASS.search(thought)
    return (found[1] or found[2]).strip() if found else ""


def _phrases(part: Part) -> list[tuple[str, str]]:
    if has_hashed(part.answer):
        phrases = hashed_items(part.answer)
    else:
        phrases = listed_items(part.answer) or ([one_item(part.answer)] if part.is_labelled else [])
    thought = part.thought.strip(_LOOSE)
    is_told = len(phrases) == 1 and len(thought) <= LONGEST_THOUGHT and "\n" not in thought
    return [(phrase, thought if is_told else "") for phrase in phrases if phrase]
