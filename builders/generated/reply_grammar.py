"""Parse a chat model's reply to a self-instruct prompt: topics with their objects, or more objects of one topic.

The requested form is the seed article's: 思考：选择主题#食物# / 答案：根据#食物#主题，我想出了#物体#：#饺子#，#汉堡#,
or with a thought before a phrase (思考：我决定选择（2）个视觉元素，…… / 答案：长毛的猫). Models write it with
full-width marks, other colons, numbers, bold, without the marks, several times, and with talk around it. Items are
between # marks, numbered, bulleted, or side by side; the text around an item is dropped.

Every returned row occurs literally in an answer of the reply; other code decides whether it is usable. Every pattern
is bounded, so time grows linearly with the length of the reply.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from querytruth.backends.models.reply_markup import strip_reasoning

_HASH = re.compile("[#＃]")
_PAIR = re.compile("[#＃][^#＃\n]{1,60}[#＃]")
_HEADING = re.compile(r"[ \t>]{0,8}#{1,6}[ \t]")
_BETWEEN = re.compile(r"[\s，,、；;/|*_.。:：)）(（\d-]*(?:(?:和|与|以及|及|还有|and|&)[\s*_]*)?", re.IGNORECASE)
_SIDE_BY_SIDE = re.compile(r"[，,、；;/|\t]+(?:\s*and\s)?", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[。！？!?…]|\.(?=\s|$)")
_NUMBER = (
    r"(?:[（(]\d{1,3}[)）]|\d{1,3}(?:\\?[.．:：](?!\d)|[)）、])|[①-⑳]"
    r"|[一二三四五六七八九十]{1,3}[、.．]|第[一二三四五六七八九十\d]{1,3}[个，：:、])"
)
_NUMBERED = re.compile(rf"[\s>*_]{{0,12}}(?:{_NUMBER}|[-*+•●◆·➤–—][ \t])[\s*_]{{0,8}}")
_COUNTED = re.compile(r"[\s>*_]{0,12}(\d{1,3})\\?[)）.．、:：][\s*_]{0,8}")
_NEXT_NUMBER = re.compile(r"[\s，,；;。]{1,4}(?:[（(]\d{1,3}[)）]|\d{1,3}[)）.．、](?!\d)|[①-⑳])[\s*_]{0,8}")
_HEAD_END = re.compile(r"[；;：:（(，,。！？!?…<|]|\s[-–—]{1,2}\s|——")
_ASIDE = re.compile("[；;（(]")
_QUOTES = {"“": "”", "「": "」", "『": "』", "《": "》", "【": "】", "[": "]", '"': '"', "‘": "’", "'": "'", "`": "`"}
_COURTESY = re.compile(
    r"希望|以上|以下|如果|如有|如需|请|感谢|谢谢|抱歉|对不起|好的|当然|没问题|可以|这些|这是|下面|我"
    r"|(?:sure|ok|okay|certainly|of course|here|hope|thanks?|thank you|sorry|unfortunately|the following|these|this is"
    r"|let me|please|i|as an)\b",
    re.IGNORECASE,
)
_MARKS = " \t\n*_`"
_LOOSE_MARKS = _MARKS + "#＃，,、；;。.!！:："
TEMPLATE_WORDS = {
    "zh": frozenset({"物体", "主题", "名词", "思考", "答案", "回答", "短语", "视觉元素"}),
    "en": frozenset(
        {"object", "objects", "topic", "topics", "noun", "nouns", "thought", "thoughts", "answer", "answers"}
    ),
}  # what the forms themselves are written with: never a topic
_OBJECTS = re.compile(r"(?:物体|objects?)[\s*_#＃”」\"]{0,6}(?:有|包括|如下|是|are|were)?\s{0,3}[：:]", re.IGNORECASE)
_LEAD = re.compile(r"\A[^\n]{0,60}?(?:我?想[出到]了?|\bcame up with\b)", re.IGNORECASE)
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

_CLASS = re.compile(
    r"[（(]\s*([\u3400-\u9fff]{1,10})\s*[）)]\s*分类|\bof the class\s*[（(]\s*([A-Za-z][A-Za-z -]{0,38})\s*[）)]"
)
_MAX_THOUGHT_CHARACTERS = 200  # characters: longer ones are no sample for others
_LOOSE = " \t\n*_#>-"

_MAX_REPLY_CHARACTERS = 20_000  # characters of a reply that are read
_LINE_END = re.compile(r"<br\s{0,4}/?>|\r\n?|[\v\f\x85\u2028\u2029]", re.IGNORECASE)
_LABEL = re.compile(
    r"(?<![^\W\d_])"  # no letter before: 额外的5个答案： is talk
    r"(?:(?P<thought>思考过程|思考|思路|thoughts?|thinking|reasoning)"
    r"|(?:最终|最后的?|我的|final )?(?:答案|回答|answers?))"
    r"[ \t*_#＃】」』\])）\d]{0,8}(?:[：:]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_DECORATION = " \t\n*_#＃>-.．、)）(（[【「『<0123456789０１２３４５６７８９"


def has_hash_marked_items(text: str) -> bool:
    """Return whether there is text between two # marks."""
    return bool(_PAIR.search(text))


