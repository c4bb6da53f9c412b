"""What a text of a log is: a question in its normal form, no query at all, or private.

Misspelt queries stay questions of their own: people do type them. Private are addresses, numbers of people and of
cards, and secrets of machines. A text is tested after normalisation, so that full-width digits count. Which part of it
looked private is never returned: a reason alone goes on.
"""

import html
import re
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress

from querytruth.sets.query_texts import is_placeholder

_LONGEST = 300  # characters of a query
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BLANKS = re.compile(r"[\s\u200d]*\s[\s\u200d]*")  # a joiner inside an emoji stays
_EDGES = " .,!?;:'\"`´‘’“”„«»()[]{}<>。、·…《》【】「」『』~_-*/\\|"
_INNER = re.compile(r"[\s_\-–—/,;:!?'\"’、。·]+")
_WIDE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_BLANK_BESIDE_WIDE = re.compile(f"(?<=[{_WIDE}]) | (?=[{_WIDE}])")
_URL = re.compile(r"(?:https?|ftp|file)://|^www\.|^[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|cn|html?|php)(?:/|$)", re.I)
_PATH = re.compile(r"^(?:[a-z]:\\|/[\w.-]+/[\w.-]+|\\\\)", re.I)
_ESCAPES = re.compile(r"%u([0-9a-f]{4})|\\u([0-9a-f]{4})", re.IGNORECASE)
_PERCENT = re.compile(r"(?:%[0-9a-f]{2})+", re.IGNORECASE)
_ENCODED = re.compile(r"(?:%[0-9a-f]{2}){3}", re.IGNORECASE)
_PLUS = re.compile(r"[^\W\d][\w'-]*(?:\+[^\W\d][\w'-]*)+")
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{2,6}|#x[0-9a-f]{2,6});", re.IGNORECASE)
_INITIAL = "[bpmfdtnlgkhjqxrzcsyw]"
_SYLLABLE = f"(?:[zcs]h|{_INITIAL})?(?:i?ang?|i?ong|[iu]?e[inr]?|[iu]?a[io]?|u?[aeiu]ng?|i[uno]?|ou?|u[eoin]?)"
_COMPOSED = re.compile(rf"{_SYLLABLE}(?:'{_SYLLABLE})*'(?:{_SYLLABLE}|[zcs]h?|{_INITIAL})", re.IGNORECASE)
_COMPOSING = re.compile(rf"{_SYLLABLE}(?:'{_SYLLABLE})*'(?:[zcs]h?|{_INITIAL})", re.IGNORECASE)
_CONTRACTED = re.compile(r"'(?:[tsdm]|re|ve|ll)$", re.IGNORECASE)
_HAN = re.compile("[\u3400-\u9fff]")
_FEWEST_TYPED = 10  # texts by which a log shows that it holds every keystroke
_REPEATED = re.compile(r"(.)\1{9,}|^(.{1,4}?)\2{7,}$")
PRIVATE_KINDS = ("email", "card_number", "id_number", "telephone", "secret", "long_number")
_EMAIL = re.compile(r"[\w.+%-]+\s?(?:@|\(at\)|\[at\])\s?[\w-]+(?:\.|\s?(?:\(dot\)|\[dot\])\s?)[a-z]{2,}", re.I)
_SPACED_DIGITS = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")
_CHINESE_ID = re.compile(
    r"(?<![0-9a-z])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dx](?!\w)", re.I
)
_OTHER_IDS = (
    re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])"),  # social security number of the United States
    re.compile(r"(?<![0-9a-z])[a-z]{2}\d{6}[a-d](?![0-9a-z])", re.I),  # national insurance number of the United Kingdom
)
_IBAN = re.compile(r"(?<![0-9a-z])[a-z]{2}\d{2}(?: ?[0-9a-z]{4}){2,7}(?: ?[0-9a-z]{1,3})?(?![0-9a-z])", re.I)
_TELEPHONES = (
    re.compile(r"(?<!\d)(?:\+?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)"),  # mobile, China
    re.compile(r"(?<!\d)0\d{2,3}[ -]\d{7,8}(?!\d)"),  # fixed line, China
    re.compile(r"\+\d{1,3}(?:[ ().-]{0,2}\d){7,12}(?!\d)"),  # international form
    re.compile(r"(?<![\d.])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?![\d.])"),  # North America
    re.compile(r"(?<!\d)0\d{1,4}[ /-]\d{3,4}[ -]?\d{3,5}(?!\d)"),  # with an area code
)
_SECRETS = (
    re.compile(r"(?:pass(?:word|wd|code)?|pwd|api[_ -]?key|secret|token|密码|口令)\s*(?:[:=]|是|is\s)\s*\S{4,}", re.I),
    re.compile(r"(?<!\w)(?:sk-|gh[opsu]_|xox[abp]-|glpat-|AKIA|AIza|eyJ)[\w.-]{12,}"),
    re.compile(r"-----BEGIN [A-Z ]+-----"),
    re.compile(r"(?<![0-9a-f])[0-9a-f]{32,}(?![0-9a-f])", re.I),
)
_TOKEN = re.compile(r"[A-Za-z0-9_+/=-]{20,}")
_LONG_NUMBER = re.compile(r"(?<!\d)\d{9,}(?!\d)")
_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)  # GB 11643-1999


