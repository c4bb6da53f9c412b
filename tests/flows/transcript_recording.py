"""Writes the sample album's transcript again after a prompt, a sample or an answer changed:

    python -m tests.flows.transcript_recording

The replies stay, each at its topic and round; the questions become those that are asked now.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from builders.generated.stages import run_objects_stage, run_topics_stage
from flows.definition_loader import load_definition
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, OnAnswers, Reply, always_continue
from querytruth.backends.plugins import ModelIdentity
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, fill_in_answers

TRANSCRIPT = SAMPLE_DEFINITIONS_FOLDER / "transcript.jsonl"
IDENTITY = ModelIdentity("written-for-the-sample-album", "", {})
_TOPIC = re.compile("当前主题是：{?(.*?)}?。")
TranscriptReplies = Mapping[
    tuple[str, int], tuple[str, str]
]  # topic ('' in the first stage), round -> reply, why it ended


class RecordedChatModel:
    """Says by heart what was written, and notes what it was asked."""

    identity, is_recorded = IDENTITY, True

    def __init__(self, replies: TranscriptReplies) -> None:
        self._said = replies
        self.lines: list[str] = []

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        replies = [Reply(*self._said[locate_prompt(request.cache_key_fields())]) for request in requests]
        self.lines += [
            format_line(request.cache_key_fields(), reply) for request, reply in zip(requests, replies, strict=True)
        ]
        on_answers(list(enumerate(replies)))
        return list(replies)


def format_header(identity: ModelIdentity) -> str:
    """Return the first line of a transcript."""
    return _line({"model": identity.as_record()})


def format_line(described: dict[str, Any], reply: Reply) -> str:
    """Return the line for a question, given by its `cache_key_fields`, and its answer."""
    return _line({"request": described, "reply": reply.text, "finish_reason": reply.finish_reason})


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, sort_keys=True)


def locate_prompt(described: dict[str, object]) -> tuple[str, int]:
    """The topic and the round of a question."""
    topic = _TOPIC.search(described["messages"][0]["text"])  # type: ignore[index]
    return (topic[1] if topic else "", int(described["number"]))  # type: ignore[call-overload]


def record_transcript(replies: TranscriptReplies) -> str:
    """The transcript of both stages, of a model that says this."""
    prompter, folder = RecordedChatModel(replies), Path(tempfile.mkdtemp())
    given = [f"out={folder}", f"topics.samples={SAMPLE_DEFINITIONS_FOLDER / 'topics.yaml'}"]
    definition = load_definition(SAMPLE_DEFINITIONS_FOLDER / "generated.yaml", given, "generated")
    with (
        patch("builders.generated.topic_rounds.load_chat_model", lambda _definition: prompter),
        patch("builders.generated.object_rounds.load_chat_model", lambda _definition: prompter),
    ):
        fill_in_answers(run_topics_stage(definition, "generated.yaml").file, "topics")
        fill_in_answers(run_objects_stage(definition, "generated.yaml").file, "objects")
    shutil.rmtree(folder)
    return "\n".join([format_header(IDENTITY), *prompter.lines]) + "\n"


def load_replies() -> TranscriptReplies:
    """The replies of the transcript as it is."""
    lines = [json.loads(line) for line in TRANSCRIPT.read_text("utf-8").rstrip("\n").split("\n")[1:]]
    return {locate_prompt(one["request"]): (one["reply"], one["finish_reason"]) for one in lines}


if __name__ == "__main__":
    TRANSCRIPT.write_text(record_transcript(load_replies()), "utf-8")
