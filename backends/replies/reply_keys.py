"""Keys of questions and digests of answers: what makes two questions, or two answers, the same."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from backends.chat import ChatAnswer, ChatRequest, Reply
from backends.plugin_loader import ModelIdentity


def canonical_json_text(value: Any) -> str:
    """Returns JSON in a single possible form; ASCII, so that lone surrogates can be encoded."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def reply_key(identity: ModelIdentity, request: ChatRequest) -> str:
    """Returns the key of an answer: a digest of model, revision, messages, digests of images and parameters."""
    return described_key(identity, request.cache_key_fields())


def described_key(identity: ModelIdentity, request_fields: dict[str, Any]) -> str:
    """The same for a request that is given by its `cache_key_fields`."""
    content = {"model": identity.as_record(), "request": request_fields}
    return hashlib.sha256(canonical_json_text(content).encode()).hexdigest()


def answers_digest(keyed: Iterable[tuple[str, ChatAnswer]]) -> str:
    """Returns the digest of the replies and final failures that a build used, independent of their order."""
    described = [(key, describe_answer(answer)) for key, answer in keyed]
    lines = {f"{key} {canonical_json_text(answer)}" for key, answer in described if answer[0] in ("reply", "final")}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def describe_answer(answer: ChatAnswer) -> tuple[str, str, str]:
    """Returns kind, reason and text: the fields of an answer on which builds depend."""
    if isinstance(answer, Reply):
        return "reply", answer.finish_reason, answer.text
    return answer.kind, answer.reason, answer.detail