def parse_hash_marked_items(text: str) -> list[str]:
    """Return the text between # marks, even if some of the marks are missing; lines without a mark are talk."""
    items: list[str] = []
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        pieces = _HASH.split(line[heading.end() :] if heading else line)
        if len(pieces) > 1:
            items += _of_pieces(pieces)
    return items


def _of_pieces(pieces: list[str]) -> Iterator[str]:
    """Return the `pieces` of one line: outside and inside by turns, unless marks are missing or only precede items."""
    is_paired = all(_BETWEEN.fullmatch(piece) for piece in pieces[2:-1:2])
    lopsided = [piece for piece in pieces[1:-1:2] if piece == piece.lstrip(_LOOSE_MARKS) != piece.rstrip(_LOOSE_MARKS)]
    if is_paired and not lopsided:
        inside = pieces[1::2]
        if len(pieces) % 2 == 0:  # the last mark was never closed
            inside[-1] = _SENTENCE_END.split(inside[-1], maxsplit=1)[0]
    else:
        inside = [_SENTENCE_END.split(piece, maxsplit=1)[0] for piece in pieces[1:]]
    for piece in inside:
        yield from _side_by_side(piece)


def parse_numbered_items(text: str) -> list[str]:
    """Return the heads of numbered or bulleted lines, of several in one line, too; [] where nothing is numbered."""
    items, last = [], -1
    for line in text.split("\n"):
        counted = _COUNTED.match(line)
        is_next = counted is not None and int(counted[1]) == last + 1  # 3.3D打印机 after 2.: no decimal number
        number = counted if is_next else _NUMBERED.match(line)
        last = int(counted[1]) if counted and number else last
        if number:
            items += [head for piece in _NEXT_NUMBER.split(line[number.end() :]) if (head := _head(piece))]
    return items


def parse_plain_items(text: str, is_labelled: bool) -> list[str]:
    """Return items without marks: side by side in a line, or one per line. Whole sentences and courtesies are not
    items; what the model did not call an answer must be a list of at least two."""
    items = []
    for line in text.split("\n"):
        if _NUMBERED.match(line):
            continue  # a number without anything
        line = line.strip(_MARKS)
        line = _ASIDE.split(re.split("[：:]", line)[-1], maxsplit=1)[0].rstrip("。.*_ ")
        if line and not _SENTENCE_END.search(line) and not _COURTESY.match(line.lstrip(_LOOSE_MARKS)):
            items += _side_by_side(line)
    return items if is_labelled or len(items) > 1 else []


def parse_single_item(text: str) -> str:
    """Return the first whole line that is neither only a number nor a courtesy; '' if there is none."""
    for line in text.split("\n"):
        bare = _bare(line)
        if bare and not _NUMBERED.fullmatch(line) and not _COURTESY.match(bare):
            return bare
    return ""


