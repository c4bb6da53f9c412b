"""Qwen-VL and other models of transformers that take images and write text, in process.

The defaults follow the article: five beams, and captions of 46 to 48 tokens. As a judge, it returns the probability of
yes from its logits (`--judge-scores`). Questions become tensors padded on the left; torchvision is not needed.
"""

from collections.abc import Sequence
from typing import Any

from PIL import Image
from pydantic import Field

from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.models import local_generation
from querytruth.backends.models.chat import ChatImage, ChatRequest, Failure
from querytruth.backends.models.hub_models import WITHOUT_CODE, make_loading_error
from querytruth.backends.models.request_images import PATCH_SIDE, fit_for_model, open_upright

_MIN_AREA = 20_000  # pixels; a larger limit is an area, not the length of an edge


class QwenVLOptions(local_generation.LocalGenerationOptions):
    """Images are scaled to between `min_pixels` and `max_pixels`; a million pixels are about 1,000 tokens."""

    name: PathOrName = "Qwen/Qwen3-VL-8B-Instruct"
    num_beams: int = Field(5, ge=1)
    max_new_tokens: int = Field(48, ge=1)
    min_new_tokens: int = Field(46, ge=0)
    min_pixels: int | None = Field(None, ge=1)
    max_pixels: int | None = Field(1280 * 28 * 28, ge=1)


def load(options: QwenVLOptions) -> local_generation.LocalChatModel:
    """Return the model; its weights are read with the first question."""
    pixel_limits = {"min_pixels": options.min_pixels, "max_pixels": options.max_pixels}
    return local_generation.LocalChatModel(options, pixel_limits, _ImageTextWeights)


class _ImageTextWeights:
    def __init__(self, options: QwenVLOptions, revision: str) -> None:
        self.model = local_generation.load_weights(options.name, revision, options, "AutoModelForImageTextToText")
        self._inputs = load_processor(options.name, revision, self.model.config, options.min_pixels, options.max_pixels)
        self.tokenizer = self._inputs.tokenizer
        self._min_side = max(PATCH_SIDE, self._inputs.patch_side)

    def size(self, request: ChatRequest) -> int:
        """Return the number of pixels, from the files' headers."""
        return sum(_pixels(image) for message in request.messages for image in message.images)

    def conversation(self, request: ChatRequest) -> local_generation.Conversation | Failure:
        conversation: local_generation.Conversation = []
        for message in request.messages:
            content: list[dict[str, Any]] = []
            for shown in message.images:
                decoded = open_upright(shown)
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


def load_processor(name: str, revision: str, config: Any, min_pixels: int | None, max_pixels: int | None) -> Any:
    """Load the model's own processor; where that needs torchvision (for videos), one for images only. Raises
    UserError."""
    _, transformers = local_generation.import_torch_and_transformers()
    at = local_generation.hub_revision(revision)
    try:
        processor = transformers.AutoProcessor.from_pretrained(name, revision=at, **WITHOUT_CODE)
        if not hasattr(processor, "image_processor"):  # for some folders it returns the tokenizer alone
            raise ValueError("its processor does not accept images")
        return FullProcessor(processor, min_pixels, max_pixels)
    except (ImportError, ValueError, OSError) as error:
        reason = error
    try:
        images = transformers.AutoImageProcessor.from_pretrained(name, revision=at, **WITHOUT_CODE)
    except (ImportError, ValueError, OSError) as error:
        raise make_loading_error("load chat model", name, error) from None
    tokenizer = local_generation.load_tokenizer(name, revision)
    if not hasattr(images, "merge_size") or getattr(config, "image_token_id", None) is None:
        raise make_loading_error("load chat model", name, reason)
    return ImageOnlyProcessor(images, tokenizer, config.image_token_id, min_pixels, max_pixels)


