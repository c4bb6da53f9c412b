"""Removal of secrets from texts, however a server spells them."""

import base64
import html.entities
import re
from collections.abc import Iterable, Iterator

REDACTED = "[redacted]"
_MIN_SECRET_LENGTH = 8  # "EMPTY", which local servers accept as a key, is an ordinary word
# Between two characters: the zeros of UTF-16, invisible characters, a folded line.
_BETWEEN = r"(?:\\{0,4}x00|\\{1,4}u0000|[\x00\u00ad\u200b-\u200f\u2060-\u2064\ufeff]|\\{0,4}\r?\n[ \t]{0,8})?"
_NAMED = {
    code: "|".join(sorted({name.rstrip(";") for name, text in html.entities.html5.items() if text == chr(code)}))
    for code in range(33, 127)
}


class Redaction:
    """Replaces secrets in texts: verbatim, in other case, with characters escaped once or several times as JSON, URLs
    or HTML do, in UTF-16, in base64 or in hexadecimal digits."""

    def __init__(self, secrets: Iterable[str]) -> None:
        long_enough = [secret for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH]
        spelled = [form for secret in long_enough for form in _spelling_patterns(secret)]
        self._pattern = re.compile("|".join(spelled), re.IGNORECASE) if spelled else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(REDACTED, text) if self._pattern else text

    def contains_secret(self, text: str) -> bool:
        """Whether the text contains a secret."""
        return bool(self._pattern and self._pattern.search(text))


def _spelling_patterns(secret: str) -> Iterator[str]:
    yield _BETWEEN.join(map(_character_pattern, secret))
    data = secret.encode()
    yield data.hex()
    for skipped in range(3):  # in base64 the letters depend on the place among three bytes
        whole = len(data) - (len(data) + skipped) % 3  # the last letters depend on what follows
        encoded = base64.b64encode(bytes(skipped) + data[:whole]).decode("ascii")[(0, 2, 3)[skipped] :]
        yield "".join({"+": "[+-]", "/": r"(?:\\{0,4}[/_])"}.get(letter, letter) for letter in encoded)


def _character_pattern(character: str) -> str:
    code, named = ord(character), _NAMED.get(ord(character), "")
    escaped = rf"\\{{1,4}}(?:u{code:04x}|u\{{0{{0,5}}{code:x}\}}|x{code:02x})|%(?:25){{0,3}}{code:02x}"
    entity = rf"&(?:amp;){{0,3}}(?:#0{{0,5}}{code}|#x0{{0,5}}{code:x}{'|' + named if named else ''});"
    return rf"(?:\\{{0,4}}{re.escape(character)}|{escaped}|{entity})"
