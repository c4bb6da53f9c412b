"""Writes the transcript of the sample album's phrasings again after a prompt, a label or a text changed:

    python -m tests.flows.phrasing_recording

The replies are those of written_phrasings.yaml; the questions become those that are asked now.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

import prompts
from builders.precision.definition import PHRASING_PROMPTS
from builders.precision.tag_tree import LANGUAGES
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, OnAnswers, Reply, always_continue
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, write_sample_album
from tests.flows.transcript_recording import IDENTITY, format_header, format_line

TRANSCRIPT = SAMPLE_DEFINITIONS_FOLDER / "phrasings.jsonl"
WRITTEN = Path(__file__).with_name("written_phrasings.yaml")
WrittenTexts = dict[str, list[dict[str, str]]]  # per query: text, labels, same, outcome


def load_written_texts() -> WrittenTexts:
    """What was written by hand."""
    written: WrittenTexts = yaml.safe_load(WRITTEN.read_text("utf-8"))
    return written


class PhrasingWriter:
    """Gives the replies that were written by hand, and notes what it was asked."""

    identity, is_recorded = IDENTITY, True

    def __init__(self, written: WrittenTexts) -> None:
        self._written = written
        self._patterns = {
            name: [_match_question(f"{language}/{name}") for language in LANGUAGES] for name in PHRASING_PROMPTS
        }
        self.lines: list[str] = []

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        answers = [Reply(self._reply_to(request.messages[0].text), "stop") for request in requests]
        for request, answer in zip(requests, answers, strict=True):
            self.lines.append(format_line(request.cache_key_fields(), answer))
        on_answers(list(enumerate(answers)))
        return list(answers)

    def _reply_to(self, question: str) -> str:
        for name, patterns in self._patterns.items():
            for pattern in patterns:
                if found := pattern.fullmatch(question):
                    return self._say(name, found.groupdict())
        raise KeyError(question)

    def _say(self, prompt: str, values: dict[str, Any]) -> str:
        if prompt == "phrasings":
            return "\n".join(one["text"] for one in self._written[values["query"]])
        (one,) = [one for texts in self._written.values() for one in texts if one["text"] == values["text"]]
        return one["labels"] if prompt == "phrasing_labels" else one["same"]


def _match_question(name: str) -> re.Pattern[str]:
    """The questions of a prompt, with a group per field."""
    template = prompts.load_template(name)
    parts = re.split(r"\{([a-z_]+)\}", template.text)
    return re.compile("".join(f"(?P<{part}>.*)" if n % 2 else re.escape(part) for n, part in enumerate(parts)))


def record_phrasings() -> str:
    """The transcript of a build of the sample album, by a writer of the texts written by hand."""
    writer = PhrasingWriter(load_written_texts())
    with tempfile.TemporaryDirectory() as folder:
        write_sample_album(Path(folder))
        given = [f"annotations={folder}/annotations.json", f"images={folder}/images", f"out={folder}"]
        definition = load_definition(SAMPLE_DEFINITIONS_FOLDER / "phrasings.yaml", given, "precision")
        with patch("querytruth.backends.models.chat.load_chat_model", lambda *_, **__: writer):
            build_set(definition)
    return "\n".join([format_header(IDENTITY), *writer.lines]) + "\n"


if __name__ == "__main__":
    TRANSCRIPT.write_text(record_phrasings(), "utf-8")