class FullProcessor:
    """The model's processor as transformers provides it."""

    def __init__(self, processor: Any, min_pixels: int | None, max_pixels: int | None) -> None:
        self._processor, self.tokenizer = processor, processor.tokenizer
        local_generation.pad_on_the_left(self.tokenizer)
        self._limits = (min_pixels, max_pixels)
        self._by_size = _limit_pixels(processor.image_processor, *self._limits)
        self.patch_side = _patch_side(processor.image_processor)

    def __call__(self, conversations: list[local_generation.Conversation]) -> Any:
        shown = [
            [
                {**message, "content": [self._within(part) if "image" in part else part for part in message["content"]]}
                for message in conversation
            ]
            for conversation in conversations
        ]
        return self._processor.apply_chat_template(
            shown,
            add_generation_prompt=True,
            sanitize_control_tokens=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True},
        )

    def _within(self, part: dict[str, Any]) -> dict[str, Any]:
        return part if self._by_size else {**part, "image": resize_within(part["image"], *self._limits)}


class ImageOnlyProcessor:
    """Does for images what the processors of Qwen's vision-language models do: replaces an image's token in the text by
    as many tokens as the image has patches after merging."""

    def __init__(
        self, image_processor: Any, tokenizer: Any, image_token: int, min_pixels: int | None, max_pixels: int | None
    ) -> None:
        self._images, self.tokenizer, self._image_token = image_processor, tokenizer, image_token
        local_generation.pad_on_the_left(tokenizer)
        self.patch_side = _patch_side(image_processor)
        _limit_pixels(image_processor, min_pixels, max_pixels)

    def __call__(self, conversations: list[local_generation.Conversation]) -> Any:
        torch, _ = local_generation.import_torch_and_transformers()
        rows = self.tokenizer.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            sanitize_control_tokens=True,  # control tokens in a text must neither end a turn nor stand for an image
            tokenize=True,
            return_dict=True,
        )["input_ids"]
        parts = [part for conversation in conversations for message in conversation for part in message["content"]]
        images = [part["image"] for part in parts if "image" in part]
        features = self._images(images=images, return_tensors="pt") if images else {}
        counts = (int(grid.prod()) // self._images.merge_size**2 for grid in features.get("image_grid_thw", []))
        padded = self.tokenizer.pad({"input_ids": [self._spread(row, counts) for row in rows]}, return_tensors="pt")
        padded["mm_token_type_ids"] = (padded["input_ids"] == self._image_token).to(torch.long)
        padded.update(features)
        return padded

    def _spread(self, row: Sequence[int], counts: Any) -> list[int]:
        spread: list[int] = []
        for token in row:
            spread += [token] * (next(counts) if token == self._image_token else 1)
        return spread


def resize_within(image: Image.Image, min_pixels: int | None, max_pixels: int | None) -> Image.Image:
    """Resize an image with its proportions so that its number of pixels is within the limits."""
    pixels = image.width * image.height
    aim = min(max(pixels, min_pixels or 0), max_pixels or max(pixels, min_pixels or 0))
    if aim == pixels:
        return image
    scale = (aim / pixels) ** 0.5
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image.resize(size, Image.Resampling.BICUBIC)


def _patch_side(images: Any) -> int:
    """Return the side of a merged patch in pixels, the smallest image side that the model accepts; 1 if it has none."""
    patch, merged = getattr(images, "patch_size", None), getattr(images, "merge_size", 1)
    return patch * merged if isinstance(patch, int) and isinstance(merged, int) else 1


def _limit_pixels(images: Any, min_pixels: int | None, max_pixels: int | None) -> bool:
    """Set the limits of the image processor. Return whether it has such limits: Qwen's do, as areas."""
    least, most = (images.size.get(edge) for edge in ("shortest_edge", "longest_edge"))
    if not hasattr(images, "merge_size") or not least or not most or most < _MIN_AREA:
        return False
    most = min(most, max_pixels or most)
    images.size = {"shortest_edge": min(max(least, min_pixels or 0), most), "longest_edge": most}
    return True
