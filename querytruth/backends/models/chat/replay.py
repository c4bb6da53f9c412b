"""The recorded answers of a model, from a reply store or a transcript (JSON lines): no network, weights or key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Failure, OnAnswers, always_continue
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from querytruth.backends.models.stored_answers import Transcript, reply_key
from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.errors import UserError

_NOT_RECORDED = Failure("not_recorded", "transient", "the store has no answer to this question")


class ReplayOptions(PluginOptions):
    """`replies` is the file or URL of a reply store, or a transcript (*.jsonl). The other options select one of its
    models."""

    replies: str | Path
    name: str | None = None
    revision: str | None = None
    parameters: dict[str, Any] | None = None


def load(options: ReplayOptions) -> ReplayModel:
    """Return the one recorded model that the options fit. Raises UserError for none or several."""
    if re.search(r"://[^/]*:[^/]*@|password=", str(options.replies)):
        reason = "a password in a definition would be published with the set"
        next_step = "remove it and use PGPASSWORD or ~/.pgpass"
        raise UserError("load chat model", "replay: replies", reason, next_step)
    is_transcript = str(options.replies).endswith(".jsonl")
    store = Transcript(Path(options.replies)) if is_transcript else open_reply_store(options.replies)
    recorded = store.identities()
    fitting = [identity for identity in recorded if _fits(options, identity)]
    if len(fitting) != 1:
        described = "; ".join(_describe_identity(identity) for identity in (fitting or recorded)[:5])
        reason = f"{len(fitting)} recorded models match" if recorded else "the store has no recorded answers"
        next_step = f"choose one by name, revision and parameters: {described}" if recorded else "give another store"
        raise UserError("load chat model", "replay", reason, next_step)
    return ReplayModel(store, fitting[0])


class ReplayModel:
    """Replays the answers of a model, with the identity of that model."""

    is_recorded = True

    def __init__(self, store: ReplyStore | Transcript, identity: ModelIdentity) -> None:
        self.identity = identity
        self._store = store

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        """Return the recorded answers; `not_recorded` for missing ones."""
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
