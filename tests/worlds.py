"""Worlds that several stories share: what a chat model answers, and a set that is built of a definition."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.publication import BuildResult
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from tests.loopback import CannedResponse


def chat_reply(text: str, finish: str = "stop", usage: Mapping[str, int] | None = None) -> CannedResponse:
    """What an endpoint of OpenAI's form answers. `usage`: its counts of tokens, which not every endpoint gives."""
    choices = [{"message": {"content": text}, "finish_reason": finish}]
    return CannedResponse({"choices": choices, "model": "m"} | ({} if usage is None else {"usage": dict(usage)}))


def build_of(kind: str, definition: Path | Sequence[str], *overrides: str, **run: Any) -> BuildResult:
    """A set of a definition, a file or `key=value` words; `run`: options of the run, such as `offline`."""
    path, words = (definition, []) if isinstance(definition, Path) else (None, list(definition))
    with active_run(BuildRun(**run)):
        return build_set(load_definition(path, [*words, *overrides], kind))
