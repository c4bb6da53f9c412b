"""Residue of text processing in queries: part-of-speech tags, markup, placeholders.

A published collection of Chinese captions had tags in its words for a long time (LAION-AI/CLIP_benchmark, pull request
101, comments of September 2023): figures were low for no visible reason.
"""

import re

_TAGGED = re.compile(r"[^\s:/_]+[:/_][A-Za-z]{1,4}")
_HAN = re.compile(r"[㐀-鿿]")
_KINDS = {
    "markup": re.compile(r"</?[A-Za-z][^<>]*>|&(?:[a-z]{2,8}|#\d{1,6});"),
    "placeholder": re.compile(r"<(?:unk|pad|s|/s|bos|eos)>|\[(?:UNK|CLS|SEP|PAD|MASK)\]|\{\w*\}|%s", re.IGNORECASE),
    "number_of_a_list": re.compile(r"^\s*(?:\(?\d{1,3}\)|\d{1,3}[.、)](?!\d)|#\d+)\s*\D"),
    "broken_encoding": re.compile("\N{REPLACEMENT CHARACTER}|Ã[\x80-\xbf©¨ª]|â€"),
}
_FEWEST = 2  # tagged words: texts with "9:30 am" or "and/or" have fewer


def find_text_residue(text: str) -> str | None:
    """Returns the first kind of residue that the text has, None for a clean text."""
    words = text.split()
    has_tags = any(sign in text for sign in ":/_")
    tagged = sum(_TAGGED.fullmatch(word) is not None for word in words) if has_tags else 0
    if tagged >= _FEWEST and 2 * tagged > len(words):
        return "tags_of_words"
    for kind in ("placeholder", "markup", "number_of_a_list", "broken_encoding"):
        if _KINDS[kind].search(text):
            return kind
    return "spaces_between_words" if _cut_up(words) else None


def _cut_up(words: list[str]) -> bool:
    """Whether the text is Chinese with spaces between the words, as a tokenizer writes it."""
    if len(words) < 4:
        return False
    chinese = len(_HAN.findall(" ".join(words)))
    return len(words) <= chinese <= 3 * len(words)
