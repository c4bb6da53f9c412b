"""The items that an answer lists: between # marks, numbered or bulleted, or plainly side by side.

An item is a piece of the answer as it stands; what surrounds it (numbers, bold, quotes, a description after a colon)
stays behind. Talk around a list is told from its items by the list's own form.
"""

import re
from collections.abc import Iterator

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
_LOOSE = _MARKS + "#＃，,、；;。.!！:："


def has_hash_marked_items(text: str) -> bool:
    """Whether something stands between two # marks."""
    return bool(_PAIR.search(text))


def parse_hash_marked_items(text: str) -> list[str]:
    """What stands between # marks, also where some of the marks are missing; lines without a mark are talk."""
    items: list[str] = []
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        pieces = _HASH.split(line[heading.end() :] if heading else line)
        if len(pieces) > 1:
            items += _of_pieces(pieces)
    return items


def _of_pieces(pieces: list[str]) -> Iterator[str]:
    """`pieces` of one line: outside and inside by turns, unless marks are missing or stand before items only."""
    is_paired = all(_BETWEEN.fullmatch(piece) for piece in pieces[2:-1:2])
    lopsided = [piece for piece in pieces[1:-1:2] if piece == piece.lstrip(_LOOSE) != piece.rstrip(_LOOSE)]
    if is_paired and not lopsided:
        inside = pieces[1::2]
        if len(pieces) % 2 == 0:  # the last mark was never closed
            inside[-1] = _SENTENCE_END.split(inside[-1], maxsplit=1)[0]
    else:
        inside = [_SENTENCE_END.split(piece, maxsplit=1)[0] for piece in pieces[1:]]
    for piece in inside:
        yield from _side_by_side(piece)


def parse_numbered_items(text: str) -> list[str]:
    """The heads of numbered or bulleted lines, of several in one line, too; [] where nothing is numbered."""
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
    """Items without marks: side by side in a line, or one a line. Whole sentences and courtesies are none; what the
    model did not call an answer must be a list of at least two."""
    items = []
    for line in text.split("\n"):
        if _NUMBERED.match(line):
            continue  # a number without anything
        line = line.strip(_MARKS)
        line = _ASIDE.split(re.split("[：:]", line)[-1], maxsplit=1)[0].rstrip("。.*_ ")
        if line and not _SENTENCE_END.search(line) and not _COURTESY.match(line.lstrip(_LOOSE)):
            items += _side_by_side(line)
    return items if is_labelled or len(items) > 1 else []


def parse_single_item(text: str) -> str:
    """The first line that is neither a number alone nor a courtesy, whole; '' where there is none."""
    for line in text.split("\n"):
        bare = _bare(line)
        if bare and not _NUMBERED.fullmatch(line) and not _COURTESY.match(bare):
            return bare
    return ""


def _side_by_side(text: str) -> list[str]:
    return [item for piece in _SIDE_BY_SIDE.split(text) if (item := _bare(piece))]


def _head(text: str) -> str:
    """What a line names, without what it says of it."""
    text = text.lstrip(_MARKS)
    closing = text.find(_QUOTES[text[0]], 1) if text and text[0] in _QUOTES else -1
    if closing > 1:
        return text[1:closing].strip(_MARKS)
    end = _HEAD_END.search(text)
    return _bare(text[: end.start()] if end else text)


def _bare(text: str) -> str:
    """Without marks, loose punctuation and quotes around it."""
    text = text.strip(_LOOSE)
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1].strip(_LOOSE)
    return text