def normalise_query(text: str) -> str:
    """Returns the text in form NFKC, on one line, without invisible characters, and with single blanks; what a browser
    or a page encoded is decoded."""
    if "%" in text or "+" in text or "&" in text or "\\" in text:
        text = _decode(text)
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return _BLANKS.sub(" ", _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))).strip()


def _decode(text: str) -> str:
    """Returns the text without percent signs, pluses for blanks, and names of characters, also where these were encoded
    twice. What fits no encoding stays."""
    if " " not in text and (_PLUS.fullmatch(text) or _PERCENT.search(text)):
        text = text.replace("+", " ")
    for _ in range(2):
        text = _ESCAPES.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
        text = _PERCENT.sub(lambda found: _decode_bytes(found[0]), text)
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    return text


def _decode_bytes(text: str) -> str:
    data = bytes.fromhex(text.replace("%", ""))
    for encoding in ("utf-8", "gb18030"):
        with suppress(UnicodeDecodeError):
            found = data.decode(encoding)
            if encoding == "utf-8" or all(map(_HAN.match, found)):
                return found
    return text


def find_unfinished(asked: Mapping[str, float]) -> set[str]:
    """Returns the texts of a log, each with its searches, that were not finished: where most texts are the beginning of
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
    """Returns what normalised texts of one question share: case, punctuation between and around words, and blanks
    beside Chinese or Japanese characters make no difference. "" has no content."""
    key = _INNER.sub(" ", text.casefold().strip(_EDGES)).strip()
    return key if key.isascii() else _BLANK_BESIDE_WIDE.sub("", key)


def find_absurdity(text: str) -> str | None:
    """Returns why a normalised text is no query: too_long, placeholder, is_url, is_path, no_content, encoded_text,
    repeated_characters or control_characters; None for a usable one."""
    if len(text) > _LONGEST:
        return "too_long"
    if is_placeholder(text):
        return "placeholder"
    if _ENCODED.search(text):
        return "encoded_text"
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


def find_private_kind(text: str, kinds: Collection[str] = PRIVATE_KINDS) -> str | None:
    """Returns the first of PRIVATE_KINDS that a normalised text seems to hold; None for none of `kinds`."""
    return next((kind for kind in PRIVATE_KINDS if kind in kinds and _holds(kind, text)), None)


def _holds(kind: str, text: str) -> bool:
    if kind == "email":
        return ("@" in text or "at" in text) and _EMAIL.search(text) is not None
    if kind == "secret":
        return any(one.search(text) for one in _SECRETS) or any(map(_is_mixed, _TOKEN.findall(text)))
    if not any(c.isdigit() for c in text):
        return False
    if kind == "card_number":
        return any(_passes_luhn(found[0]) for found in _SPACED_DIGITS.finditer(text))
    if kind == "id_number":
        is_chinese = any(_passes_id_check(found[0]) for found in _CHINESE_ID.finditer(text))
        is_bank = any(_passes_iban_check(found[0]) for found in _IBAN.finditer(text))
        return is_chinese or is_bank or any(one.search(text) for one in _OTHER_IDS)
    if kind == "telephone":
        return any(one.search(text) for one in _TELEPHONES)
    return _LONG_NUMBER.search(text) is not None


def _passes_luhn(text: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1). Zeros alone are no card."""
    digits = [int(c) for c in text if c.isdigit()][::-1]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _passes_id_check(text: str) -> bool:
    total = sum(int(digit) * weight for digit, weight in zip(text, _ID_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == text[17].upper()


def _passes_iban_check(text: str) -> bool:
    """Whether the check digits of an international bank account number fit (ISO 13616)."""
    account = text.replace(" ", "").upper()
    return 15 <= len(account) <= 34 and int("".join(str(int(c, 36)) for c in account[4:] + account[:4])) % 97 == 1


def _is_mixed(token: str) -> bool:
    """Whether a long run of characters has digits, small and large letters, as keys of machines have."""
    return any(c.isdigit() for c in token) and token.upper() != token and token.lower() != token
