"""Spellings of a name: those that are the same text, and those that only look the same.

The same text: canonically equivalent (NFC), characters of no width, other or repeated blanks. Alike: compatible forms
(full width, Ⅳ), and the Cyrillic and Greek letters that Unicode's confusables.txt (UTS 39) gives for Latin ones.
"""

import re
import unicodedata
from collections.abc import Iterable

# Soft hyphen, zero-width space, non-joiner, joiner, direction marks, word joiner, byte order mark.
_NO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")

_CYRILLIC = ("АВЕЅІЈКМНОРСТУХаеѕіјорсухԛԝһԁ", "ABESIJKMHOPCTYXaesijopcyxqwhd")
_GREEK = ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρι", "ABEZHIKMNOPTYXovpi")
_LATIN_LETTERS = {
    ord(other): latin for others, latins in (_CYRILLIC, _GREEK) for other, latin in zip(others, latins, strict=True)
}


def join_spellings(name: str) -> str:
    """Returns the one spelling of what is the same text: composed, without characters of no width, single blanks."""
    return " ".join(unicodedata.normalize("NFC", _NO_WIDTH.sub("", name)).split())


def simplify_name(name: str) -> str:
    """Returns what names of things are compared by: case, hyphens, articles and the plural's s make no difference."""
    words = [word for word in re.split(r"[\s\-_]+", join_spellings(name).casefold()) if word not in ("a", "an", "the")]
    return " ".join(word.removesuffix("s") if len(word) > 3 else word for word in words)


def find_joined_names(names: Iterable[str]) -> dict[str, str]:
    """Returns the joined spelling of each name that is the same text as another one; the other names stay as they
    are."""
    by_text: dict[str, set[str]] = {}
    for name in names:
        by_text.setdefault(join_spellings(name), set()).add(name)
    return {name: text for text, spellings in by_text.items() if len(spellings) > 1 for name in spellings}


def find_alike_names(names: Iterable[str]) -> tuple[str, str] | None:
    """Returns the first two names, in order, that look the same and are different texts; None where there are none."""
    first: dict[str, str] = {}
    for name in sorted(set(names)):
        shape = _shape(name)
        other = first.setdefault(shape, name)
        if join_spellings(other).casefold() != join_spellings(name).casefold():
            return other, name
    return None


def _shape(name: str) -> str:
    whole = join_spellings(unicodedata.normalize("NFKC", name))
    return whole.translate(_LATIN_LETTERS).casefold()


def describe_code_points(name: str, other: str) -> str:
    """Returns the characters of `name` that `other` does not have, or all of them, as U+0441 CYRILLIC SMALL LETTER
    ES."""
    characters = [one for one in dict.fromkeys(name) if one not in other] or list(dict.fromkeys(name))
    return ", ".join(f"U+{ord(one):04X} {unicodedata.name(one, 'without a name')}" for one in characters[:3])
