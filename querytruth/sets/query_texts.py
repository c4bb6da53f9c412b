"""Properties of query texts: which have the same meaning, which only look the same, which are damaged.

Equivalent queries have one ground truth: queries for the same labels (in every language and style; those of a family
only with the same kind and order), captions of one image in one style, and queries for one object of a topic.

The same text has canonically equivalent spellings (NFC, zero-width characters, other or repeated spaces). Lookalikes
are compatible forms (full width, Ⅳ), and the Cyrillic and Greek letters that Unicode's confusables.txt (UTS 39) gives
for Latin ones.

Damaged are part-of-speech tags, markup, placeholders, empty values (a published collection of Chinese captions had tags
in its words for a long time: LAION-AI/CLIP_benchmark, pull request 101, comments of September 2023), and texts that
were read in another encoding than they were written in. A list of broken sequences covers only the accidents that it
was made from. Here a text is encoded in each encoding that it may have been read in by mistake, and decoded in each
that it may have been written in. Bytes of Chinese text seldom are valid UTF-8 by chance, and the reverse; where both
readings are possible, the one with more common characters is used (the 3,755 of level 1 of GB 2312, and the 5,401 of
level 1 of Big5, are the common ones). Marks of a lost character (U+FFFD) leave traces in every further reading: 锟斤拷
is the GBK reading of the UTF-8 of two of them, and 烫 and 屯 are the GBK reading of uninitialized memory.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import pandas as pd

from querytruth.backends.files.text_formats import read_package_yaml

Meaning = tuple[str, ...]
_ESCAPED = re.compile(
    r"(?:\\u[0-9a-fA-F]{4}){2}|(?:\\x[0-9a-fA-F]{2}){3}|(?:%[0-9A-Fa-f]{2}){3}|(?:=[0-9A-F]{2}){3}"
    r"|(?:&#x?[0-9a-fA-F]{2,6};){2}"
)
_MISREAD_BYTES = re.compile(rb"(?:\xef\xbf\xbd){2}|\xef\xbf\xbd\xef\xbf|\xcc{6}|\xcd{6}|\xc3\xaf\xc2\xbf\xc2\xbd")
_UTF8_CHARACTER = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"  # of more than one byte
)
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
_WESTERN = ("latin-1", "cp1252", "mac_roman", "cp437", "cp1251", "koi8-r")
_EASTERN = ("gb18030", "big5", "shift_jis", "euc_kr")
_LEAST_VALID = 0.6  # share of the bytes that must be whole characters of UTF-8
_LEAST_COMMON = 0.8  # share of common characters in a reading of GBK or Big5
_FEWEST_WESTERN, _FEWEST_EASTERN = 2, 4  # bytes in a row that are judged
_SPLIT = re.compile(r"[\s!-/:-@\[-`{-~·–—‘’“”…]+")  # punctuation
_MIXED_WITH_OTHERS = frozenset(
    ["", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH", "HALFWIDTH", "BOPOMOFO", "MODIFIER"]
)
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_WORDS: dict[str, list[str]] = read_package_yaml(Path(__file__).with_name("query_words.yaml"))
_EMPTY_WORDS, _PLACEHOLDERS, _TOTALS = (frozenset(_WORDS[name]) for name in ("empty", "placeholders", "totals"))
_SPREADSHEET_ERROR = re.compile(r"\s*#[A-Z][A-Z0-9/_]{1,12}[!?]?\s*")
_NOT_A_LETTER = re.compile(r"[\W_]+")
_REPEATED_MARK = re.compile(r"([^\w\s])\1{4}")
_TAGGED = re.compile(r"[^\s:/_]+[:/_][A-Za-z]{1,4}")
_HAN_LETTER = re.compile(r"[㐀-鿿]")
_KINDS = {
    "markup": re.compile(r"</?[A-Za-z][^<>]*>|&(?:[a-z]{2,8}|#\d{1,6});"),
    "placeholder": re.compile(r"<(?:unk|pad|s|/s|bos|eos)>|\[(?:UNK|CLS|SEP|PAD|MASK)\]|\{\w*\}|%s", re.IGNORECASE),
    "number_of_a_list": re.compile(r"^\s*(?:\(?\d{1,3}\)|\d{1,3}[.、)](?!\d)|#\d+)\s*\D"),
}
_FEWEST = 2  # tagged words: texts with "9:30 am" or "and/or" have fewer
# Soft hyphen, zero-width space, non-joiner, joiner, direction marks, word joiner, byte order mark.
_NO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")

_CYRILLIC = ("АВЕЅІЈКМНОРСТУХаеѕіјорсухԛԝһԁ", "ABESIJKMHOPCTYXaesijopcyxqwhd")
_GREEK = ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρι", "ABEZHIKMNOPTYXovpi")
_LATIN_LETTERS = {
    ord(other): latin for others, latins in (_CYRILLIC, _GREEK) for other, latin in zip(others, latins, strict=True)
}


def group_equivalent_queries(queries: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return per query id the ids of all queries that ask the same, itself included: Chinese first, then by length of
    text and by id."""
    members: dict[Meaning, list[tuple[bool, int, str]]] = {}
    columns = [queries[name].tolist() for name in ("query_id", "text", "language")]
    for query_id, text, language, meaning in zip(*columns, list_meanings(queries), strict=True):
        members.setdefault(meaning, []).append(order_equivalent(language, text, query_id))
    groups = [tuple(query_id for _, _, query_id in sorted(group)) for group in members.values()]
    return {query_id: group for group in groups for query_id in group}


