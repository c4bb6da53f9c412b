"""Embedders: one file each, whose name is the option's value and whose `load(options)` gives the embedder.

An embedder turns texts, images or both into vectors that are near where they show or mean alike. Rows come in the order
of the items, float32, of length one, so that the product of two is their cosine. A module may name a `MARKER_FILE`:
whoever names a model, and no embedder, gets the one whose marker lies in the model's folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from backends.models.hub_models import find_model_folder
from backends.plugin_loader import PluginPackage
from builders.array_types import Vectors
from builders.errors import UserError

EMBEDDERS = PluginPackage("backends.embedders", "embedder", "load embedder")


class Embedder(Protocol):
    """What `load` gives. `name` and `revision` are those of the manifest; `dimensions` is the vectors' length."""

    name: str
    revision: str
    dimensions: int

    @property
    def fingerprint(self) -> str:
        """Which weights these are: `name@revision`, part of every cache key and of the manifest."""


class TextEmbedder(Embedder, Protocol):
    """An embedder by which texts are compared with texts. `near_duplicate_cosine`: from which two texts say the same;
    `compares_spelling`: whether it knows how texts are written, and not what they mean."""

    near_duplicate_cosine: float
    compares_spelling: bool

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """(n, dimensions)."""

    def check_language(self, texts: Iterable[str]) -> None:
        """Raise a UserError where the embedder does not know the texts' language."""


class ImageTextEmbedder(Embedder, Protocol):
    """An embedder that puts images and texts into one space."""

    def encode_images(self, images: Iterable[Any]) -> Vectors:
        """(n, dimensions) of RGB images, or of arrays (height, width, 3)."""

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """(n, dimensions)."""


def load_image_text_embedder(name: str) -> ImageTextEmbedder:
    """The embedder of that name, or the one that reads the model of that name. Raises a UserError if it reads no
    images."""
    embedder: ImageTextEmbedder = _load(name, "clip")
    if not hasattr(embedder, "encode_images"):
        raise UserError(EMBEDDERS.stage, name, "reads texts, but no images", "name a model of images and texts")
    return embedder


def load_text_embedder(name: str) -> TextEmbedder:
    """The embedder of that name, or the one that reads the model of that name. Raises a UserError if it is not made
    for comparing texts with texts."""
    embedder: TextEmbedder = _load(name, "sentence_transformer")
    if not hasattr(embedder, "near_duplicate_cosine"):
        next_step = "name char_ngrams, or a model of sentence-transformers"
        raise UserError(EMBEDDERS.stage, name, "is not made for comparing texts with texts", next_step)
    return embedder


def detect_embedder(name: str, default: str) -> str:
    """The embedder that reads a model, by its folder or its name on the hub."""
    folder = find_model_folder(name, EMBEDDERS.stage)
    for plugin in EMBEDDERS.list_plugins():
        marker = getattr(EMBEDDERS.import_plugin(plugin), "MARKER_FILE", None)
        if marker is not None and (folder / marker).is_file():
            return plugin
    return default


def _load(name: str, default: str) -> Any:
    if name in EMBEDDERS.list_plugins() and not Path(name).is_dir():
        return EMBEDDERS.load_plugin(name, {})
    return EMBEDDERS.load_plugin(detect_embedder(name, default), {"name": name})
