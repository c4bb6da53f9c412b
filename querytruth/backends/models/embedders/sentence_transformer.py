"""Models of sentence-transformers for texts, and with some of them also for images.

Texts are encoded without a query prompt: captions are compared with captions. A row differs by 1e-7 with the other
texts in the batch (they are padded to one length): compare rounded figures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import Field

from querytruth.array_types import Vectors
from querytruth.backends.environment import translate_environment_faults
from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.models import hub_models
from querytruth.backends.models.embedders import EmbedderOptions, encode_in_batches
from querytruth.errors import UserError

MARKER_FILE = "modules.json"
DEFAULT_MODEL = "BAAI/bge-small-zh-v1.5"
MAX_UNKNOWN_SHARE = 0.1  # of a text's tokens
_STAGE = "load embedder"


class SentenceTransformerOptions(EmbedderOptions):
    """The options of every model on this machine, with defaults."""

    name: PathOrName = DEFAULT_MODEL
    batch: int = Field(64, ge=1)


def load(options: SentenceTransformerOptions) -> SentenceEmbedder:
    """Load the model in float32. Raises UserError where it reads no texts."""
    name, folder = options.name, hub_models.find_model_folder(options.name, _STAGE)
    display_name, revision = hub_models.resolve_model_revision(name, folder.name)
    if Path(name).is_dir():
        revision = _digest_with_modules(folder, revision)
    model = _load_model(name, folder, options.device)
    if getattr(model, "tokenizer", None) is None:
        next_step = f"name another, such as {DEFAULT_MODEL}"
        raise UserError(_STAGE, name, "has no tokenizer, so it cannot read texts", next_step)
    return SentenceEmbedder(model, display_name, revision, options.batch)


class SentenceEmbedder:
    """A loaded model. `dimensions`: the length of a vector; `fingerprint`: its name, and the commit or a digest of its
    folder."""

    compares_spelling = False

    def __init__(self, model: Any, name: str, revision: str, batch: int) -> None:
        self.name, self.revision, self.batch = name, revision, batch
        self.fingerprint = f"{name}@{revision}"
        self._model = model
        self.dimensions = int(self._encode(["a"]).shape[1])

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """Return vectors (n, dimensions); longer texts than the model's limit are cut."""
        listed = list(texts)
        return self._encode(listed) if listed else np.empty((0, self.dimensions), np.float32)

    def encode_images(self, images: Iterable[Image.Image]) -> Vectors:
        """Return vectors (n, dimensions) of RGB images, read a batch at a time. Raises UserError where the model reads
        texts only."""
        if "image" not in self._model.modalities:
            reason = "reads texts only, not images"
            raise UserError("embed images", self.name, reason, "name a model for texts and images, such as CLIP")
        return encode_in_batches(images, self.batch, self._encode, self.dimensions)

    def unknown_token_share(self, texts: Iterable[str]) -> float:
        """Return the share of tokens that the model does not know; 0 where its tokenizer knows every character."""
        tokenizer = self._model.tokenizer
        listed = [text for text in texts if text.strip()]
        if tokenizer.unk_token_id is None or not listed:
            return 0.0
        # Whole texts: the model's limit says nothing about the language.
        ids = tokenizer(listed, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
        counts = np.array([(row.count(tokenizer.unk_token_id), len(row)) for row in ids]).sum(axis=0)
        return float(counts[0] / max(counts[1], 1))

    def check_language(self, texts: Iterable[str]) -> None:
        """Raise UserError if the model does not know the language of the texts: all vectors would be alike."""
        share = self.unknown_token_share(texts)
        if share > MAX_UNKNOWN_SHARE:
            reason = f"does not know {share:.0%} of the tokens of these texts"
            next_step = f"name an embedder for their language, such as {DEFAULT_MODEL} for Chinese, or char_ngrams"
            raise UserError("embed texts", self.name, reason, next_step)

    def _encode(self, items: list[Any]) -> Vectors:
        with translate_environment_faults("embed texts or images", self.name, self._model):
            rows = self._model.encode(
                items, batch_size=self.batch, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
            )
        vectors: Vectors = np.asarray(rows, dtype=np.float32)
        return vectors


def _digest_with_modules(folder: Path, revision: str) -> str:
    """Return a digest of the folder and its modules' folders: pooling and dense layers also change the vectors."""
    parts = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name[:1].isdigit()]
    digest = hashlib.sha256(revision.encode())
    for path in parts:
        digest.update(f"\0{path.name}\0{hub_models.resolve_model_revision(str(path), None)[1]}".encode())
    return f"files:{digest.hexdigest()}"


def _load_model(name: str, folder: Path, device: str | None) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer

    hub_models.silence_transformers()
    target = str(hub_models.choose_device(device, _STAGE))
    try:
        weights = {"dtype": torch.float32, "use_safetensors": True}
        model = SentenceTransformer(
            str(folder), device=target, local_files_only=True, model_kwargs=weights, **hub_models.WITHOUT_CODE
        )
    except Exception as error:  # a broken file or a missing library can raise anything
        raise hub_models.make_loading_error(_STAGE, name, error) from None
    return model.eval()
