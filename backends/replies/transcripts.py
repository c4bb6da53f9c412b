"""Transcripts: recorded answers as JSON lines beside a definition. The model is on the first line, then each line holds
a question and its answer."""

from collections.abc import Sequence
from pathlib import Path

from backends.chat import ChatAnswer, Reply
from backends.file_errors import translate_read_errors
from backends.plugin_loader import ModelIdentity
from backends.regular_files import read_regular
from backends.replies.reply_keys import described_key
from builders.errors import UserError
from builders.strict_json import parse_json

_STAGE = "read transcript"


class Transcript:
    """Recorded answers by the keys of the reply store; read-only."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises UserError with the number of an invalid line."""
        self._identity, self._answers = _read(path)

    def identities(self) -> list[ModelIdentity]:
        """Returns the model of the transcript."""
        return [self._identity]

    def find(self, keys: Sequence[str]) -> dict[str, ChatAnswer]:
        """Returns the recorded answers among these keys."""
        return {key: self._answers[key] for key in keys if key in self._answers}


def _read(path: Path) -> tuple[ModelIdentity, dict[str, ChatAnswer]]:
    with translate_read_errors(_STAGE, path, "give a transcript, JSON lines in UTF-8"):
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
            raise UserError(_STAGE, f"{path} line {number}", "is no line of a transcript", next_step) from None
    return identity, answers


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
