"""Qwen-VL and other models of transformers that take images and write text, in process.

The defaults are those of the article: five beams, and captions of 46 to 48 tokens.
"""

from typing import Any

from PIL import Image
from pydantic import Field

from querytruth.backends.files.safe_paths import PathOrName
from querytruth.backends.models import local_generation
from querytruth.backends.models.chat import ChatImage, ChatRequest, Failure
from querytruth.backends.models.image_text_inputs import load_processor
from querytruth.backends.models.request_images import PATCH_SIDE, decode_upright, fit_for_model, read_image_bytes


class QwenVLOptions(local_generation.LocalGenerationOptions):
    """Images are scaled to between `min_pixels` and `max_pixels`; a million pixels are about 1,000 tokens."""

    name: PathOrName = "Qwen/Qwen3-VL-8B-Instruct"
    num_beams: int = Field(5, ge=1)
    max_new_tokens: int = Field(48, ge=1)
    min_new_tokens: int = Field(46, ge=0)
    min_pixels: int | None = Field(None, ge=1)
    max_pixels: int | None = Field(1280 * 28 * 28, ge=1)


def load(options: QwenVLOptions) -> local_generation.LocalChatModel:
    """Returns the model; its weights are read with the first question."""
    pixel_limits = {"min_pixels": options.min_pixels, "max_pixels": options.max_pixels}
    return local_generation.LocalChatModel(options, pixel_limits, _ImageTextWeights)


class _ImageTextWeights:
    def __init__(self, options: QwenVLOptions, revision: str) -> None:
        self.model = local_generation.load_weights(options.name, revision, options, "AutoModelForImageTextToText")
        self._inputs = load_processor(options.name, revision, self.model.config, options.min_pixels, options.max_pixels)
        self.tokenizer = self._inputs.tokenizer
        self._min_side = max(PATCH_SIDE, self._inputs.patch_side)

    def size(self, request: ChatRequest) -> int:
        """The number of pixels, from the files' headers."""
        return sum(_pixels(image) for message in request.messages for image in message.images)

    def conversation(self, request: ChatRequest) -> local_generation.Conversation | Failure:
        conversation: local_generation.Conversation = []
        for message in request.messages:
            content: list[dict[str, Any]] = []
            for shown in message.images:
                data = read_image_bytes(shown)
                decoded = decode_upright(data) if isinstance(data, bytes) else data
                fit = fit_for_model(decoded, self._min_side) if isinstance(decoded, Image.Image) else decoded
                if isinstance(fit, Failure):
                    return fit
                content.append({"type": "image", "image": fit})
            conversation.append({"role": message.role, "content": [*content, {"type": "text", "text": message.text}]})
        return conversation

    def encode(self, conversations: list[local_generation.Conversation]) -> Any:
        return self._inputs(conversations)


def _pixels(shown: ChatImage) -> int:
    try:
        with Image.open(shown.path) as opened:
            return opened.width * opened.height
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return 0
