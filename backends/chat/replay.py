"""A model's recorded answers and nothing else: no network, no weights, no key. They lie in a reply store, or in a
transcript, which is a file of JSON lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from backends.chat import (
    Answer,
    Arrived,
    ChatRequest,
    Failure,
    ModelIdentity,
    checked_options,
    go_on,
)
from backends.replies.reply_store import ReplyStore, key_of
from backends.replies.transcripts import Transcript
from builders.errors import UserError

_NOT_RECORDED = Failure("not_recorded", "transient", "the store holds no answer to this question")


class Options(BaseModel):
    """`replies` is the store's file or URL, or a transcript (*.jsonl). Which model: by name, revision and parameters,
    as far as it takes to be sure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    replies: str | Path
    name: str | None = None
    revision: str | None = None
    parameters: dict[str, Any] | None = None


def load(**options: Any) -> Replay:
    """The one recorded model that the options fit."""
    checked = checked_options(Options, "replay", options)
    if re.search(r"://[^/]*:[^/]*@|password=", str(checked.replies)):
        raise UserError(
            "load chat model",
            "replay: replies",
            "a password in a definition would be published with the set",
            "leave it out: PGPASSWORD or ~/.pgpass gives it to the driver",
        )
    is_transcript = str(checked.replies).endswith(".jsonl")
    store = Transcript(Path(checked.replies)) if is_transcript else ReplyStore(checked.replies)
    known = store.identities()
    fitting = [identity for identity in known if _fits(checked, identity)]
    if len(fitting) != 1:
        described = "; ".join(_said(identity) for identity in (fitting or known)[:5])
        reason = f"{len(fitting)} recorded models fit" if known else "no model's answers are recorded"
        next_step = f"say which by name, revision and parameters: {described}" if known else "give another store"
        raise UserError("load chat model", "replay", reason, next_step)
    return Replay(store, fitting[0])


class Replay:
    """Stands for the model that it recorded, with the same identity."""

    is_recorded = True

    def __init__(self, store: ReplyStore | Transcript, identity: ModelIdentity) -> None:
        self.identity = identity
        self._store = store

    def reply(self, requests: Sequence[ChatRequest], arrived: Arrived = go_on) -> list[Answer]:
        """What was answered then; `not_recorded` where nothing was."""
        keys = [key_of(self.identity, request) for request in requests]
        found = self._store.find(sorted(set(keys)))
        answers = [found.get(key, _NOT_RECORDED) for key in keys]
        arrived(list(enumerate(answers)))
        return answers


def _fits(options: Options, identity: ModelIdentity) -> bool:
    wanted = {"name": options.name, "revision": options.revision, "parameters": options.parameters}
    return all(value is None or getattr(identity, field) == value for field, value in wanted.items())


def _said(identity: ModelIdentity) -> str:
    parameters = ", ".join(f"{name} {value}" for name, value in sorted(identity.parameters.items()))
    return " ".join(part for part in (identity.name, identity.revision[:12], f"({parameters})") if part)