def order_equivalent(language: str, text: str, query_id: str) -> tuple[bool, int, str]:
    """Return the sort key of equivalent queries."""
    return language != "zh", len(text), query_id


def list_meanings(queries: pd.DataFrame) -> list[Meaning]:
    """Return the meaning of each query, equal for equivalent queries: a kind (`labels`, `family`, `caption`,
    `object`, or `query` for one without equivalents) and its content."""
    return list(_iterate_meanings(queries))


def _iterate_meanings(queries: pd.DataFrame) -> Iterator[Meaning]:
    missing = pd.Series([None] * len(queries), dtype="object")
    names = ("query_id", "text", "style", "labels", "family", "source_image_id", "topic")
    columns = [queries.get(name, missing).tolist() for name in names]  # a list is read faster than a column
    for query_id, text, style, labels, family, source, topic in zip(*columns, strict=True):
        labels = labels.tolist() if hasattr(labels, "tolist") else labels  # an array
        if isinstance(family, str) and isinstance(labels, Collection):
            yield "family", family, *labels
        elif isinstance(labels, Collection) and len(labels):
            yield ("labels", *sorted(labels))
        elif isinstance(source, str):
            yield "caption", source, style
        elif isinstance(topic, str):
            yield "object", topic, text.strip().casefold()
        else:
            yield "query", query_id


def is_broken(text: str) -> bool:
    """Return whether a text was read in a wrong encoding, or contains escapes instead of characters."""
    if text.isascii():
        return bool(_ESCAPED.search(text))
    if _ESCAPED.search(text) or any(map(_is_never_text, text)):
        return True
    if _MISREAD_BYTES.search(text.encode("gb18030", "ignore")) or _MISREAD_BYTES.search(text.encode("utf-8", "ignore")):
        return True
    if _HAN.search(text) and _share_of_common(text) == 1:
        return False  # no other reading has more common characters: most Chinese texts, in a twentieth of the time
    if _mixes_scripts(text):
        return True
    return any(_is_misread_utf8(text, encoding) for encoding in (*_WESTERN, *_EASTERN)) or _is_misread_chinese(text)


@lru_cache(maxsize=1 << 15)
def _is_never_text(char: str) -> bool:
    return char == "\ufffd" or unicodedata.category(char) in ("Co", "Cn") or "\x80" <= char <= "\x9f"


def _is_misread_utf8(text: str, encoding: str) -> bool:
    """Return whether most of the text's bytes in an encoding are characters of UTF-8; lost bytes are allowed for."""
    runs = _high_runs(text, encoding)
    fewest = _FEWEST_WESTERN if encoding in _WESTERN else _FEWEST_EASTERN
    total = sum(len(run) for run in runs)
    if total < fewest:
        return False
    whole = [found for run in runs for found in _UTF8_CHARACTER.findall(run)]
    if encoding in _WESTERN:  # é alone is no character of UTF-8; two letters of Europe in a row seldom are one
        return sum(map(len, whole)) >= _LEAST_VALID * total and any(len(run) >= fewest for run in runs)
    read_again = b"".join(whole).decode("utf-8", "ignore")
    is_valid = sum(map(len, whole)) >= _LEAST_VALID * total and len(whole) > 1
    return is_valid and _share_of_common(read_again) > _share_of_common(text)


def _is_misread_chinese(text: str) -> bool:
    """Return whether Chinese was read as a Western encoding, or GBK as Big5 and the reverse."""
    if not _HAN.search(text):
        return not _has_natural_words(text) and any(_is_chinese_in(text, encoding) for encoding in _WESTERN)
    for wrong, right in (("gb18030", "big5"), ("big5", "gb18030")):
        read_again = "".join(run.decode(right, "ignore") for run in _high_runs(text, wrong))
        if len(read_again) > 3 and _share_of_common(text) < 0.5 < _LEAST_COMMON <= _share_of_common(read_again):
            return True
    return False


def _is_chinese_in(text: str, encoding: str) -> bool:
    encoded = _encode(text, encoding)
    high = sum(byte > 0x7F for byte in encoded)
    if high < _FEWEST_EASTERN or 3 * high < len(encoded.replace(b" ", b"")):
        return False
    for right in ("gb18030", "big5"):
        read_again = encoded.decode(right, "ignore")
        if len(_HAN.findall(read_again)) > 1 and _share_of_common(read_again) >= _LEAST_COMMON:
            return True
    return False


def _has_natural_words(text: str) -> bool:
    """Return whether most words with letters beyond ASCII consist of letters only, in lower case, capitals, or with one
    capital: bytes of Chinese text produce signs, and capitals in the middle of words."""
    words = [word for word in _SPLIT.split(text) if word and not word.isascii()]
    natural = [word for word in words if word.isalpha() and (word.islower() or word.istitle() or word.isupper())]
    return bool(words) and 2 * len(natural) >= len(words)


