"""Questions with pictures as a vision-language model's tensors, padded on the left; torchvision is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image

from backends.models.local_generation import Conversation, hub_revision, import_torch_and_transformers, loading_error

_MIN_AREA = 20_000  # pixels: no edge is that long


def load_processor(name: str, revision: str, config: Any, min_pixels: int | None, max_pixels: int | None) -> Any:
    """The model's own processor; where that wants torchvision, for videos that nobody shows, one for pictures only."""
    _, transformers = import_torch_and_transformers()
    at = hub_revision(revision)
    try:
        processor = transformers.AutoProcessor.from_pretrained(name, revision=at)
        if not hasattr(processor, "image_processor"):  # for some folders it gives the tokenizer alone
            raise ValueError("its processor takes no pictures")
        return FullProcessor(processor, min_pixels, max_pixels)
    except (ImportError, ValueError, OSError) as error:
        reason = error
    try:
        images = transformers.AutoImageProcessor.from_pretrained(name, revision=at)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, revision=at)
    except (ImportError, ValueError, OSError) as error:
        raise loading_error(name, error) from None
    if not hasattr(images, "merge_size") or getattr(config, "image_token_id", None) is None:
        raise loading_error(name, reason)
    return ImageOnlyProcessor(images, tokenizer, config.image_token_id, min_pixels, max_pixels)


class FullProcessor:
    """The model's processor, as transformers gives it."""

    def __init__(self, processor: Any, min_pixels: int | None, max_pixels: int | None) -> None:
        self._processor, self.tokenizer = processor, processor.tokenizer
        self.tokenizer.padding_side = "left"
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        self._limits = (min_pixels, max_pixels)
        self._by_size = _limit_pixels(processor.image_processor, *self._limits)

    def __call__(self, conversations: list[Conversation]) -> Any:
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
    """What the processors of Qwen's vision-language models do, for pictures: a picture's place in the text becomes as
    many tokens as the picture has patches after merging."""

    def __init__(
        self, image_processor: Any, tokenizer: Any, image_token: int, min_pixels: int | None, max_pixels: int | None
    ) -> None:
        self._images, self.tokenizer, self._image_token = image_processor, tokenizer, image_token
        self.tokenizer.padding_side = "left"
        _limit_pixels(image_processor, min_pixels, max_pixels)

    def __call__(self, conversations: list[Conversation]) -> Any:
        torch, _ = import_torch_and_transformers()
        rows = self.tokenizer.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            sanitize_control_tokens=True,  # what a text holds never ends a turn, and is no picture
            tokenize=True,
            return_dict=True,
        )["input_ids"]
        images = [
            part["image"] for c in conversations for message in c for part in message["content"] if "image" in part
        ]
        image_features = self._images(images=images, return_tensors="pt") if images else {}
        counts = iter(
            [int(grid.prod()) // self._images.merge_size**2 for grid in image_features.get("image_grid_thw", [])]
        )
        padded = self.tokenizer.pad({"input_ids": [self._spread(row, counts) for row in rows]}, return_tensors="pt")
        padded["mm_token_type_ids"] = (padded["input_ids"] == self._image_token).to(torch.long)
        padded.update(image_features)
        return padded

    def _spread(self, row: Sequence[int], counts: Any) -> list[int]:
        spread: list[int] = []
        for token in row:
            spread += [token] * (next(counts) if token == self._image_token else 1)
        return spread


def resize_within(image: Image.Image, min_pixels: int | None, max_pixels: int | None) -> Image.Image:
    """The picture with as many pixels as the limits allow, its shape kept."""
    pixels = image.width * image.height
    aim = min(max(pixels, min_pixels or 0), max_pixels or max(pixels, min_pixels or 0))
    if aim == pixels:
        return image
    scale = (aim / pixels) ** 0.5
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image.resize(size, Image.Resampling.BICUBIC)


def _limit_pixels(images: Any, min_pixels: int | None, max_pixels: int | None) -> bool:
    """Whether the image processor takes the limits itself: those of Qwen do, as areas where others have edges."""
    least, most = (images.size.get(edge) for edge in ("shortest_edge", "longest_edge"))
    if not hasattr(images, "merge_size") or not least or not most or most < _MIN_AREA:
        return False
    most = min(most, max_pixels or most)
    images.size = {"shortest_edge": min(max(least, min_pixels or 0), most), "longest_edge": most}
    return True
