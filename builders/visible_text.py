"""Texts with their invisible characters made visible, for terminals and pages.

A control character can command a terminal, a bidirectional mark can turn a name round, and a character without width
can hide between two letters: texts, names and ids of a set may come from anybody.
"""

import re

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def make_visible(text: str) -> str:
    """Returns the text with each control, bidirectional and zero-width character as its number (`⟨U+202E⟩`). Tabs and
    line ends stay."""
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def escape_invisible(json_text: str) -> str:
    """Returns JSON with the same characters as escapes (`\\u202e`); its meaning stays."""
    return _INVISIBLE.sub(_escape, json_text)


def _escape(match: re.Match[str]) -> str:
    encoded = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))
