"""What `querytruth train` made, by its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from backends.models.training_checkpoints import new_tower, read_checkpoint
from builders.benchmark_set import canonical_json
from builders.errors import UserError

Vectors = NDArray[np.float32]
T = TypeVar("T")


class DualEncoderEmbedder:
    """A trained dual encoder that is loaded. `dimensions`: the vectors' length; `revision`: a digest of weights,
    tokenizer and description."""

    def __init__(self, model: Any, tokenizer: Any, description: dict[str, Any], name: str, revision: str, batch: int):
        self.name, self.revision, self.batch = name, revision, batch
        self.side, self.size, self.length = description["side"], description["size"], description["max_length"]
        self.dimensions = int(description["heads"]["dimensions"])
        self._model, self._tokenizer = model, tokenizer

    @property
    def fingerprint(self) -> str:
        """Name and revision."""
        return f"{self.name}@{self.revision}"

    def encode_images(self, pictures: Iterable[Image.Image | NDArray[np.uint8]]) -> Vectors:
        """(n, dimensions) of RGB pictures, or of arrays (height, width, 3); read a batch at a time."""
        made = (prepared(picture, self.side) for picture in pictures)
        return self._stacked(self.encode_prepared(np.stack(part)) for part in _batches(made, self.batch))

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """(n, dimensions); what is longer than the model's limit is cut."""
        return self._stacked(self._texts(part) for part in _batches(texts, self.batch))

    def encode_prepared(self, pixels: NDArray[np.uint8]) -> Vectors:
        """(n, dimensions) of at most a batch of pictures as `prepared` makes them. A row does not depend on the others:
        as many as a batch are computed whatever is given."""
        import torch

        from baselines.dual_encoder.augmentation import centred

        filled = np.concatenate([pixels, np.repeat(pixels[-1:], self.batch - len(pixels), axis=0)])
        with torch.inference_mode():
            shown = centred(torch.from_numpy(filled).to(self._device), self.size)
            rows: Vectors = self._model.encode_pictures(shown).cpu().numpy()
        return rows[: len(pixels)]

    def _texts(self, part: list[str]) -> Vectors:
        import torch

        ids, mask = token_numbers(self._tokenizer, part + part[-1:] * (self.batch - len(part)), self.length)
        with torch.inference_mode():
            found = self._model.encode_texts(*(torch.from_numpy(rows).to(self._device) for rows in (ids, mask)))
            rows: Vectors = found.cpu().numpy()
        return rows[: len(part)]

    @property
    def _device(self) -> Any:
        return next(self._model.parameters()).device

    def _stacked(self, parts: Iterator[Vectors]) -> Vectors:
        return np.concatenate([np.empty((0, self.dimensions), np.float32), *parts])


def load(name: str, device: str | None = None, batch: int = 32) -> DualEncoderEmbedder:
    """A checkpoint by its folder, in single precision on the device (None: a GPU where there is one). `batch`: pictures
    or texts computed at once."""
    description, weights, tokenizer = read_checkpoint(name)
    model = rebuilt(description)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = f"its weights are of another model ({str(error).splitlines()[0]})"
        raise UserError("load model", name, reason, "train it again") from None
    revision = "files:" + hashlib.sha256(canonical_json(description)).hexdigest()
    shown = Path(name).resolve().name
    return DualEncoderEmbedder(_placed(model.eval(), device), tokenizer, description, shown, revision, batch)


def rebuilt(description: dict[str, Any]) -> Any:
    """The model that a description says, with random weights."""
    from baselines.dual_encoder.model import assemble

    texts = description["texts"]
    reader = texts if "architecture" not in texts else new_tower(texts["architecture"], texts["options"])
    pictures = description["pictures"]
    return assemble(new_tower(pictures["architecture"], pictures["options"]), reader, description["heads"])


def prepared(picture: Image.Image | NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """A picture as training and search see it: RGB, squashed to side x side, of which the middle is shown."""
    image = picture.convert("RGB") if isinstance(picture, Image.Image) else Image.fromarray(picture)
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))


def token_numbers(tokenizer: Any, texts: list[str], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token numbers and mask (texts, length), filled up to the length whatever the texts are."""
    found = tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return found["input_ids"].astype(np.int64), found["attention_mask"].astype(np.int64)


def _placed(model: Any, device: str | None) -> Any:
    import torch

    try:
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        reason = f"cannot be used ({str(error).splitlines()[0]})"
        raise UserError("load model", device, reason, "give the device cpu") from None


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
