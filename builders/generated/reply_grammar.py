"""What a chat model's reply to a self-instruct prompt lists: topics with their objects, or more objects of one topic.

The form asked for is the seed article's: 思考：选择主题#食物# / 答案：根据#食物#主题，我想出了#物体#：#饺子#，#汉堡#.
Models write it with full-width marks, other colons, numbers, bold, without the marks, several times, and with talk
around it. Every row returned stands to the letter in an answer of the reply; whether it is any good is another's
business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from builders.generated.reply_items import has_hashed, hashed_items, listed_items, plain_items
from builders.generated.reply_parts import read_parts

WORDS = {
    "zh": frozenset({"物体", "主题", "名词", "思考", "答案", "回答", "短语", "视觉元素"}),
    "en": frozenset(
        {"object", "objects", "topic", "topics", "noun", "nouns", "thought", "thoughts", "answer", "answers"}
    ),
}  # what the forms themselves are written with: never a topic
_OBJECTS = re.compile(r"(?:物体|objects?)[\s*_#＃”」\"]{0,6}(?:有|包括|如下|是|are|were)?\s{0,3}[：:]", re.IGNORECASE)
_MARKED = "[#＃]([^#＃\n]{1,60})[#＃]"
_OPEN, _CLOSE = r"[\s“\"「【《*_]{0,4}", r"[”\"」】》*_\s]{0,4}"
_TOPICS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_MARKED}[\s*_]{{0,4}}(?:这个|这一|作为|为|的|as (?:the |a )?)?(?:主题|topic\b)",
        rf"(?:主题|\btopic\b)[^#＃\n]{{0,16}}{_MARKED}",
        rf"(?:根据|按照|围绕|选择|选定|对于|关于){_OPEN}([^\s，,。；;：:#＃*_]{{1,20}}?){_CLOSE}(?:这个|这一|作为|为|的)?主题",
        rf"主题[\s*_]{{0,4}}(?:是|为|：|:){_OPEN}([^\s，,。；;：:“”\"「」【】《》#＃*_]{{1,20}})",
        rf"\btopic(?:\s+of|\s+is|\s*[：:]|\s){_OPEN}([a-z][a-z '&-]{{0,38}}[a-z]){_CLOSE}(?=[.,;:：\n]|$)",
        rf"(?:the|for|on){_OPEN}([a-z][a-z '&-]{{0,38}}?){_CLOSE}topic\b",
    )
]


@dataclass(frozen=True, slots=True)
class Listed:
    """What one answer lists. `topic` is '' where none is named; `lost`: the item in which the reply was cut off;
    `thoughts`: what led to each object, where that was asked for, '' where nothing was said."""

    topic: str
    objects: tuple[str, ...]
    lost: str = ""
    thoughts: tuple[str, ...] = ()


def read_topics(reply: str, was_cut: bool) -> list[Listed]:
    """Topics and their objects, an entry per answer that lists any. `was_cut`: the limit on tokens ended the reply,
    whose last item is no whole one."""
    parts, is_long = read_parts(reply)
    found = []
    for part in parts:
        for head, listed, is_named in _sentences(part.answer):
            topic = _topic(head) or _topic(part.thought)
            found.append(Listed(topic, tuple(_items(listed, is_named))))
    return _without_last(found, was_cut or is_long)


def read_objects(reply: str, was_cut: bool) -> Listed:
    """Objects of the topic that was asked about: all items of all answers."""
    parts, is_long = read_parts(reply)
    objects = tuple(item for part in parts for item in _items(part.answer, part.is_labelled))
    found = _without_last([Listed("", objects)], was_cut or is_long)
    return found[0] if found else Listed("", ())


def _items(text: str, is_labelled: bool) -> list[str]:
    if has_hashed(text):
        return hashed_items(text)
    return listed_items(text) or plain_items(text, is_labelled)


def _sentences(answer: str) -> Iterator[tuple[str, str, bool]]:
    """What names the topic, what lists its objects, and whether the word for objects stands between; several where
    one answer goes through several topics."""
    named = list(_OBJECTS.finditer(answer))
    if not named:
        colon, topic = re.search("[：:]", answer.split("\n", 1)[0]), _found(answer)
        yield answer, answer[max(found.end() if found else 0 for found in (colon, topic)) :], False
        return
    starts = [0] + [_head_start(answer, *pair) for pair in pairwise(named)]
    for start, end, name in zip(starts, [*starts[1:], len(answer)], named, strict=True):
        yield answer[start : name.start()], answer[name.end() : end], True


def _head_start(text: str, before: re.Match[str], name: re.Match[str]) -> int:
    """Where, between two lists, the sentence begins that leads to the second one."""
    between = text[before.end() : name.start()]
    topics = [found.start() for found in re.finditer(r"主题|\btopic\b", between, re.IGNORECASE)]
    ahead = between[: topics[-1] if topics else len(between)]
    return before.end() + max(ahead.rfind(mark) for mark in "\n。；;") + 1


def _topic(text: str) -> str:
    found = _found(text)
    return found.group(1).strip() if found else ""


def _found(text: str) -> re.Match[str] | None:
    """Where a text names its topic."""
    return next((found for pattern in _TOPICS if (found := pattern.search(text))), None)


def _without_last(found: list[Listed], was_cut: bool) -> list[Listed]:
    if was_cut and found and found[-1].objects:
        *whole, lost = found[-1].objects
        found[-1] = replace(found[-1], objects=tuple(whole), lost=lost)
    return [listed for listed in found if listed.objects or listed.lost]