def _side_by_side(text: str) -> list[str]:
    return [item for piece in _SIDE_BY_SIDE.split(text) if (item := _bare(piece))]


def _head(text: str) -> str:
    """Return what a line names, without what it says about it."""
    text = text.lstrip(_MARKS)
    closing = text.find(_QUOTES[text[0]], 1) if text and text[0] in _QUOTES else -1
    if closing > 1:
        return text[1:closing].strip(_MARKS)
    end = _HEAD_END.search(text)
    return _bare(text[: end.start()] if end else text)


def _bare(text: str) -> str:
    """Return the text without marks, loose punctuation and quotes around it."""
    text = text.strip(_LOOSE_MARKS)
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1].strip(_LOOSE_MARKS)
    return text


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The content of one answer. `topic`: '' if it names none; `truncated_item`: the item in which the reply was cut
    off; `thoughts`: what led to each object, if requested, '' if nothing was said."""

    topic: str
    objects: tuple[str, ...]
    truncated_item: str = ""
    thoughts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ReplyPart:
    """An answer and the thought that led to it; `is_labelled`: the model itself called it an answer."""

    thought: str
    answer: str
    is_labelled: bool


def parse_topics(reply: str, was_cut: bool) -> list[ParsedAnswer]:
    """Return topics and their objects, one entry per answer that lists any. `was_cut`: the token limit ended the reply,
    so its last item is incomplete."""
    parts, is_long = _split_reply(reply)
    answers = []
    for part in parts:
        for head, listed, is_named in _sentences(part.answer):
            topic = _topic(head) or _topic(part.thought)
            answers.append(ParsedAnswer(topic, tuple(_items(listed, is_named))))
    return _without_last(answers, was_cut or is_long)


def parse_objects(reply: str, was_cut: bool) -> ParsedAnswer:
    """Return the objects of the requested topic: all items of all answers, without the introduction."""
    parts, is_long = _split_reply(reply)
    listed = [(text, part.is_labelled) for part in parts for text in _without_lead(part.answer)]
    objects = tuple(item for text, is_labelled in listed for item in _items(text, is_labelled))
    answers = _without_last([ParsedAnswer("", objects)], was_cut or is_long)
    return answers[0] if answers else ParsedAnswer("", ())


def parse_described_objects(reply: str, was_cut: bool) -> ParsedAnswer:
    """Return the same, with the reply's description of an object (老虎；是猫科动物；通常是黄色) as its thought."""
    answer = parse_objects(reply, was_cut)
    return replace(answer, thoughts=tuple(_description(reply, item) for item in answer.objects))


def _description(reply: str, item: str) -> str:
    match = re.search(rf"{re.escape(item)}[\s*_”」]{{0,4}}[；;]([^\n]{{1,{_MAX_THOUGHT_CHARACTERS}}})", reply)
    return match[1].strip(_LOOSE) if match else ""


def parse_phrase_reply(reply: str, was_cut: bool) -> ParsedAnswer:
    """Return one phrase per answer, or several if it numbers or marks them; a thought that leads to several is dropped.
    `was_cut`: the token limit ended the reply, so its last phrase is incomplete."""
    parts, is_long = _split_reply(reply)
    phrases = [(phrase, thought) for part in parts for phrase, thought in _phrases(part)]
    truncated_item = phrases.pop()[0] if phrases and (was_cut or is_long) else ""
    return ParsedAnswer(
        "", tuple(phrase for phrase, _ in phrases), truncated_item, tuple(thought for _, thought in phrases)
    )


def parse_element_class(thought: str) -> str:
    """Return the class from which a thought takes its first element, in the form of people's samples: 动物 from
    （动物）分类中的（猫）. '' if it names no class."""
    match = _CLASS.search(thought)
    return (match[1] or match[2]).strip() if match else ""


def _without_lead(answer: str) -> list[str]:
    """Return what an answer lists after 根据#食物#主题，我想出了#物体#：, the form of the first stage."""
    if _OBJECTS.search(answer):
        return [listed for _, listed, _ in _sentences(answer)]
    return [_LEAD.sub("", answer, count=1)]


