"""Qwen and other text models of transformers, in process; for questions without images."""

from typing import Any

from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.models import local_generation
from querytruth.backends.models.chat import ChatRequest, Failure


class QwenOptions(local_generation.LocalGenerationOptions):
    """`thinking` enables the reasoning of models that support it."""

    name: PathOrName = "Qwen/Qwen3-8B"
    thinking: bool = False


def load(options: QwenOptions) -> local_generation.LocalChatModel:
    """Return the model; its weights are read with the first question."""
    return local_generation.LocalChatModel(options, {"thinking": options.thinking}, _TextWeights)


class _TextWeights:
    def __init__(self, options: QwenOptions, revision: str) -> None:
        self._thinking = options.thinking
        self.model = local_generation.load_weights(options.name, revision, options, "AutoModelForCausalLM")
        self.tokenizer = local_generation.load_tokenizer(options.name, revision)

    def size(self, request: ChatRequest) -> int:
        return sum(len(message.text) for message in request.messages)

    def conversation(self, request: ChatRequest) -> local_generation.Conversation | Failure:
        if any(message.images for message in request.messages):
            return Failure("takes_no_images", "final", "this model reads texts only")
        return [{"role": message.role, "content": message.text} for message in request.messages]

    def encode(self, conversations: list[local_generation.Conversation]) -> Any:
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