def _mixes_scripts(text: str) -> bool:
    """Return whether a word has letters of three alphabets, as bytes of GBK give where they are read as UTF-8."""
    return any(len(_alphabets(word)) >= 3 for word in _SPLIT.split(text) if not word.isascii())


def _alphabets(word: str) -> set[str]:
    return {unicodedata.name(char, "").partition(" ")[0] for char in word if char.isalpha()} - _MIXED_WITH_OTHERS


def _high_runs(text: str, encoding: str) -> list[bytes]:
    """Return the runs of bytes beyond ASCII that the text has in an encoding; [] where it cannot have come from it."""
    return _HIGH_BYTES.findall(_encode(text, encoding)) if _encode(text, encoding) else []


@lru_cache(maxsize=64)
def _encode(text: str, encoding: str) -> bytes:
    if encoding == "cp1252":  # five bytes have no character there; readers pass them on
        return b"".join(char.encode("cp1252", "ignore") or char.encode("latin-1", "ignore") for char in text)
    if encoding in _WESTERN:
        encoded = text.encode(encoding, "ignore")
        return encoded if 10 * len(encoded) >= 9 * len(text) else b""
    return text.encode(encoding, "ignore")


def _share_of_common(text: str) -> float:
    """Return the share of common characters among those beyond ASCII; 0 for none."""
    others = [char for char in text if ord(char) > 0x7F]
    return sum(_is_common(char) for char in others) / len(others) if others else 0.0


@lru_cache(maxsize=1 << 15)
def _is_common(char: str) -> bool:
    if char in "，。！？、；：“”‘’（）《》…—·":
        return True
    simplified, traditional = char.encode("gb2312", "ignore"), char.encode("big5", "ignore")
    is_simplified = len(simplified) == 2 and 0xB0 <= simplified[0] <= 0xD7
    return is_simplified or (len(traditional) == 2 and 0xA4 <= traditional[0] <= 0xC6 and bool(_HAN.match(char)))


def find_text_residue(text: str) -> str | None:
    """Return the first kind of residue that the text has, None for a clean text."""
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
    """Return whether a text is empty: no letter or digit, or what a language or tool writes for a missing value."""
    plain = _NOT_A_LETTER.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return not plain or plain in _EMPTY_WORDS or bool(_SPREADSHEET_ERROR.fullmatch(text))


def is_placeholder(text: str) -> bool:
    """Return whether a text is what an analytics service writes where nobody typed a query: a word in brackets."""
    word = text.casefold().strip()
    return word[:1] in "([<（" and word[-1:] in ")]>）" and _NOT_A_LETTER.sub("", word) in _EMPTY_WORDS | _PLACEHOLDERS


def is_total(text: str) -> bool:
    """Return whether a text is a total row of a service or spreadsheet."""
    return _NOT_A_LETTER.sub("", text.casefold()) in _TOTALS


def _cut_up(words: list[str]) -> bool:
    """Return whether the text is Chinese with spaces between the words, as a tokenizer writes it."""
    if len(words) < 4:
        return False
    chinese = len(_HAN_LETTER.findall(" ".join(words)))
    return len(words) <= chinese <= 3 * len(words)


def join_spellings(name: str) -> str:
    """Return the one spelling of what is the same text: composed, without characters of no width, single blanks."""
    return " ".join(unicodedata.normalize("NFC", _NO_WIDTH.sub("", name)).split())


def simplify_name(name: str) -> str:
    """Return the key by which names of things are compared: case, hyphens, articles and the plural's s make no
    difference."""
    words = [word for word in re.split(r"[\s\-_]+", join_spellings(name).casefold()) if word not in ("a", "an", "the")]
    return " ".join(word.removesuffix("s") if len(word) > 3 else word for word in words)


def find_joined_names(names: Iterable[str]) -> dict[str, str]:
    """Return the joined spelling of each name that is the same text as another one; the other names stay as they
    are."""
    by_text: dict[str, set[str]] = {}
    for name in names:
        by_text.setdefault(join_spellings(name), set()).add(name)
    return {name: text for text, spellings in by_text.items() if len(spellings) > 1 for name in spellings}


def find_alike_names(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names, in order, that look the same and are different texts; None without any."""
    first: dict[str, str] = {}
    for name in sorted(set(names)):
        other = first.setdefault(_shape(name), name)
        if join_spellings(other).casefold() != join_spellings(name).casefold():
            return other, name
    return None


def _shape(name: str) -> str:
    return join_spellings(unicodedata.normalize("NFKC", name)).translate(_LATIN_LETTERS).casefold()


def describe_code_points(name: str, other: str) -> str:
    """Return the characters of `name` that `other` does not have, or all of them, as U+0441 CYRILLIC SMALL LETTER
    ES."""
    characters = [one for one in dict.fromkeys(name) if one not in other] or list(dict.fromkeys(name))
    return ", ".join(f"U+{ord(one):04X} {unicodedata.name(one, 'without a name')}" for one in characters[:3])
