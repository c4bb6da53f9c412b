"""Texts whose bytes were read in another encoding than they were written in, found by reading them again.

A list of broken sequences knows the accidents that it was made of. Here a text is written back in each encoding that it
may have been read in by mistake, and read in each that it may have been written in. Bytes of Chinese text seldom are
valid UTF-8 by chance, and the reverse; where both readings are possible, the one with more common characters holds (the
3,755 of level 1 of GB 2312, and the 5,401 of level 1 of Big5, are the common ones). Marks of a lost character (U+FFFD)
leave traces in every further reading: 锟斤拷 is what GBK reads in the UTF-8 of two of them, and 烫 and 屯 what it reads
in memory that nobody wrote to.
"""

import re
import unicodedata
from functools import lru_cache

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


def is_broken(text: str) -> bool:
    """Returns whether a text was read in a wrong encoding, or holds escapes in place of characters."""
    if text.isascii():
        return bool(_ESCAPED.search(text))
    if _ESCAPED.search(text) or any(_is_never_text(char) for char in text):
        return True
    if _MISREAD_BYTES.search(text.encode("gb18030", "ignore")) or _MISREAD_BYTES.search(text.encode("utf-8", "ignore")):
        return True
    if _mixes_scripts(text):
        return True
    return any(_is_misread_utf8(text, encoding) for encoding in (*_WESTERN, *_EASTERN)) or _is_misread_chinese(text)


def _is_never_text(char: str) -> bool:
    return char == "\ufffd" or unicodedata.category(char) in ("Co", "Cn") or "\x80" <= char <= "\x9f"


def _is_misread_utf8(text: str, encoding: str) -> bool:
    """Whether most of the text's bytes in an encoding are characters of UTF-8; lost bytes are allowed for."""
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
    """Whether Chinese was read as a Western encoding, or GBK as Big5 and the reverse."""
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
    """Whether most words with letters beyond ASCII are of letters alone, in lower case, capitals, or with one capital:
    bytes of Chinese give signs and capitals in the middle of words."""
    words = [word for word in _SPLIT.split(text) if word and not word.isascii()]
    natural = [word for word in words if word.isalpha() and (word.islower() or word.istitle() or word.isupper())]
    return bool(words) and 2 * len(natural) >= len(words)


def _mixes_scripts(text: str) -> bool:
    """Whether a word has letters of three alphabets, as bytes of GBK give where they are read as UTF-8."""
    return any(len(_alphabets(word)) >= 3 for word in _SPLIT.split(text) if not word.isascii())


def _alphabets(word: str) -> set[str]:
    names = {unicodedata.name(char, "").partition(" ")[0] for char in word if char.isalpha()}
    return names - _MIXED_WITH_OTHERS


def _high_runs(text: str, encoding: str) -> list[bytes]:
    """Returns the runs of bytes beyond ASCII that the text has in an encoding; [] where it cannot have come from it."""
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
    """Returns the share of common characters among those beyond ASCII; 0 for none."""
    others = [char for char in text if ord(char) > 0x7F]
    return sum(_is_common(char) for char in others) / len(others) if others else 0.0


@lru_cache(maxsize=1 << 15)
def _is_common(char: str) -> bool:
    if char in "，。！？、；：“”‘’（）《》…—·":
        return True
    simplified, traditional = char.encode("gb2312", "ignore"), char.encode("big5", "ignore")
    is_simplified = len(simplified) == 2 and 0xB0 <= simplified[0] <= 0xD7
    return is_simplified or (len(traditional) == 2 and 0xA4 <= traditional[0] <= 0xC6 and bool(_HAN.match(char)))
