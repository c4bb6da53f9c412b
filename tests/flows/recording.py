"""Writes the sample album's transcript again after a prompt, a sample or an answer changed:

    python -m tests.flows.recording

The replies stay, each at its topic and round; the questions become those that are asked now.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from backends.chat import Answer, Arrived, ChatRequest, ModelIdentity, Reply, go_on
from backends.replies.transcripts import header_of, line_of
from flows.definitions import load_definition
from flows.sample import DEFINITIONS
from flows.sample_queries import fill_in_answers
from flows.topics_and_objects import objects_stage, topics_stage

TRANSCRIPT = DEFINITIONS / "transcript.jsonl"
IDENTITY = ModelIdentity("written-for-the-sample-album", "", {})
_TOPIC = re.compile("当前主题是：(.*)。")
Said = Mapping[tuple[str, int], tuple[str, str]]  # topic ('' in the first stage), round -> reply, why it ended


class Prompter:
    """Says by heart what was written, and notes what it was asked."""

    identity, is_recorded = IDENTITY, True

    def __init__(self, said: Said) -> None:
        self._said = said
        self.lines: list[str] = []

    def reply(self, requests: Sequence[ChatRequest], arrived: Arrived = go_on) -> list[Answer]:
        replies = [Reply(*self._said[place_of(request.described())]) for request in requests]
        self.lines += [line_of(request.described(), reply) for request, reply in zip(requests, replies, strict=True)]
        arrived(list(enumerate(replies)))
        return list(replies)


def place_of(described: dict[str, object]) -> tuple[str, int]:
    """The topic and the round of a question."""
    topic = _TOPIC.search(described["messages"][0]["text"])  # type: ignore[index]
    return (topic[1] if topic else "", int(described["number"]))  # type: ignore[call-overload]


def record(said: Said) -> str:
    """The transcript of both stages, of a model that says this."""
    prompter, folder = Prompter(said), Path(tempfile.mkdtemp())
    given = [f"out={folder}", f"topics.samples={DEFINITIONS / 'topics.yaml'}"]
    definition = load_definition(DEFINITIONS / "generated.yaml", given, "generated")
    with (
        patch("flows.generation.topic_rounds.load_model", lambda _definition: prompter),
        patch("flows.generation.object_rounds.load_model", lambda _definition: prompter),
    ):
        fill_in_answers(topics_stage(definition, "generated.yaml").file, "topics")
        fill_in_answers(objects_stage(definition, "generated.yaml").file, "objects")
    shutil.rmtree(folder)
    return "\n".join([header_of(IDENTITY), *prompter.lines]) + "\n"


def said_before() -> Said:
    """The replies of the transcript as it is."""
    told = [json.loads(line) for line in TRANSCRIPT.read_text("utf-8").rstrip("\n").split("\n")[1:]]
    return {place_of(one["request"]): (one["reply"], one["finish_reason"]) for one in told}


if __name__ == "__main__":
    TRANSCRIPT.write_text(record(said_before()), "utf-8")
