"""Embedders: one module each, named as the option's value, with `load(options)`.

An embedder turns texts, images or both into float32 vectors of length one, in the order of the items, so that the
dot product of two is their cosine. A model that is named without an embedder is loaded by the one whose `MARKER_FILE`
is in the model's folder. A YAML file in place of a name describes an embedder with its options.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from querytruth.array_types import Vectors
from querytruth.backends.files.option_paths import PathOrName, read_plugin_file
from querytruth.backends.models.hub_models import find_model_folder, must_download_model
from querytruth.backends.plugins import PluginOptions, PluginPackage
from querytruth.errors import UserError

T = TypeVar("T")
_FILE_SUFFIXES = (".yaml", ".yml")
EMBEDDERS = PluginPackage(
    "querytruth.backends.models.embedders",
    "embedder",
    "load embedder",
    {"dual_encoder": "querytruth.dual_encoder.embedder"},
)


class EmbedderOptions(PluginOptions):
    """`name`: a model's folder, or its name on the hub; `device`: null uses a GPU if there is one; `batch`: images or
    texts computed at once."""

    name: PathOrName
    device: str | None = None
    batch: int = Field(32, ge=1)


class Embedder(Protocol):
    """The interface that `load` returns. `name` and `revision` go into the manifest; `dimensions` is the length of a
    vector."""

    name: str
    revision: str
    dimensions: int

    @property
    def fingerprint(self) -> str:
        """Return the identity of the weights, `name@revision`: part of every cache key and of the manifest."""

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """Return vectors (n, dimensions)."""


class TextEmbedder(Embedder, Protocol):
    """An embedder for comparing texts with texts. `compares_spelling`: whether it compares spelling, not meaning."""

    compares_spelling: bool

    def check_language(self, texts: Iterable[str]) -> None:
        """Raise UserError where the embedder does not know the texts' language."""


class ImageTextEmbedder(Embedder, Protocol):
    """An embedder of images and texts in one space."""

    def encode_images(self, images: Iterable[Any]) -> Vectors:
        """Return vectors (n, dimensions) of RGB images, or of arrays (height, width, 3)."""


def load_image_text_embedder(name: str) -> ImageTextEmbedder:
    """Return the embedder of that name, or the one for the model of that name. Raises UserError if it reads no
    images."""
    embedder: ImageTextEmbedder = _load(name, "clip")
    if not hasattr(embedder, "encode_images"):
        raise UserError(EMBEDDERS.stage, name, "reads texts only, not images", "name a model for images and texts")
    return embedder


def load_query_embedder(name: str) -> Embedder:
    """Return the embedder of that name, or the one for the model of that name, for texts in the space of an index."""
    embedder: Embedder = _load(name, "clip")
    return embedder


def load_text_embedder(name: str) -> TextEmbedder:
    """Return the embedder of that name, or the one for the model of that name. Raises UserError if it is not a
    `TextEmbedder`."""
    try:
        embedder: TextEmbedder = _load(name, "sentence_transformer")
    except UserError as error:
        raise offer_embedded(error) from None
    if not hasattr(embedder, "compares_spelling"):
        next_step = "name char_ngrams or a sentence-transformers model"
        raise UserError(EMBEDDERS.stage, name, "cannot compare texts with texts", next_step)
    return embedder


def offer_embedded(error: UserError) -> UserError:
    """Return the error of a text embedder that cannot be had, with the way that needs no model."""
    offered = "use char_ngrams instead (text_embedder, embedder): it compares spelling and needs no model"
    return UserError(error.stage, error.item, error.reason, f"{error.next_step}; or {offered}")


def must_download(name: str) -> bool:
    """Return whether loading the embedder of that name downloads its model from the hub."""
    is_local = name in EMBEDDERS.list_plugins() or Path(name).suffix in _FILE_SUFFIXES
    return not is_local and must_download_model(name)


def detect_embedder(name: str, default: str) -> str:
    """Return the name of the embedder for a model, given by its folder or its name on the hub."""
    folder = find_model_folder(name, EMBEDDERS.stage)
    for plugin in EMBEDDERS.list_plugins():
        marker = getattr(EMBEDDERS.import_plugin(plugin), "MARKER_FILE", None)
        if marker is not None and (folder / marker).is_file():
            return plugin
    return default


def _load(name: str, default: str) -> Any:
    if Path(name).suffix in _FILE_SUFFIXES:
        return EMBEDDERS.load_plugin(*read_plugin_file(EMBEDDERS, "embedder", Path(name)))
    if name in EMBEDDERS.list_plugins() and not Path(name).is_dir():
        return EMBEDDERS.load_plugin(name, {})
    return EMBEDDERS.load_plugin(detect_embedder(name, default), {"name": name})


def encode_in_batches(items: Iterable[T], size: int, encode: Callable[[list[T]], Vectors], dimensions: int) -> Vectors:
    """Return the vectors of all items, (n, dimensions). `size` items are read and encoded at a time."""
    rest, parts = iter(items), [np.empty((0, dimensions), np.float32)]
    while part := list(islice(rest, size)):
        parts.append(encode(part))
    return np.concatenate(parts)


def to_rgb(image: Image.Image | NDArray[np.uint8]) -> Image.Image:
    """Return a Pillow image in RGB; an array has the shape (height, width, 3)."""
    return image.convert("RGB") if isinstance(image, Image.Image) else Image.fromarray(image)
