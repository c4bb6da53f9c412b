"""A model's recorded answers and nothing else: no network, no weights, no key. They lie in a reply store, or in a
transcript, which is a file of JSON lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backends.chat import (
    ChatAnswer,
    ChatRequest,
    Failure,
    OnAnswers,
    always_continue,
)
from backends.plugin_loader import ModelIdentity, PluginOptions
from backends.replies.reply_store import ReplyStore, reply_key
from backends.replies.transcripts import Transcript
from builders.errors import UserError

_NOT_RECORDED = Failure("not_recorded", "transient", "the store holds no answer to this question")


class ReplayOptions(PluginOptions):
    """`replies` is the store's file or URL, or a transcript (*.jsonl). Which model: by name, revision and parameters,
    as far as it takes to be sure."""

    replies: str | Path
    name: str | None = None
    revision: str | None = None
    parameters: dict[str, Any] | None = None


def load(options: ReplayOptions) -> ReplayModel:
    """The one recorded model that the options fit."""
    if re.search(r"://[^/]*:[^/]*@|password=", str(options.replies)):
        raise UserError(
            "load chat model",
            "replay: replies",
            "a password in a definition would be published with the set",
            "leave it out: PGPASSWORD or ~/.pgpass gives it to the driver",
        )
    is_transcript = str(options.replies).endswith(".jsonl")
    store = Transcript(Path(options.replies)) if is_transcript else ReplyStore(options.replies)
    recorded = store.identities()
    fitting = [identity for identity in recorded if _fits(options, identity)]
    if len(fitting) != 1:
        described = "; ".join(_describe_identity(identity) for identity in (fitting or recorded)[:5])
        reason = f"{len(fitting)} recorded models fit" if recorded else "no model's answers are recorded"
        next_step = f"say which by name, revision and parameters: {described}" if recorded else "give another store"
        raise UserError("load chat model", "replay", reason, next_step)
    return ReplayModel(store, fitting[0])


class ReplayModel:
    """Stands for the model that it recorded, with the same identity."""

    is_recorded = True

    def __init__(self, store: ReplyStore | Transcript, identity: ModelIdentity) -> None:
        self.identity = identity
        self._store = store

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        """What was answered then; `not_recorded` where nothing was."""
        keys = [reply_key(self.identity, request) for request in requests]
        stored = self._store.find(sorted(set(keys)))
        answers = [stored.get(key, _NOT_RECORDED) for key in keys]
        on_answers(list(enumerate(answers)))
        return answers


def _fits(options: ReplayOptions, identity: ModelIdentity) -> bool:
    wanted = {"name": options.name, "revision": options.revision, "parameters": options.parameters}
    return all(value is None or getattr(identity, field) == value for field, value in wanted.items())


def _describe_identity(identity: ModelIdentity) -> str:
    parameters = ", ".join(f"{name} {value}" for name, value in sorted(identity.parameters.items()))
    return " ".join(part for part in (identity.name, identity.revision[:12], f"({parameters})") if part)
