"""Pictures as vectors: encoded once, kept beside the set, compared by their cosine."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from backends.embedders import clip
from backends.embedders.clip import ClipEmbedder
from backends.pictures.isolated import each_isolated
from backends.pictures.rendering import ThumbnailJob, thumbnail_job
from backends.vectors.vector_neighbours import pairs_above
from backends.vectors.vector_store import Vectors, VectorStore
from flows.steps import Advance, current, step

_SIDE = 512  # pixels of the longer side: encoders look at 224 to 384
_AT_ONCE = 1024  # pictures between two writes


@dataclass(frozen=True, slots=True)
class PictureVectors:
    """A row per picture; one that has gone or cannot be shown is not `known`, and its row is zeros: like no other."""

    embedder: ClipEmbedder
    vectors: Vectors
    known: np.ndarray[Any, np.dtype[np.bool_]]


@step("embed pictures")
def embedded_pairs(
    frame: pd.DataFrame, locations: Sequence[Any], name: str, cosine: float, folder: Path
) -> tuple[Any, dict[str, Any]]:
    """The rows (n, 2) whose pictures have at least that cosine, and the model as the manifest names it."""
    # The same file under two names is one picture, whose vector is asked for once.
    rows = np.flatnonzero(~frame["image_id"].duplicated().to_numpy())
    embedder = clip.load(name)
    places = [locations[row] for row in rows.tolist()]
    found = _vectors(embedder, frame["image_id"].iloc[rows].tolist(), places, folder)
    pairs = pairs_above(found.vectors[found.known], cosine, threads=current().workers)[0]
    model = {"role": "near-duplicates", "name": embedder.name, "revision": embedder.revision, "parameters": {}}
    return rows[found.known][pairs], model


@step("embed pictures")
def picture_vectors(
    embedder: ClipEmbedder, image_ids: pd.Series, locations: Sequence[Any], folder: Path
) -> PictureVectors:
    """The vectors of pictures with ids of their own, kept below the set's `folder`."""
    return _vectors(embedder, image_ids.tolist(), locations, folder)


def _vectors(embedder: ClipEmbedder, ids: list[str], locations: Sequence[Any], folder: Path) -> PictureVectors:
    store = VectorStore(folder.absolute() / ".vectors", embedder.fingerprint)
    vectors, known = store.read(ids, embedder.dimensions)
    missing = np.flatnonzero(~known)
    with current().reporter.bar("embed pictures", len(missing), "pictures") as advance:
        for start in range(0, len(missing), _AT_ONCE):
            part = missing[start : start + _AT_ONCE]
            found, encoded = _encode(embedder, [locations[row] for row in part.tolist()], advance)
            vectors[part[found]], known[part[found]] = encoded, True
            store.keep([ids[place] for place in part[found]], encoded)
    return PictureVectors(embedder, np.where(known[:, None], vectors, np.float32(0)), known)


def _encode(embedder: ClipEmbedder, locations: list[Any], advance: Advance) -> tuple[list[int], Vectors]:
    """Which of the pictures could be read, and their vectors."""
    found: list[int] = []

    def pictures() -> Iterator[Image.Image]:
        jobs = [ThumbnailJob(place if isinstance(place, str) else "", _SIDE) for place in locations]
        for number, jpeg in enumerate(each_isolated(thumbnail_job, jobs)):
            advance(1)
            if isinstance(jpeg, bytes):
                found.append(number)
                yield Image.open(io.BytesIO(jpeg)).convert("RGB")

    return found, embedder.encode_images(pictures())
