"""Qwen-VL and any other model of transformers that reads pictures and writes text, in process.

The defaults are the article's: five beams, and captions of 46 to 48 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image
from pydantic import Field

from backends.chat import Answer, Arrived, ChatRequest, Failure, ModelIdentity, ShownPicture, checked_options, go_on
from backends.models.image_text_inputs import load_inputs
from backends.models.local_generation import Conversation, Generator, LocalOptions, loaded
from backends.models.model_revisions import name_and_revision
from backends.replies.shown_pictures import picture_bytes, upright


class Options(LocalOptions):
    """`min_pixels` and `max_pixels` bound what the model sees of one picture; a million are about 1,000 tokens."""

    name: str = "Qwen/Qwen3-VL-8B-Instruct"
    num_beams: int = Field(5, ge=1)
    max_new_tokens: int = Field(48, ge=1)
    min_new_tokens: int = Field(46, ge=0)
    min_pixels: int | None = Field(None, ge=1)
    max_pixels: int | None = Field(1280 * 28 * 28, ge=1)


def load(**options: Any) -> QwenVL:
    """The model; its weights are read with the first question."""
    return QwenVL(checked_options(Options, "qwen_vl", options))


class QwenVL:
    """A vision-language model."""

    is_recorded = False

    def __init__(self, options: Options) -> None:
        self._options = options
        name, revision = name_and_revision(options.name, options.revision)
        seen = {"min_pixels": options.min_pixels, "max_pixels": options.max_pixels}
        self.identity = ModelIdentity(name, revision, options.generation() | seen)
        self._generator: Generator | None = None

    def reply(self, requests: Sequence[ChatRequest], arrived: Arrived = go_on) -> list[Answer]:
        """Generate in batches, pictures of like size together; answers come in the order of the requests."""
        if self._generator is None:
            self._generator = Generator(_PictureWeights(self._options, self.identity.revision), self._options)
        return self._generator.reply(requests, arrived)


class _PictureWeights:
    def __init__(self, options: Options, revision: str) -> None:
        self.model = loaded(options.name, revision, options, "AutoModelForImageTextToText")
        self._inputs = load_inputs(options.name, revision, self.model.config, options.min_pixels, options.max_pixels)
        self.tokenizer = self._inputs.tokenizer

    def size(self, request: ChatRequest) -> int:
        """Pixels, by the files' headers."""
        return sum(_pixels(picture) for message in request.messages for picture in message.pictures)

    def conversation(self, request: ChatRequest) -> Conversation | Failure:
        conversation: Conversation = []
        for message in request.messages:
            content: list[dict[str, Any]] = []
            for picture in message.pictures:
                data = picture_bytes(picture)
                image = upright(data) if isinstance(data, bytes) else data
                if isinstance(image, Failure):
                    return image
                content.append({"type": "image", "image": image})
            conversation.append({"role": message.role, "content": [*content, {"type": "text", "text": message.text}]})
        return conversation

    def encode(self, conversations: list[Conversation]) -> Any:
        return self._inputs(conversations)


def _pixels(picture: ShownPicture) -> int:
    try:
        with Image.open(picture.path) as image:
            return image.width * image.height
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return 0
