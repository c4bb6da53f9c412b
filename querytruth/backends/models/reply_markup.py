"""The plain text of a model's reply, without envelope, tags, Markdown, numbering and quotes, and checks of that text.

Checked are words, language, repetition, and an echo of the prompt.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise, takewhile
from typing import Any

import yaml

from querytruth.backends.files.text_formats import letters_and_digits, load_yaml
from querytruth.backends.models.reply_envelope import read_answer, strip_regions

_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_WORDS = re.compile(rf"{_CJK.pattern}|[A-Za-zÀ-ɏ'’]+|[^\W\d_]")
_LOOP = re.compile(r"(.{1,60}?)\1{3,}")
_INSTRUCTIONS = re.compile(r"\{[a-z_]+\}|[。！？!?\n]|[.](?=\s|$)")
_TAG = re.compile(
    r"</?(?:br|p|b|i|u|em|strong|span|div|ul|ol|li|h[1-6]|answer|caption|image|img)(?:\s[^<>]{0,200})?\s{0,4}/?>",
    re.IGNORECASE,
)
_LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}\)")
_FENCE_OR_RULE = re.compile(r"\s*(?:`{3}\w*|[-*_=~#`\s]*)\s*")
_LINE_MARK = re.compile(r"\s*(?:#{1,6}\s|>\s?|[-*+•●◆·➤–—]\s|\d{1,2}(?:[.)）]|、)(?!\d)\s*|[（(]\d{1,2}[)）]|[①-⑳])")
_ITEM = re.compile(r"(?m)^[ \t>*#_]*(?:[（(]?(\d{1,2})(?:[.．)）:：]|、)(?!\d)|([①-⑳]))[*_]*[ \t]*")
_ANNOUNCEMENT = re.compile(r"(?s)(?:(?:(?!\.\s)[^。]){0,100}[:：])?")
_INLINE_ITEMS = re.compile(
    r"(?s)(?:[^:：。\n]{0,100}[:：]\s*)?(?:[（(]?1[.)）、](?!\d)|①)\s*(\S.*?)\s+(?:[（(]?2[.)）、](?!\d)|②)\s*\S"
)
_EMPHASIS = re.compile(r"\*{2,}|_{2,}|`+|~~|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)")
_CLOSE = re.compile(r"\s+(?=[，。！？；：、])|(?<=[，。！？；：、])\s+")
_PAIRED = (("“", "”"), ("「", "」"), ("『", "』"), ('"', '"'), ("＂", "＂"), ("«", "»"))
_WHOLE = [re.compile(rf"{a}([^{a}{b}]*){b}([。.!！?？]?)") for a, b in (*_PAIRED, ("‘", "’"), ("'", "'"))]
_JSON_FENCE = re.compile(r"\s*`{3}[a-zA-Z]{0,10}\s(.*?)\s*`{3}\s*", re.DOTALL)
_MAX_JSON, _MAX_DEPTH = 20_000, 40  # characters, brackets
_FIELD = re.compile(r"\s*(?:- )?[\"']?(?P<name>[^\W\d]\w{0,30})[\"']?\s?(?:[:=](?=\s|$)|：)\s*(?P<value>.*)")
_PART_OF_FIELDS = re.compile(rf"{_FIELD.pattern}|\s|- |\[")  # an indented line, an item, a TOML table
_ANSWER_NAMES = frozenset(["caption", "description", "answer", "query", "text", "描述", "答案", "标题"])
_JOINERS = "\u200c\u200d"  # part of emoji and Indic words


def is_in_language(text: str, language: str) -> bool:
    """Return whether at least half of the words are in the language; each Chinese character counts as a word."""
    words = _WORDS.findall(text)
    chinese = sum(bool(_CJK.match(word)) for word in words)
    latin = sum(word[0].isascii() or word[0] <= "ɏ" for word in words)
    return 2 * (chinese if language == "zh" else latin) >= len(words) > 0


def has_repetition(text: str) -> bool:
    """Return whether most runs of three words occur again, or the end repeats one piece."""
    words = [word.casefold() for word in _WORDS.findall(text)]
    runs = list(zip(words, words[1:], words[2:], strict=False))
    if len(runs) >= 8 and 2 * len(set(runs)) < len(runs):
        return True
    loops = _LOOP.finditer(text[-600:])
    return any(len(loop.group()) >= 12 and any(char.isalpha() for char in loop.group(1)) for loop in loops)


def has_prompt_echo(text: str, prompt_template: str) -> bool:
    """Return whether the reply contains a whole instruction of the prompt, or is a part of the prompt."""
    reply_letters = letters_and_digits(text)
    pieces = [letters_and_digits(piece) for piece in _INSTRUCTIONS.split(prompt_template)]
    return any(_is_long_enough(piece) and piece in reply_letters for piece in pieces) or (
        _is_long_enough(reply_letters) and reply_letters in letters_and_digits(prompt_template)
    )


def _is_long_enough(letters: str) -> bool:
    """Return whether a match of these letters is unlikely to be a coincidence."""
    return len(letters) >= (6 if _CJK.search(letters) else 15)


def strip_reasoning(raw: str) -> str:
    """Return the answer in a reply without reasoning, further turns and regions; '' where it is reasoning alone."""
    return strip_regions(read_answer(raw).text)


def unwrap_object(text: str) -> str:
    """Return the text in an answer that is JSON, YAML or TOML: the one with a name such as "caption" at any depth, or
    the only string of an object in brackets; of a list, its first. Any other text is returned as it is."""
    fenced = _JSON_FENCE.fullmatch(text)
    inner = (fenced.group(1) if fenced else text).strip()
    if len(inner) > _MAX_JSON:
        return text
    if inner[:1] not in ("{", "["):
        return _read_fields(inner) or text
    try:
        value = json.loads(inner, strict=False)
    except (ValueError, RecursionError):
        if inner[-1] not in "}]" or sum(map(inner.count, "[{")) > _MAX_DEPTH:
            return text
        try:
            value = load_yaml(inner)  # Python's quotes, a comma too many
        except (yaml.YAMLError, ValueError):
            return text
    value = value[0] if isinstance(value, list) and value else value
    named = next(_list_named(value), None)
    while named is None and isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return named or (value if isinstance(value, str) else text)


def _list_named(value: Any) -> Iterator[str]:
    for key, one in value.items() if isinstance(value, dict) else ():
        if isinstance(one, str) and str(key).casefold() in _ANSWER_NAMES:
            yield one
        yield from _list_named(one)


def _read_fields(text: str) -> str:
    """Return the value of the first line "caption: …" of a text whose lines are all fields, or belong to one."""
    lines = [line for line in text.splitlines() if line.strip()]
    fields = [_FIELD.match(line) for line in lines]
    if not all(fields[:1]) or len(lines) < 2 or not all(map(_PART_OF_FIELDS.match, lines)):
        return ""
    for place, field in enumerate(fields):
        if field and field["name"].casefold() in _ANSWER_NAMES:
            rest = takewhile(lambda pair: not pair[1], zip(lines[place + 1 :], fields[place + 1 :], strict=True))
            return " ".join([field["value"].strip("|>-+ "), *(line.strip() for line, _ in rest)]).strip(" \"'")
    return ""


def first_list_item(text: str) -> tuple[str, bool]:
    """Return the first item of a numbered list, without its number and its announcement, and True; a text without a
    list, and False. A list has two numbers in a row, at the beginnings of lines or of the text, and at most an
    announcement ("Here are three captions:") before them."""
    marks = [(match, _item_number(match)) for match in _ITEM.finditer(text)]
    for (first, number), (second, following) in pairwise(marks):
        item = text[first.end() : second.start()].strip()
        if following == number + 1 and any(char.isalpha() for char in item):
            return (item, True) if _ANNOUNCEMENT.fullmatch(text[: first.start()].strip()) else (text, False)
    if match := _INLINE_ITEMS.match(text.strip()):
        return match.group(1).strip(" ;；,，"), True
    return text, False


def _item_number(mark: re.Match[str]) -> int:
    digits = mark.group(1) or mark.group(2)
    return int(digits) if digits.isdecimal() else ord(digits) - ord("①") + 1


def strip_markup(text: str) -> str:
    """Return one line without control characters, lone surrogates, U+FFFD, tags and Markdown."""
    text = _LINK.sub(r"\1", _TAG.sub("\n", text))
    text = "\n".join(_visible(line) for line in text.splitlines())
    lines = [_strip_line_marks(line) for line in text.splitlines() if not _FENCE_OR_RULE.fullmatch(line)]
    return _CLOSE.sub("", " ".join(" ".join(lines).split()))


def _visible(line: str) -> str:
    if line.isprintable() and "\ufffd" not in line:
        return line
    return "".join(char for char in line if char in _JOINERS or char.isspace() or _is_visible(char))


def _is_visible(char: str) -> bool:
    return char != "\ufffd" and unicodedata.category(char) not in ("Cc", "Cf", "Cs")


def _strip_line_marks(line: str) -> str:
    while mark := _LINE_MARK.match(line):
        line = line[mark.end() :]
    return _EMPHASIS.sub("", line)


def strip_quotes(text: str) -> str:
    """Remove quotes around the whole text, or an unpaired one at an end; quotes inside stay."""
    for quotes in _WHOLE:
        if match := quotes.fullmatch(text):
            return (match.group(1) + match.group(2)).strip()
    for first, last in _PAIRED:
        if text[:1] == first and text.count(first) == 1 and (first == last or last not in text):
            return text[1:].lstrip()
        if text[-1:] == last and text.count(last) == 1 and (first == last or first not in text):
            return text[:-1].rstrip()
    return text
