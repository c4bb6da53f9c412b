"""Chat models: one file each, whose name is the option's value and whose `load(options)` gives the model.

Requests go in in batches, answers come out in the same order. One bad answer is a `Failure` in its place, never an
exception and never a text that the model did not write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ValidationError

from backends.plugin_loader import ModelIdentity, PluginPackage

CHAT_MODELS = PluginPackage("backends.chat", "chat model", "load chat model")
MAX_RAW_CHARACTERS = 64 << 10  # characters of a raw reply that are kept


@dataclass(frozen=True, slots=True)
class ChatImage:
    """A picture as the model sees it: `sha256` is of the very bytes at `path`. The name that its source gives it and
    its id say which picture it is where captions were written elsewhere; they are no part of the question."""

    path: Path
    sha256: str
    file_name: str = ""
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of the conversation; its pictures come before its text."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[ChatImage, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationParameters:
    """How to generate, in words that every model knows; None leaves it to the model's own options."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None

    def explicit_values(self) -> dict[str, Any]:
        """What is not left to the model."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question. With `response_format`, the text must be JSON of that form. `number` tells apart several answers
    that are wanted to the same question. `language` is that of the answer, which the messages ask for: it is no part
    of the question, and says which captions are meant where they were written elsewhere."""

    messages: tuple[Message, ...]
    parameters: GenerationParameters = GenerationParameters()
    response_format: type[BaseModel] | None = None
    number: int = 0
    language: str | None = None

    def cache_key_fields(self) -> dict[str, Any]:
        """All that the answer depends on: pictures by their digests, no path and no name, and no language."""
        messages = [
            {"role": m.role, "text": m.text, "pictures": [image.sha256 for image in m.images]} for m in self.messages
        ]
        schema = self.response_format.model_json_schema() if self.response_format else None
        return {
            "messages": messages,
            "parameters": self.parameters.explicit_values(),
            "schema": schema,
            "number": self.number,
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model wrote, verbatim. `finish_reason` is the model's word: stop, length (cut by the limit on tokens) or
    another; token counts are None where it gives none; `raw` is all it sent, at most `MAX_RAW_CHARACTERS`
    characters."""

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no reply. transient: the same question may be answered another time; final: it is about this
    question, and would be the same again; blocked: no question will be answered before a person fixes something."""

    reason: str
    kind: Literal["transient", "final", "blocked"]
    detail: str = ""
    raw: str = ""


ChatAnswer = Reply | Failure
OnAnswers = Callable[
    [Sequence[tuple[int, ChatAnswer]]], bool
]  # (place of the request, its answer) ... -> whether to ask on
NOT_ASKED = Failure("not_asked", "transient", "the run stopped before it")


class ChatModel(Protocol):
    """What `load` gives. A model that `is_recorded` costs nothing to ask: its answers lie in a file."""

    @property
    def identity(self) -> ModelIdentity: ...

    @property
    def is_recorded(self) -> bool: ...

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = ...) -> list[ChatAnswer]:
        """An answer per request, in order. `on_answers` is told of answers as soon as they are there, in the caller's
        thread; once it says no, nothing more is asked and the rest is `NOT_ASKED`."""
        ...


def always_continue(_some: Sequence[tuple[int, ChatAnswer]]) -> bool:
    """For callers who wait for all answers."""
    return True


def load_chat_model(model: str, **options: Any) -> ChatModel:
    """The chat model of that name; large weights are read with the first question, not here.

    Raises a UserError for an unknown name or option."""
    loaded: ChatModel = CHAT_MODELS.load_plugin(model, options)
    return loaded


def has_written_answers(model: str) -> bool:
    """Whether people or another tool wrote this chat model's answers beforehand: its module says so."""
    return getattr(CHAT_MODELS.import_plugin(model), "ANSWERS_ARE_WRITTEN", False)


def check_reply(request: ChatRequest, reply: Reply) -> ChatAnswer:
    """The reply, or the failure that it is no whole text or not of the form that was asked for."""
    if any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in reply.text):
        return Failure("broken_characters", "final", "the text holds half a character or a NUL", reply.raw)
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
