"""Which embedder reads a model: told by what lies in its folder, so that a user names the model alone.

To have models of another kind accepted, write an embedder, and add a line to MARKS.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backends.models.model_folders import find_model_folder

MARKER_FILES = {  # a file that only such a model's folder holds, and the file in backends/embedders that reads it
    "modules.json": "sentence_transformer",
    "dual_encoder.json": "dual_encoder",
}
_DEFAULT_EMBEDDER = "clip"
_STAGE = "load embedder"


class ImageTextEmbedder(Protocol):
    """What puts pictures and texts into one space (backends/embedders/__init__.py). `name` is shown."""

    name: str
    dimensions: int

    @property
    def fingerprint(self) -> str:
        """Which weights these are."""

    def encode_images(self, images: Iterable[Any]) -> NDArray[np.float32]:
        """(n, dimensions) of RGB pictures."""

    def encode_texts(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """(n, dimensions)."""


def detect_embedder(name: str) -> str:
    """The embedder for a model by its folder or its name on the hub."""
    folder = find_model_folder(name, _STAGE)
    return next((kind for mark, kind in MARKER_FILES.items() if (folder / mark).is_file()), _DEFAULT_EMBEDDER)


def load_embedder(name: str) -> ImageTextEmbedder:
    """The model, loaded by the embedder of its kind."""
    embedder: ImageTextEmbedder = import_module(f"backends.embedders.{detect_embedder(name)}").load(name)
    return embedder
