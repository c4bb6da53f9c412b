"""Checkpoints of `querytruth train`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from querytruth.array_types import Vectors
from querytruth.backends.environment import translate_environment_faults
from querytruth.backends.models.embedders import EmbedderOptions, encode_in_batches, to_rgb
from querytruth.backends.models.hub_models import choose_device
from querytruth.dual_encoder.checkpoints import DESCRIPTION, create_tower, read_checkpoint
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import canonical_json

MARKER_FILE = DESCRIPTION


def load(options: EmbedderOptions) -> DualEncoderEmbedder:
    """Load the checkpoint in float32. Raises UserError where it does not fit its description."""
    description, weights, tokenizer = read_checkpoint(options.name)
    model = build_model(description)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = f"its weights belong to another model ({str(error).splitlines()[0]})"
        raise UserError("load model", options.name, reason, "train it again") from None
    model = model.eval().to(choose_device(options.device, "load model"))
    revision = "files:" + hashlib.sha256(canonical_json(description)).hexdigest()
    display_name = Path(options.name).resolve().name
    return DualEncoderEmbedder(model, tokenizer, description, display_name, revision, options.batch)


class DualEncoderEmbedder:
    """A loaded dual encoder. `dimensions`: the length of a vector; `revision`: a digest of weights, tokenizer and
    description."""

    def __init__(self, model: Any, tokenizer: Any, description: dict[str, Any], name: str, revision: str, batch: int):
        self.name, self.revision, self.batch = name, revision, batch
        self.fingerprint = f"{name}@{revision}"
        self.side, self.size, self.length = description["side"], description["size"], description["max_length"]
        self.dimensions = int(description["heads"]["dimensions"])
        self._model, self._tokenizer = model, tokenizer

    def encode_images(self, images: Iterable[Image.Image | NDArray[np.uint8]]) -> Vectors:
        """Return vectors (n, dimensions) of RGB images, or of arrays (height, width, 3); read a batch at a time."""
        prepared = (prepare_image(image, self.side) for image in images)
        return encode_in_batches(prepared, self.batch, lambda part: self.encode_pixels(np.stack(part)), self.dimensions)

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """Return vectors (n, dimensions); longer texts than the model's limit are cut."""
        return encode_in_batches(texts, self.batch, self._encode_text_batch, self.dimensions)

    def encode_pixels(self, pixels: NDArray[np.uint8]) -> Vectors:
        """Return vectors (n, dimensions) of at most a batch of images as `prepare_image` returns them. A row does not
        depend on the others: a smaller batch is padded."""
        import torch

        from querytruth.dual_encoder.augmentation import center_crop

        filled = np.concatenate([pixels, np.repeat(pixels[-1:], self.batch - len(pixels), axis=0)])
        with translate_environment_faults("embed images", self.name, torch), torch.inference_mode():
            cropped = center_crop(torch.from_numpy(filled).to(self._device), self.size)
            rows: Vectors = self._model.encode_images(cropped).cpu().numpy()
        return rows[: len(pixels)]

    def _encode_text_batch(self, part: list[str]) -> Vectors:
        import torch

        with translate_environment_faults("embed texts", self.name, torch), torch.inference_mode():
            ids, mask = tokenize_texts(self._tokenizer, part + part[-1:] * (self.batch - len(part)), self.length)
            vectors = self._model.encode_texts(*(torch.from_numpy(rows).to(self._device) for rows in (ids, mask)))
            rows: Vectors = vectors.cpu().numpy()
        return rows[: len(part)]

    @property
    def _device(self) -> Any:
        return next(self._model.parameters()).device


def build_model(description: dict[str, Any]) -> Any:
    """Return the model of a description, with random weights."""
    from querytruth.dual_encoder.model import build_dual_encoder

    texts = description["texts"]
    text_tower = texts if "architecture" not in texts else create_tower(texts["architecture"], texts["options"])
    images = description["pictures"]
    return build_dual_encoder(create_tower(images["architecture"], images["options"]), text_tower, description["heads"])


def prepare_image(original: Image.Image | NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return RGB (side, side, 3), scaled without keeping proportions; training and search crop it."""
    return np.asarray(to_rgb(original).resize((side, side), Image.Resampling.BILINEAR))


def tokenize_texts(tokenizer: Any, texts: list[str], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return token ids and attention mask (texts, length), padded to the length."""
    encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return encoded["input_ids"].astype(np.int64), encoded["attention_mask"].astype(np.int64)
