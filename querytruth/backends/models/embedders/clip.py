"""CLIP, ChineseCLIP, SigLIP and other dual encoders of transformers for images and texts.

A row is independent of its batch only if all batches have the same size (else it differs by 1e-7): the last batch of
images is padded. Other processors differ by as much: compare rounded figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from querytruth.array_types import Vectors
from querytruth.backends.environment import translate_environment_faults
from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.models import hub_models
from querytruth.backends.models.embedders import EmbedderOptions, encode_in_batches, to_rgb
from querytruth.errors import UserError

DEFAULT_MODEL = "OFA-Sys/chinese-clip-vit-base-patch16"


class ClipOptions(EmbedderOptions):
    """The options of every model on this machine, with a default."""

    name: PathOrName = DEFAULT_MODEL


def load(options: ClipOptions) -> ClipEmbedder:
    """Load the model in float32; downloads one that is not in the cache, except with HF_HUB_OFFLINE=1."""
    folder = hub_models.find_model_folder(options.name, "load embedder")
    display_name, revision = hub_models.resolve_model_revision(options.name, folder.name)
    model, processor, tokenizer = _load_parts(options.name, folder)
    model = model.to(hub_models.choose_device(options.device, "load embedder"))
    return ClipEmbedder(model, processor, tokenizer, display_name, revision, options.batch)


class ClipEmbedder:
    """A loaded dual encoder. `dimensions`: the length of a vector; `revision`: a commit, or a folder's digest."""

    def __init__(self, model: Any, processor: Any, tokenizer: Any, name: str, revision: str, batch: int) -> None:
        self.name, self.revision, self.batch = name, revision, batch
        self.fingerprint = f"{name}@{revision}"
        self._model, self._processor, self._tokenizer = model, processor, tokenizer
        # SigLIP was trained on texts padded to the limit, without a mask.
        self._is_siglip = str(model.config.model_type).startswith("siglip")
        self._limit = min(tokenizer.model_max_length, model.config.get_text_config().max_position_embeddings)
        self.dimensions = self._encode_text_batch(["a"]).shape[1]

    def encode_images(self, images: Iterable[Image.Image | NDArray[np.uint8]]) -> Vectors:
        """Return vectors (n, dimensions) of RGB images, or of arrays (height, width, 3); read a batch at a time."""
        return encode_in_batches(images, self.batch, self._encode_image_batch, self.dimensions)

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """Return vectors (n, dimensions); longer texts than the model's limit are cut. Rows differ by 1e-7 with the
        lengths of the other texts in the batch."""
        return encode_in_batches(texts, self.batch, self._encode_text_batch, self.dimensions)

    def _encode_image_batch(self, part: list[Image.Image | NDArray[np.uint8]]) -> Vectors:
        filled = [to_rgb(image) for image in part]
        filled += filled[-1:] * (self.batch - len(part))
        with translate_environment_faults("embed images", self.name, self._model):
            inputs = self._processor(filled, return_tensors="pt")
            return self._normalized_features(self._model.get_image_features, inputs)[: len(part)]

    def _encode_text_batch(self, part: list[str]) -> Vectors:
        with translate_environment_faults("embed texts", self.name, self._model):
            inputs = self._tokenizer(
                part,
                padding="max_length" if self._is_siglip else True,
                truncation=True,
                max_length=self._limit,
                return_attention_mask=not self._is_siglip,
                return_tensors="pt",
            )
            return self._normalized_features(self._model.get_text_features, inputs)

    def _normalized_features(self, features: Any, inputs: Any) -> Vectors:
        import torch

        with torch.inference_mode():
            features_tensor = features(**inputs.to(self._model.device)).pooler_output
            rows: Vectors = torch.nn.functional.normalize(features_tensor, dim=-1).cpu().numpy()
        return rows


def _load_parts(name: str, folder: Path) -> tuple[Any, Any, Any]:
    """Return model, image processor (Pillow's: the same pixels on every machine) and tokenizer."""
    import torch
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    hub_models.silence_transformers()
    try:
        model, state = AutoModel.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **hub_models.WEIGHTS_WITHOUT_CODE
        )
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil", **hub_models.WITHOUT_CODE)
        tokenizer = AutoTokenizer.from_pretrained(folder, **hub_models.WITHOUT_CODE)
    except Exception as error:  # a broken file or a missing library can raise anything
        raise hub_models.make_loading_error("load embedder", name, error) from None
    if defect := _find_defect(model, state["missing_keys"], tokenizer):
        next_step = f"{hub_models.download_hint(name)}, or name another model such as {DEFAULT_MODEL}"
        raise UserError("load embedder", name, defect, next_step)
    return model.eval(), processor, tokenizer


def _find_defect(model: Any, missing: Iterable[str], tokenizer: Any) -> str:
    """Return a fault that transformers does not report: random weights, or a tokenizer of special tokens only."""
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        return f"is a {type(model).__name__}, which does not embed images and texts"
    if missing := sorted(missing):
        return f"lacks {len(missing)} of its weights ({missing[0]} …)"
    if 2 * len(tokenizer) < model.config.get_text_config().vocab_size:
        return f"lacks its tokenizer's vocabulary (it has only {len(tokenizer)} tokens)"
    return ""
