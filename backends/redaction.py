"""Removal of secrets from texts, however a server spells them."""

import re
from collections.abc import Iterable

REDACTED = "[redacted]"
_MIN_SECRET_LENGTH = 8  # "EMPTY", which local servers accept as a key, is an ordinary word


class Redaction:
    """Replaces secrets in texts: verbatim, or with characters escaped as JSON, URLs or HTML do."""

    def __init__(self, secrets: Iterable[str]) -> None:
        spelled = ["".join(map(_spelling_pattern, secret)) for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH]
        self._pattern = re.compile("|".join(spelled)) if spelled else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(REDACTED, text) if self._pattern else text

    def contains_secret(self, text: str) -> bool:
        """Whether the text contains a secret."""
        return bool(self._pattern and self._pattern.search(text))


def _spelling_pattern(character: str) -> str:
    code = ord(character)
    return rf"(?:{re.escape(character)}|\\{re.escape(character)}|(?i:\\u{code:04x}|%{code:02x}|&#{code};|&#x{code:x};))"
