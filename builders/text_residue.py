"""Residue of text processing in queries: part-of-speech tags, markup, placeholders, broken encodings, empty values.

A published collection of Chinese captions had tags in its words for a long time (LAION-AI/CLIP_benchmark, pull request
101, comments of September 2023): figures were low for no visible reason.
"""

import re
import unicodedata

from builders.broken_encodings import is_broken

# What languages, spreadsheets and tools write where there is no value; as a whole text alone, in any case and quotes.
_EMPTY_WORDS = frozenset(
    [
        "null",
        "nil",
        "none",
        "nan",
        "na",
        "undefined",
        "void",
        "missing",
        "empty",
        "blank",
        "unknown",
        "unavailable",
        "true",
        "false",
        "tbd",
        "todo",
        "untitled",
        "notavailable",
        "notapplicable",
        "nodata",
        "novalue",
        "nocaption",
        "nodescription",
        "nothing",
        "nat",
        "inf",
        "objectobject",
        "systemdbnull",
        "无",
        "空",
        "暂无",
        "无数据",
        "无描述",
        "未知",
        "缺失",
        "没有",
        "不详",
        "空值",
        "无内容",
        "暂无描述",
        "暂无数据",
        "不适用",
    ]
)
_SPREADSHEET_ERROR = re.compile(r"\s*#[A-Z][A-Z0-9/_]{1,12}[!?]?\s*")
_NOT_A_LETTER = re.compile(r"[\W_]+")
_REPEATED_MARK = re.compile(r"([^\w\s])\1{4}")
_TAGGED = re.compile(r"[^\s:/_]+[:/_][A-Za-z]{1,4}")
_HAN = re.compile(r"[㐀-鿿]")
_KINDS = {
    "markup": re.compile(r"</?[A-Za-z][^<>]*>|&(?:[a-z]{2,8}|#\d{1,6});"),
    "placeholder": re.compile(r"<(?:unk|pad|s|/s|bos|eos)>|\[(?:UNK|CLS|SEP|PAD|MASK)\]|\{\w*\}|%s", re.IGNORECASE),
    "number_of_a_list": re.compile(r"^\s*(?:\(?\d{1,3}\)|\d{1,3}[.、)](?!\d)|#\d+)\s*\D"),
}
_FEWEST = 2  # tagged words: texts with "9:30 am" or "and/or" have fewer


def find_text_residue(text: str) -> str | None:
    """Returns the first kind of residue that the text has, None for a clean text."""
    words = text.split()
    has_tags = any(sign in text for sign in ":/_")
    tagged = sum(_TAGGED.fullmatch(word) is not None for word in words) if has_tags else 0
    if tagged >= _FEWEST and 2 * tagged > len(words):
        return "tags_of_words"
    for kind in ("placeholder", "markup", "number_of_a_list"):
        if _KINDS[kind].search(text):
            return kind
    if is_broken(text):
        return "broken_encoding"
    if text.strip() and is_empty_value(text):
        return "empty_value"
    if _REPEATED_MARK.search(text):
        return "repeated_marks"
    return "spaces_between_words" if _cut_up(words) else None


def is_empty_value(text: str) -> bool:
    """Returns whether a text says nothing: no letter or digit, or what a language or tool writes for no value."""
    plain = _NOT_A_LETTER.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return not plain or plain in _EMPTY_WORDS or bool(_SPREADSHEET_ERROR.fullmatch(text))


def _cut_up(words: list[str]) -> bool:
    """Whether the text is Chinese with spaces between the words, as a tokenizer writes it."""
    if len(words) < 4:
        return False
    chinese = len(_HAN.findall(" ".join(words)))
    return len(words) <= chinese <= 3 * len(words)
