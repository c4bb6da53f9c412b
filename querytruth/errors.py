"""The error that users see: one line with item, stage, reason and next step, without secrets or invisible characters.

The system's file errors become such errors. A secret is removed however a server spells it. A control character can
command a terminal, a bidirectional mark can turn a name round, and a character without width can hide between two
letters: texts, names and ids of a set may come from anybody, and are shown with these made visible.
"""

from __future__ import annotations

import base64
import errno
import html.entities
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

_WRITE_FIXES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "choose another folder",
    errno.EACCES: "make it writable",
}
SEVERITIES = ("error", "warning", "note")
REDACTED = "[redacted]"
_MIN_SECRET_LENGTH = 8  # "EMPTY", which local servers accept as a key, is an ordinary word
# Between two characters: the zeros of UTF-16, invisible characters, a folded line.
_BETWEEN = r"(?:\\{0,4}x00|\\{1,4}u0000|[\x00\u00ad\u200b-\u200f\u2060-\u2064\ufeff]|\\{0,4}\r?\n[ \t]{0,8})?"
_ENTITIES = {(text, name.rstrip(";")) for name, text in html.entities.html5.items() if "!" <= text <= "~"}
_NAMED = {text: "|".join(name for _, name in names) for text, names in groupby(sorted(_ENTITIES), itemgetter(0))}
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


class UserError(Exception):
    """An error that the user can fix; shown as one line without a traceback. A command ends with `exit_code`."""

    exit_code = 1

    def __init__(self, stage: str, item: object, reason: str, next_step: str) -> None:
        # A library's message, or a name, may have several lines.
        parts = (" ".join(map(str.strip, str(part).splitlines())) for part in (stage, item, reason, next_step))
        self.stage, self.item, self.reason, self.next_step = parts
        super().__init__(f"{self.item} ({self.stage}): {self.reason}. Next: {self.next_step}")

    def __reduce__(self) -> tuple[type[UserError], tuple[str, str, str, str]]:
        """Pickle all fields, so that a worker process can raise it."""
        return type(self), (self.stage, self.item, self.reason, self.next_step)


class UsageError(UserError):
    """A call that nothing can be done with; nothing was read or written."""

    exit_code = 2

    def __init__(self, item: object, reason: str, next_step: str, stage: str = "command line") -> None:
        super().__init__(stage, item, reason, next_step)

    def __reduce__(self) -> tuple[type[UserError], tuple[str, str, str, str]]:
        return type(self), (self.item, self.reason, self.next_step, self.stage)


class BudgetSpentError(UserError):
    """The end of a run whose budget is spent: nothing is lost, and the next run goes on from there."""

    exit_code = 4


def first_line(error: Exception) -> str:
    """Return the first non-empty line of a library's message, at most 200 characters; else the error's class."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)[:200].rstrip(".")


def suggest_choice(unknown: str, choices: list[str]) -> str:
    """Return a clause that names the choices that begin with the unknown word, or the closest one, or the first
    choices, 240 characters of them, where none is close."""
    from difflib import get_close_matches

    longer = sorted(choice for choice in choices if choice.casefold().startswith(f"{unknown.casefold()}_"))
    if 0 < len(longer) <= 3:
        return f"did you mean {' or '.join(map(repr, longer))}?"
    plain = {choice.casefold().lstrip("-"): choice for choice in choices}  # dashes make all options alike
    if close := get_close_matches(unknown.casefold().lstrip("-"), plain, n=1, cutoff=0.6):
        return f"did you mean {plain[close[0]]!r}?"
    listed = ", ".join(sorted(choices))
    return "choose from " + (listed if len(listed) <= 240 else f"{listed[:240].rpartition(', ')[0]}, …")


@contextmanager
def translate_read_errors(
    stage: str, item: object, next_step: str = "check the path", also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise UserError in place of OSError, UnicodeDecodeError and the errors in `also`."""
    errors: tuple[type[Exception], ...] = (OSError, *also)
    try:
        yield
    except UnicodeDecodeError as error:
        raise UserError(stage, item, f"is not UTF-8 ({error.reason})", "save it as UTF-8") from None
    except errors as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise UserError(stage, item, f"cannot be read ({reason})", next_step) from None


@contextmanager
def translate_write_errors(stage: str, item: object, then: str = "then run the same command") -> Iterator[None]:
    """Raise UserError in place of OSError. The next step is the fix for that error, and `then`."""
    try:
        yield
    except OSError as error:
        fix = _WRITE_FIXES.get(error.errno or 0, "fix that")
        raise UserError(stage, item, f"cannot be written ({error.strerror})", f"{fix}, {then}") from None


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One check's result: the number of cases and the first of them. An error makes figures wrong, a warning may make
    them wrong, a note is for information."""

    check: str
    severity: str
    count: int
    says: str
    examples: tuple[str, ...]


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
        """Return whether the text contains a secret."""
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
    code, named = ord(character), _NAMED.get(character, "")
    escaped = rf"\\{{1,4}}(?:u{code:04x}|u\{{0{{0,5}}{code:x}\}}|x{code:02x})|%(?:25){{0,3}}{code:02x}"
    entity = rf"&(?:amp;){{0,3}}(?:#0{{0,5}}{code}|#x0{{0,5}}{code:x}{'|' + named if named else ''});"
    return rf"(?:\\{{0,4}}{re.escape(character)}|{escaped}|{entity})"


def make_visible(text: str) -> str:
    """Return the text with each control, bidirectional and zero-width character as its number (`⟨U+202E⟩`). Tabs and
    line ends stay."""
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def escape_invisible(json_text: str) -> str:
    r"""Return JSON with the same characters as escapes (`\u202e`); its meaning stays."""
    return _INVISIBLE.sub(_escape, json_text)


def _escape(match: re.Match[str]) -> str:
    encoded = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))