def _items(text: str, is_labelled: bool) -> list[str]:
    if has_hash_marked_items(text):
        return parse_hash_marked_items(text)
    return parse_numbered_items(text) or parse_plain_items(text, is_labelled)


def _sentences(answer: str) -> Iterator[tuple[str, str, bool]]:
    """Return the text that names the topic, the text that lists its objects, and whether the word for objects is
    between them; several if one answer covers several topics."""
    named = list(_OBJECTS.finditer(answer))
    if not named:
        colon, topic = re.search("[：:]", answer.split("\n", 1)[0]), _find_topic(answer)
        yield answer, answer[max(match.end() if match else 0 for match in (colon, topic)) :], False
        return
    starts = [0] + [_head_start(answer, *pair) for pair in pairwise(named)]
    for start, end, name in zip(starts, [*starts[1:], len(answer)], named, strict=True):
        yield answer[start : name.start()], answer[name.end() : end], True


def _head_start(text: str, before: re.Match[str], name: re.Match[str]) -> int:
    """Return the position, between two lists, of the sentence that introduces the second one."""
    between = text[before.end() : name.start()]
    topics = [match.start() for match in re.finditer(r"主题|\btopic\b", between, re.IGNORECASE)]
    ahead = between[: topics[-1] if topics else len(between)]
    return before.end() + max(ahead.rfind(mark) for mark in "\n。；;") + 1


def _topic(text: str) -> str:
    match = _find_topic(text)
    return match.group(1).strip() if match else ""


def _find_topic(text: str) -> re.Match[str] | None:
    """Return the position at which a text names its topic."""
    return next((match for pattern in _TOPICS if (match := pattern.search(text))), None)


def _without_last(answers: list[ParsedAnswer], was_cut: bool) -> list[ParsedAnswer]:
    if was_cut and answers and answers[-1].objects:
        *whole, lost = answers[-1].objects
        answers[-1] = replace(answers[-1], objects=tuple(whole), truncated_item=lost)
    return [listed for listed in answers if listed.objects or listed.truncated_item]


def _phrases(part: _ReplyPart) -> list[tuple[str, str]]:
    if has_hash_marked_items(part.answer):
        phrases = parse_hash_marked_items(part.answer)
    else:
        phrases = parse_numbered_items(part.answer) or ([parse_single_item(part.answer)] if part.is_labelled else [])
    thought = part.thought.strip(_LOOSE)
    has_thought = len(phrases) == 1 and len(thought) <= _MAX_THOUGHT_CHARACTERS and "\n" not in thought
    return [(phrase, thought if has_thought else "") for phrase in phrases if phrase]


def _split_reply(reply: str) -> tuple[list[_ReplyPart], bool]:
    """Return the answers of a reply, in order, and whether it is too long to be read to its end. If there are labels,
    the text before the first one is talk; a thought without an answer is dropped."""
    text = strip_reasoning(reply)
    is_cut = len(text) > _MAX_REPLY_CHARACTERS
    text = _LINE_END.sub("\n", text[:_MAX_REPLY_CHARACTERS])
    labels = list(_LABEL.finditer(text))
    if not labels:
        return ([_ReplyPart("", text, False)] if text.strip() else []), is_cut
    parts, thought = [], ""
    ends = [label.start() for label in labels[1:]] + [len(text)]
    for label, end in zip(labels, ends, strict=True):
        content = _without_next_label(text[label.end() : end])
        if label["thought"]:
            thought = content
        else:
            parts.append(_ReplyPart(thought, content, True))
            thought = ""
    return parts, is_cut


def _without_next_label(text: str) -> str:
    """Return the text without its last lines if they are but the numbering and the marks before the label that
    follows."""
    start = text.rfind("\n")
    while start >= 0 and not text[start:].strip(_DECORATION):
        text = text[:start]
        start = text.rfind("\n")
    return text
