"""Chat models: one module each, named as the option's value, with `load(options)`.

Answers come in the order of the requests. A bad answer is a `Failure` in its place, never an exception and never a
text that the model did not write.
"""

import json
import math
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from querytruth.backends.plugins import ModelIdentity, PluginPackage
from querytruth.errors import UserError

CHAT_MODELS = PluginPackage(
    "querytruth.backends.models.chat", "chat model", "load chat model", {"human": "builders.recall.human_captions"}
)
MAX_RAW_CHARACTERS = 64 << 10  # characters of a raw reply that are stored


@dataclass(frozen=True, slots=True)
class ChatImage:
    """An image in a message; `sha256` is the digest of the bytes at `path`. `file_name` (in its source) and `image_id`
    only serve to find captions that were written elsewhere; they are not part of the cache key."""

    path: Path
    sha256: str
    file_name: str = ""
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of the conversation; its images come before its text."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[ChatImage, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationParameters:
    """Generation parameters that every model accepts; None leaves a value to the options of the model."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None

    def explicit_values(self) -> dict[str, Any]:
        """Return the parameters that are not None."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question. With `response_format`, the reply must be JSON of that form. `number` distinguishes several answers
    to the same question. `language` selects captions from a file; it is not part of the cache key, since the messages
    already ask for the language. Neither is `item`, the id of the query, which selects scores from a file. `is_scored`:
    the answer is a number, read by `read_score`."""

    messages: tuple[Message, ...]
    parameters: GenerationParameters = GenerationParameters()
    response_format: type[BaseModel] | None = None
    number: int = 0
    language: str | None = None
    item: str = ""
    is_scored: bool = False

    def cache_key_fields(self) -> dict[str, Any]:
        """Return all that the answer depends on; images by their digests only."""
        messages = [
            {"role": m.role, "text": m.text, "pictures": [image.sha256 for image in m.images]} for m in self.messages
        ]
        parameters = self.parameters.explicit_values()
        schema = self.response_format.model_json_schema() if self.response_format else None
        fields = {"messages": messages, "parameters": parameters, "schema": schema, "number": self.number}
        return fields | ({"scored": True} if self.is_scored else {})


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of the model, verbatim. `finish_reason` is reported by the model: stop, length (cut by the token limit)
    or other; unknown token counts are None; `raw` is the whole answer, at most `MAX_RAW_CHARACTERS` characters."""

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason for a missing reply. transient: a retry may succeed; final: this question would fail again; blocked:
    every question fails until a person fixes something."""

    reason: str
    kind: Literal["transient", "final", "blocked"]
    detail: str = ""
    raw: str = ""


ChatAnswer = Reply | Failure
# Receives (index of the request, its answer) pairs; return whether to continue.
OnAnswers = Callable[[Sequence[tuple[int, ChatAnswer]]], bool]
NOT_ASKED = Failure("not_asked", "transient", "the run stopped before this question")


class ChatModel(Protocol):
    """The interface that `load` returns. The answers of a model that `is_recorded` are in a file and cost nothing."""

    @property
    def identity(self) -> ModelIdentity: ...

    @property
    def is_recorded(self) -> bool: ...

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = ...) -> list[ChatAnswer]:
        """Return an answer per request, in order. Calls `on_answers` in the caller's thread as answers arrive; after
        it returned False, the remaining answers are `NOT_ASKED`."""


def always_continue(_some: Sequence[tuple[int, ChatAnswer]]) -> bool:
    """Return an `on_answers` for callers that wait for all answers."""
    return True


def load_chat_model(model: str, /, **options: object) -> ChatModel:
    """Return a chat model; large weights are only read with the first question. Raises UserError for an unknown name
    or option."""
    loaded: ChatModel = CHAT_MODELS.load_plugin(model, options)
    return loaded


def check_access(model: ChatModel) -> None:
    """Raise UserError where a model cannot be asked because its key is missing; most models need none."""
    if check := getattr(model, "check_access", None):
        check()


def check_endpoint(model: ChatModel) -> str:
    """Make one call that asks nothing, where the model is behind an endpoint, and return what answers; "" for other
    models. Raises UserError where the endpoint cannot be used."""
    check = getattr(model, "check_endpoint", None)
    return check() if check else ""


def count_calls_at_once(model: ChatModel) -> int:
    """Return how many questions a model is asked at a time; most models answer one after the other."""
    return int(getattr(getattr(model, "options", None), "concurrency", 1))


def check_listener(model: ChatModel) -> str:
    """Connect to the host of a model behind an endpoint without a proxy, and send nothing. Return the address that
    listens; "" for other models. Raises UserError, with the likely cause, where nothing listens."""
    options = getattr(model, "options", None)
    address = getattr(options, "base_url", None)
    if address is None or getattr(options, "proxies", False):
        return ""
    parts = urlsplit(address)
    port = parts.port or {"https": 443}.get(parts.scheme, 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=options.connect_timeout).close()  # type: ignore[union-attr]
    except OSError as error:
        failure = Failure("connection_failed", "transient", f"{type(error).__name__}: {error}")
        reason = f"{failure.reason} {explain_failure(model, failure)}"
        next_step = "fix the model's options in the definition, or start the server"
        raise UserError("check endpoint", model.identity.name, reason, next_step) from None
    return f"a server listens at {address}"


def explain_failure(model: ChatModel, failure: Failure) -> str:
    """Return where a model is and the likely cause of a failure; "" for a model without an address."""
    explain = getattr(model, "explain_failure", None)
    return explain(failure) if explain else ""


def has_written_answers(model: str) -> bool:
    """Return whether people or another tool wrote this chat model's answers beforehand (`ANSWERS_ARE_WRITTEN`)."""
    return getattr(CHAT_MODELS.import_plugin(model), "ANSWERS_ARE_WRITTEN", False)


def takes_caption_limits(model: str) -> bool:
    """Return whether this chat model has no limits for captions of its own (`TAKES_CAPTION_LIMITS`): a question gives
    them."""
    return getattr(CHAT_MODELS.import_plugin(model), "TAKES_CAPTION_LIMITS", False)


def takes_pairs(model: str) -> bool:
    """Return whether this chat model scores a text with an image (`TAKES_PAIRS`): a question to it is the query
    alone."""
    return getattr(CHAT_MODELS.import_plugin(model), "TAKES_PAIRS", False)


def write_score(score: float) -> str:
    """Return the text of a reply that is a number."""
    return json.dumps({"score": round(score, 9)})


def make_score_reply(score: float) -> ChatAnswer:
    """Return a reply with this number, or a failure if it is not a number."""
    if not math.isfinite(score):
        return Failure("no_score", "final", f"the model gave {score}")
    return Reply(write_score(score), "stop")


def read_score(text: str) -> float | None:
    """Return the number in a reply, or None."""
    try:
        score = json.loads(text)["score"]
        return float(score) if isinstance(score, int | float) and math.isfinite(score) else None
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


def check_reply(request: ChatRequest, reply: Reply) -> ChatAnswer:
    """Return the reply, or a failure where its text is broken or does not fit `response_format`."""
    if any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in reply.text):
        return Failure("broken_characters", "final", "the text contains half a character or a NUL", reply.raw)
    if request.response_format is None:
        return reply
    try:
        request.response_format.model_validate_json(reply.text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        reason = "cut_by_limit" if reply.finish_reason == "length" else "not_as_asked"
        return Failure(reason, "final", f"{place or 'the answer'}: {first['type']}", reply.raw)
    return reply
