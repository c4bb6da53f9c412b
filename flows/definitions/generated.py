"""The keys of a generated set's definition."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from flows.definitions.gallery import without_secret
from flows.definitions.parts import SetDefinition, Strict

_PROMPT = re.compile(r"(zh|en)/[a-z0-9_-]+")


def _prompt(value: str) -> str:
    if not _PROMPT.fullmatch(value):
        raise ValueError(f"{value!r} is none: language/name, such as zh/topics or en/objects")
    return value


class Topics(Strict):
    """The first stage. `samples`: a YAML file of topics with their objects, null: the shipped ones; `rounds`: questions
    asked at most, of which `at_once` rest on the same state of the pools; `calls`, `tokens`: budgets, null: none.
    `longest`: characters (zh) or words (en) of a topic and of an object, null: 10 or 5."""

    model: str = "qwen"
    options: dict[str, Any] = Field(default_factory=dict)
    prompt: str = "zh/topics"
    samples: str | None = None
    rounds: int = Field(200, ge=1, le=100_000)
    at_once: int = Field(4, ge=1, le=256)
    max_tokens: int = Field(256, ge=1)
    longest: int | None = Field(None, ge=1, le=60)
    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)

    _known_prompt = field_validator("prompt")(_prompt)


class Objects(Strict, allow_inf_nan=False):
    """The second stage, with the same model. Each prompt shows objects that people chose and objects that the model
    found. A topic stops after `rounds`, or after `barren` rounds in a row without a new object. `novelty`: an object
    more similar than this to any other is none, null: the embedder's own cut; `embedder`: char_ngrams, or the name or
    folder of a model of sentence-transformers."""

    prompt: str = "zh/objects"
    per_prompt: int = Field(5, ge=1, le=50)
    from_people: int = Field(7, ge=1, le=50)
    from_model: int = Field(3, ge=0, le=50)
    rounds: int = Field(50, ge=1, le=100_000)
    barren: int = Field(10, ge=1)
    novelty: float | None = Field(None, gt=0, le=1)
    embedder: str = "BAAI/bge-small-zh-v1.5"
    max_tokens: int = Field(256, ge=1)
    longest: int | None = Field(None, ge=1, le=60)
    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)

    _known_prompt = field_validator("prompt")(_prompt)


class GeneratedDefinition(SetDefinition):
    """A generated set: a chat model finds topics and objects, the web gives their pictures. `replies`: the file or URL
    in which the model's replies are kept, null: beside the set."""

    kind: Literal["generated"]
    topics: Topics = Topics()
    objects: Objects = Objects()
    replies: str | None = None

    @field_validator("replies")
    @classmethod
    def _no_secret(cls, value: str | None) -> str | None:
        return value if value is None else without_secret(value)

    @model_validator(mode="after")
    def _one_language(self) -> GeneratedDefinition:
        if self.topics.prompt[:2] != self.objects.prompt[:2]:
            raise ValueError("topics.prompt and objects.prompt are of different languages")
        return self

    @property
    def language(self) -> str:
        """That of the prompts: zh or en."""
        return self.topics.prompt[:2]
