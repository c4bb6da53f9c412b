"""Qwen and any other text model of transformers, in process: questions without pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.chat import Answer, Arrived, ChatRequest, Failure, ModelIdentity, checked_options, go_on
from backends.models.local_generation import (
    Conversation,
    Generator,
    LocalOptions,
    cannot_load,
    hub_revision,
    imported,
    loaded,
)
from backends.models.model_revisions import name_and_revision


class Options(LocalOptions):
    """`thinking` lets models that can think aloud do so before they answer."""

    name: str = "Qwen/Qwen3-8B"
    thinking: bool = False


def load(**options: Any) -> Qwen:
    """The model; its weights are read with the first question."""
    return Qwen(checked_options(Options, "qwen", options))


class Qwen:
    """A causal language model with a chat template."""

    is_recorded = False

    def __init__(self, options: Options) -> None:
        self._options = options
        name, revision = name_and_revision(options.name, options.revision)
        self.identity = ModelIdentity(name, revision, options.generation() | {"thinking": options.thinking})
        self._generator: Generator | None = None

    def reply(self, requests: Sequence[ChatRequest], arrived: Arrived = go_on) -> list[Answer]:
        """Generate in batches; the answers do not depend on the order of the questions."""
        if self._generator is None:
            self._generator = Generator(_TextWeights(self._options, self.identity.revision), self._options)
        return self._generator.reply(requests, arrived)


class _TextWeights:
    def __init__(self, options: Options, revision: str) -> None:
        _, transformers = imported()
        self._thinking = options.thinking
        self.model = loaded(options.name, revision, options, "AutoModelForCausalLM")
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(options.name, revision=hub_revision(revision))
            self.tokenizer.padding_side = "left"
            self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        except (OSError, ValueError) as error:
            raise cannot_load(options.name, error) from None

    def size(self, request: ChatRequest) -> int:
        return sum(len(message.text) for message in request.messages)

    def conversation(self, request: ChatRequest) -> Conversation | Failure:
        if any(message.pictures for message in request.messages):
            return Failure("takes_no_pictures", "final", "this model reads texts only")
        return [{"role": message.role, "content": message.text} for message in request.messages]

    def encode(self, conversations: list[Conversation]) -> Any:
        return self.tokenizer.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            enable_thinking=self._thinking,
            sanitize_control_tokens=True,  # what a text holds never ends a turn
            tokenize=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
        )
