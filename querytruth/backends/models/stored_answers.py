"""Keys of questions, digests of answers, and transcripts: recorded answers as JSON lines.

A rebuild of an older version uses the replies that a refresh has set aside. The first
line of a transcript names the model; each further one holds a question and its answer.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.models.chat import MAX_RAW_CHARACTERS, ChatAnswer, ChatRequest, Reply
from querytruth.backends.plugins import ModelIdentity
from querytruth.defaults import hold_value
from querytruth.errors import UserError, translate_read_errors

_as_of: ContextVar[str | None] = ContextVar("replies_as_of", default=None)
_STAGE = "read transcript"


def canonical_json_text(value: object) -> str:
    """Return JSON in a single possible form; ASCII, so that lone surrogates can be encoded."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def reply_key(identity: ModelIdentity, request: ChatRequest) -> str:
    """Return the key of an answer: a digest of model, revision, messages, digests of images and parameters."""
    return described_key(identity, request.cache_key_fields())


def described_key(identity: ModelIdentity, request_fields: dict[str, Any]) -> str:
    """Return the same for a request that is given by its `cache_key_fields`."""
    content = {"model": identity.as_record(), "request": request_fields}
    return hashlib.sha256(canonical_json_text(content).encode()).hexdigest()


def answers_digest(keyed: Iterable[tuple[str, ChatAnswer]]) -> str:
    """Return the digest of the replies and final failures that a build used, independent of their order."""
    described = [(key, describe_answer(answer)) for key, answer in keyed]
    lines = {f"{key} {canonical_json_text(answer)}" for key, answer in described if answer[0] in ("reply", "final")}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def describe_answer(answer: ChatAnswer) -> tuple[str, str, str]:
    """Return kind, reason and text: the fields of an answer on which builds depend."""
    if isinstance(answer, Reply):
        return "reply", answer.finish_reason, answer.text
    return answer.kind, answer.reason, answer.detail


def writable(text: str) -> str:
    """Return a text that every database accepts."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")[:MAX_RAW_CHARACTERS]


def replies_as_of(moment: str | None) -> AbstractContextManager[None]:
    """Make reply stores answer as they did at a moment, an ISO time in UTC; None: as they do now."""
    return hold_value(_as_of, moment)


current_moment = _as_of.get  # of `replies_as_of`; None outside of it


class Transcript:
    """Recorded answers by the keys of the reply store; read-only."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises UserError with the number of an invalid line."""
        self._identity, self._answers = _read(path)

    def identities(self) -> list[ModelIdentity]:
        """Return the model of the transcript."""
        return [self._identity]

    def find(self, keys: Sequence[str]) -> dict[str, ChatAnswer]:
        """Return the recorded answers among these keys."""
        return {key: self._answers[key] for key in keys if key in self._answers}


def _read(path: Path) -> tuple[ModelIdentity, dict[str, ChatAnswer]]:
    with translate_read_errors(_STAGE, path, "give a transcript: JSON lines in UTF-8"):
        lines = read_regular(path).decode("utf-8").rstrip("\n").split("\n")
    identity, answers = ModelIdentity("", ""), dict[str, ChatAnswer]()
    for number, line in enumerate(lines, start=1):
        try:
            fields = parse_json(line)
            if number == 1:
                identity = ModelIdentity(**fields["model"])
            else:
                reply = Reply(_text(fields["reply"]), _text(fields["finish_reason"]))
                answers[described_key(identity, fields["request"])] = reply
        except (ValueError, KeyError, TypeError, RecursionError):
            next_step = "fix it: the model on line 1, then request, reply and finish_reason on each line"
            raise UserError(_STAGE, f"{path} line {number}", "is not a line of a transcript", next_step) from None
    return identity, answers


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
