"""Qwen and other text models of transformers, in process; for questions without images."""

from typing import Any

from backends.chat import ChatRequest, Failure
from backends.models.hub_models import WITHOUT_CODE
from backends.models.local_generation import (
    Conversation,
    LocalChatModel,
    LocalGenerationOptions,
    hub_revision,
    import_torch_and_transformers,
    load_weights,
    loading_error,
)
from backends.option_paths import PathOrName


class QwenOptions(LocalGenerationOptions):
    """`thinking` enables the reasoning of models that support it."""

    name: PathOrName = "Qwen/Qwen3-8B"
    thinking: bool = False


def load(options: QwenOptions) -> LocalChatModel:
    """Returns the model; its weights are read with the first question."""
    return LocalChatModel(options, {"thinking": options.thinking}, _TextWeights)


class _TextWeights:
    def __init__(self, options: QwenOptions, revision: str) -> None:
        _, transformers = import_torch_and_transformers()
        self._thinking = options.thinking
        self.model = load_weights(options.name, revision, options, "AutoModelForCausalLM")
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(
                options.name, revision=hub_revision(revision), **WITHOUT_CODE
            )
            self.tokenizer.padding_side = "left"
            self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        except (OSError, ValueError) as error:
            raise loading_error(options.name, error) from None

    def size(self, request: ChatRequest) -> int:
        return sum(len(message.text) for message in request.messages)

    def conversation(self, request: ChatRequest) -> Conversation | Failure:
        if any(message.images for message in request.messages):
            return Failure("takes_no_images", "final", "this model reads texts only")
        return [{"role": message.role, "content": message.text} for message in request.messages]

    def encode(self, conversations: list[Conversation]) -> Any:
        return self.tokenizer.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            enable_thinking=self._thinking,
            sanitize_control_tokens=True,  # no text can end a turn
            tokenize=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
        )
