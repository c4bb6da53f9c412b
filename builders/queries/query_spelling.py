"""How a query is written: its normal form, the form by which two are the same question, and its language.

Misspelt queries stay questions of their own: people do type them.
"""

import re
import unicodedata

LONGEST = 300  # characters of a query
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BLANKS = re.compile(r"[\s\u200d]*\s[\s\u200d]*")  # a joiner inside an emoji stays
_EDGES = " .,!?;:'\"`´‘’“”„«»()[]{}<>。、·…《》【】「」『』~_-*/\\|"
_INNER = re.compile(r"[\s_\-–—/,;:!?'\"’、。·]+")
_WIDE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_BLANK_BESIDE_WIDE = re.compile(f"(?<=[{_WIDE}]) | (?=[{_WIDE}])")
_URL = re.compile(r"(?:https?|ftp|file)://|^www\.|^[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|cn|html?|php)(?:/|$)", re.I)
_PATH = re.compile(r"^(?:[a-z]:\\|/[\w.-]+/[\w.-]+|\\\\)", re.I)
_REPEATED = re.compile(r"(.)\1{9,}|^(.{1,4}?)\2{7,}$")
# The order decides for texts of several scripts: kana beside Chinese characters is Japanese.
_SCRIPTS = (
    ("ja", re.compile("[\u3041-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("zh", re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("en", re.compile("[a-z\u00c0-\u024f]", re.I)),
)


def normalise_query(text: str) -> str:
    """Returns the text in form NFKC, on one line, without invisible characters, and with single blanks."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return _BLANKS.sub(" ", _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))).strip()


def build_question_key(text: str) -> str:
    """Returns what normalised texts of one question share: case, punctuation between and around words, and blanks
    beside Chinese or Japanese characters make no difference. "" has no content."""
    key = _INNER.sub(" ", text.casefold().strip(_EDGES)).strip()
    return key if key.isascii() else _BLANK_BESIDE_WIDE.sub("", key)


def find_absurdity(text: str) -> str | None:
    """Returns why a normalised text is no query: too_long, is_url, is_path, no_content, repeated_characters or
    control_characters; None for a usable one."""
    if len(text) > LONGEST:
        return "too_long"
    if _URL.search(text):
        return "is_url"
    if _PATH.search(text):
        return "is_path"
    if _REPEATED.search(text):
        return "repeated_characters"
    if not text.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn") for c in text):
        return "control_characters"
    if not any(unicodedata.category(c)[0] in "LN" or unicodedata.category(c) == "So" for c in text):
        return "no_content"  # an emoji alone is a query
    return None


def find_language(text: str) -> str:
    """Returns the language by the script: en for Latin letters, und for none that is known."""
    if text.isascii():
        return "en" if any(c.isalpha() for c in text) else "und"
    return next((language for language, letters in _SCRIPTS if letters.search(text)), "und")
