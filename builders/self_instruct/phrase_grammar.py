"""What a reply lists whose every answer is one phrase, with the thought that led to it:
思考：我决定选择（2）个视觉元素，…… / 答案：长毛的猫."""

import re

from builders.self_instruct.reply_grammar import ParsedAnswer
from builders.self_instruct.reply_items import (
    has_hash_marked_items,
    parse_hash_marked_items,
    parse_numbered_items,
    parse_single_item,
)
from builders.self_instruct.reply_parts import ReplyPart, split_reply

_CLASS = re.compile(
    r"[（(]\s*([\u3400-\u9fff]{1,10})\s*[）)]\s*分类|\bof the class\s*[（(]\s*([A-Za-z][A-Za-z -]{0,38})\s*[）)]"
)
MAX_THOUGHT_CHARACTERS = 200  # characters: longer ones are no sample for others
_LOOSE = " \t\n*_#>-"


def parse_phrase_reply(reply: str, was_cut: bool) -> ParsedAnswer:
    """A phrase an answer, or several where it numbers or marks them; of a thought that leads to several none is told.
    `was_cut`: the limit on tokens ended the reply, whose last phrase is no whole one."""
    parts, is_long = split_reply(reply)
    phrases = [(phrase, thought) for part in parts for phrase, thought in _phrases(part)]
    truncated_item = phrases.pop()[0] if phrases and (was_cut or is_long) else ""
    return ParsedAnswer(
        "", tuple(phrase for phrase, _ in phrases), truncated_item, tuple(thought for _, thought in phrases)
    )


def parse_element_class(thought: str) -> str:
    """What a thought takes its first element from, as people's samples say it: 动物 of （动物）分类中的（猫）. '' where
    it names no class."""
    match = _CLASS.search(thought)
    return (match[1] or match[2]).strip() if match else ""


def _phrases(part: ReplyPart) -> list[tuple[str, str]]:
    if has_hash_marked_items(part.answer):
        phrases = parse_hash_marked_items(part.answer)
    else:
        phrases = parse_numbered_items(part.answer) or ([parse_single_item(part.answer)] if part.is_labelled else [])
    thought = part.thought.strip(_LOOSE)
    has_thought = len(phrases) == 1 and len(thought) <= MAX_THOUGHT_CHARACTERS and "\n" not in thought
    return [(phrase, thought if has_thought else "") for phrase in phrases if phrase]
