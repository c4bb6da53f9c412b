"""Keeps a key out of everything that is written down, however a server spells it back."""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "[redacted]"
_MIN_SECRET_LENGTH = 8  # "EMPTY", which local servers take for a key, is a word like any other


class Redaction:
    """Replaces secrets in texts: verbatim, or with characters escaped as JSON, URLs or HTML do."""

    def __init__(self, secrets: Iterable[str]) -> None:
        spelled = [
            "".join(_spelling_pattern(c) for c in secret) for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH
        ]
        self._pattern = re.compile("|".join(spelled)) if spelled else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(REDACTED, text) if self._pattern else text

    def contains_secret(self, text: str) -> bool:
        """Whether a secret stands in the text."""
        return bool(self._pattern and self._pattern.search(text))


def _spelling_pattern(character: str) -> str:
    code = ord(character)
    return rf"(?:{re.escape(character)}|\\{re.escape(character)}|(?i:\\u{code:04x}|%{code:02x}|&#{code};|&#x{code:x};))"
