"""Pictures as vectors: encoded once, kept beside the set, compared by their cosine."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from backends.embedders import clip
from backends.isolated import each_isolated
from backends.rendering import ThumbnailJob, thumbnail_job
from backends.vector_neighbours import pairs_above
from backends.vector_store import Vectors, VectorStore
from flows.steps import Advance, current, step

_SIDE = 512  # pixels of the longer side: encoders look at 224 to 384
_AT_ONCE = 1024  # pictures between two writes


@step("embed pictures")
def embedded_pairs(
    frame: pd.DataFrame, locations: Sequence[Any], name: str, cosine: float, folder: Path
) -> tuple[Any, dict[str, Any]]:
    """The rows (n, 2) whose pictures have at least that cosine, and the model as the manifest names it. A picture that
    has gone or cannot be shown is like no other."""
    embedder = clip.load(name)
    store = VectorStore(folder.absolute() / ".vectors", embedder.fingerprint)
    # The same file under two names is one picture, whose vector is asked for once.
    first = ~frame["image_id"].duplicated().to_numpy()
    rows, ids = np.flatnonzero(first), frame["image_id"][first].tolist()
    vectors, known = store.read(ids, embedder.dimensions)
    missing = np.flatnonzero(~known)
    with current().reporter.bar("embed pictures", len(missing), "pictures") as advance:
        for start in range(0, len(missing), _AT_ONCE):
            part = missing[start : start + _AT_ONCE]
            found, encoded = _encode(embedder, [locations[row] for row in rows[part]], advance)
            vectors[part[found]], known[part[found]] = encoded, True
            store.keep([ids[place] for place in part[found]], encoded)
    pairs = pairs_above(vectors[known], cosine, threads=current().workers)[0]
    model = {"role": "near-duplicates", "name": embedder.name, "revision": embedder.revision, "parameters": {}}
    return rows[known][pairs], model


def _encode(embedder: clip.ClipEmbedder, locations: list[Any], advance: Advance) -> tuple[list[int], Vectors]:
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
