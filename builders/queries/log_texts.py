"""Classify a text of a log: a question of its own, or not a query. Misspelt queries stay questions, because people do
type them. `querytruth.sets.text_sieve` decides what is private in a text.
"""

import re
import unicodedata
from collections.abc import Mapping

from querytruth.sets.query_texts import is_placeholder

_LONGEST = 300  # characters of a query
_EDGES = " .,!?;:'\"`´‘’“”„«»()[]{}<>。、·…《》【】「」『』~_-*/\\|"
_INNER = re.compile(r"[\s_\-–—/,;:!?'\"’、。·]+")
_WIDE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_BLANK_BESIDE_WIDE = re.compile(f"(?<=[{_WIDE}]) | (?=[{_WIDE}])")
_PATH = re.compile(r"^(?:[a-z]:\\|/[\w.-]+/[\w.-]+|\\\\)", re.I)
_ENCODED = re.compile(r"(?:%[0-9a-f]{2}){3}", re.IGNORECASE)
_INITIAL = "[bpmfdtnlgkhjqxrzcsyw]"
_SYLLABLE = f"(?:[zcs]h|{_INITIAL})?(?:i?ang?|i?ong|[iu]?e[inr]?|[iu]?a[io]?|u?[aeiu]ng?|i[uno]?|ou?|u[eoin]?)"
_COMPOSED = re.compile(rf"{_SYLLABLE}(?:'{_SYLLABLE})*'(?:{_SYLLABLE}|[zcs]h?|{_INITIAL})", re.IGNORECASE)
_COMPOSING = re.compile(rf"{_SYLLABLE}(?:'{_SYLLABLE})*'(?:[zcs]h?|{_INITIAL})", re.IGNORECASE)
_CONTRACTED = re.compile(r"'(?:[tsdm]|re|ve|ll)$", re.IGNORECASE)
_HAN = re.compile("[\u3400-\u9fff]")
_FEWEST_TYPED = 10  # texts by which a log shows that it holds every keystroke
_REPEATED = re.compile(r"(.)\1{9,}|^(.{1,4}?)\2{7,}$")


def find_unfinished(asked: Mapping[str, float]) -> set[str]:
    """Return the texts of a log, each with its searches, that were not finished: where most texts are the beginning of
    another, those that were mostly typed on; and, beside Chinese ones, the letters of a Chinese keyboard."""
    texts, longer = sorted(asked), dict[str, float]()
    for text in texts:
        before = next((text[:-cut].rstrip() for cut in (1, 2) if text[:-cut].rstrip() in asked), "")
        if before:
            longer[before] = longer.get(before, 0.0) + asked[text]
    is_typed = len(texts) >= _FEWEST_TYPED and 2 * len(longer) > len(texts)
    out = {text for text, typed_on in longer.items() if is_typed and asked[text] <= 2 * typed_on}
    if any(map(_HAN.search, texts)):  # xi'an is a city, xi'sh is none
        composed = _COMPOSED if is_typed else _COMPOSING
        out |= {text for text in texts if composed.fullmatch(text) and not _CONTRACTED.search(text)}
    return out


def build_question_key(text: str) -> str:
    """Return what normalised texts of one question share: case, punctuation between and around words, and blanks
    beside Chinese or Japanese characters make no difference. "" has no content."""
    key = _INNER.sub(" ", text.casefold().strip(_EDGES)).strip()
    return key if key.isascii() else _BLANK_BESIDE_WIDE.sub("", key)


def find_absurdity(text: str) -> str | None:
    """Return why a normalised text is not a query: too_long, placeholder, is_path, no_content, encoded_text,
    repeated_characters or control_characters; None for a usable one."""
    if len(text) > _LONGEST:
        return "too_long"
    if is_placeholder(text):
        return "placeholder"
    if _ENCODED.search(text):
        return "encoded_text"
    if _PATH.search(text):
        return "is_path"
    if _REPEATED.search(text):
        return "repeated_characters"
    if not text.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn") for c in text):
        return "control_characters"
    if not any(unicodedata.category(c)[0] in "LN" or unicodedata.category(c) == "So" for c in text):
        return "no_content"  # an emoji alone is a query
    return None
