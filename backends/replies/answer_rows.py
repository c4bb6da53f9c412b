"""Stored answers as rows: the same columns in a database and in a bucket."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from backends.chat import MAX_RAW_CHARACTERS, ChatAnswer, ChatRequest, Failure, Reply
from backends.plugin_loader import ModelIdentity
from backends.replies.reply_keys import canonical_json_text, describe_answer


def describe_stored_answers(
    identity: ModelIdentity, answered: Sequence[tuple[str, ChatRequest, ChatAnswer]]
) -> list[dict[str, Any]]:
    """Returns a row for each answer to be stored: failures that are neither final nor have a raw reply are not."""
    return [
        _describe(identity, key, request, answer)
        for key, request, answer in answered
        if isinstance(answer, Reply) or answer.kind == "final" or answer.raw
    ]


def as_answer(
    kind: str, reason: str, text: str, prompt_tokens: int | None, completion_tokens: int | None
) -> Reply | Failure:
    """Returns the reply or the final failure that the columns of a row describe, without its raw reply."""
    return Reply(text, reason, prompt_tokens, completion_tokens) if kind == "reply" else Failure(reason, "final", text)


def _describe(identity: ModelIdentity, key: str, request: ChatRequest, answer: ChatAnswer) -> dict[str, Any]:
    kind, reason, text = describe_answer(answer)
    return {
        "key": key,
        "identity": canonical_json_text(identity.as_record()),
        "request": canonical_json_text(request.cache_key_fields()),
        "kind": kind,
        "reason": _writable(reason),
        "text": text if kind == "reply" else _writable(text),
        "prompt_tokens": getattr(answer, "prompt_tokens", None),
        "completion_tokens": getattr(answer, "completion_tokens", None),
        "raw": _writable(answer.raw),
        "stored_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _writable(text: str) -> str:
    """Returns a text that every database accepts."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")[:MAX_RAW_CHARACTERS]
