"""Images and texts as vectors: encoded once, kept beside the set; and images compared by their cosine."""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from backends.embedders import Embedder, ImageTextEmbedder, load_image_text_embedder
from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.vectors.vector_store import VectorStore
from backends.workers.worker_processes import map_in_workers
from builders.array_types import Vectors
from builders.manifest_records import ModelRecord
from builders.nearest_neighbours import find_pairs_above
from flows.steps import Advance, current_run, step

_WRITE_EVERY = 1024  # between two writes
Encode = Callable[[list[str], Advance], tuple[list[int], Vectors]]
_SIDE = 512  # pixels of the longer side: encoders look at 224 to 384


@dataclass(frozen=True, slots=True)
class ImageVectors:
    """A row per image. An image that is gone or cannot be decoded is not `is_known`, and its row is zeros: similar to
    no other."""

    embedder: ImageTextEmbedder
    vectors: Vectors
    is_known: np.ndarray[Any, np.dtype[np.bool_]]


@step("embed pictures")
def find_similar_pairs(
    frame: pd.DataFrame, locations: Sequence[Any], name: str, cosine: float, folder: Path
) -> tuple[Any, ModelRecord]:
    """The rows (n, 2) of the images with at least that cosine, and the record of the model."""
    # The same file under two names is one picture, whose vector is asked for once.
    rows = np.flatnonzero(~frame["image_id"].duplicated().to_numpy())
    embedder = load_image_text_embedder(name)
    unique_locations = [locations[row] for row in rows.tolist()]
    image_vectors = _embed_with_cache(embedder, frame["image_id"].iloc[rows].tolist(), unique_locations, folder)
    pairs = find_pairs_above(image_vectors.vectors[image_vectors.is_known], cosine, threads=current_run().workers)[0]
    return rows[image_vectors.is_known][pairs], ModelRecord("near-duplicates", embedder.name, embedder.revision)


@step("embed pictures")
def embed_images(
    embedder: ImageTextEmbedder, image_ids: pd.Series, locations: Sequence[Any], folder: Path
) -> ImageVectors:
    """Returns the vectors of images with ids of their own, stored below the set's `folder`."""
    return _embed_with_cache(embedder, image_ids.tolist(), locations, folder)


def embed_texts(embedder: Embedder, texts: Sequence[str], folder: Path) -> Vectors:
    """Returns the vectors (n, d) of texts, stored in `folder` by the digest of the text: what is decided by them does
    not change with the processor, the batch or the other texts of a later run."""
    by_key = {hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(): text for text in texts}
    keys = sorted(by_key, key=lambda key: (len(by_key[key]), key))  # texts of one length need little padding

    def encode(new_keys: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        vectors = embedder.encode_texts([by_key[key] for key in new_keys])
        advance(len(new_keys))
        return list(range(len(new_keys))), vectors

    fingerprint = f"{embedder.fingerprint} texts"
    vectors, _ = encode_with_cache(keys, embedder.dimensions, encode, folder, fingerprint, "encode texts", "texts")
    row = {by_key[key]: place for place, key in enumerate(keys)}
    return vectors[[row[text] for text in texts]]


def _embed_with_cache(
    embedder: ImageTextEmbedder, ids: list[str], locations: Sequence[Any], folder: Path
) -> ImageVectors:
    location_of = dict(zip(ids, locations, strict=True))

    def encode(new_ids: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        return _encode(embedder, [location_of[image_id] for image_id in new_ids], advance)

    vectors, known = encode_with_cache(
        ids, embedder.dimensions, encode, folder / ".vectors", embedder.fingerprint, "embed pictures", "pictures"
    )
    return ImageVectors(embedder, np.where(known[:, None], vectors, np.float32(0)), known)


def _encode(embedder: ImageTextEmbedder, locations: list[Any], advance: Advance) -> tuple[list[int], Vectors]:
    """Returns the positions of the images that could be read, and their vectors."""
    readable_rows: list[int] = []

    def images() -> Iterator[Image.Image]:
        jobs = [ThumbnailJob(place if isinstance(place, str) else "", _SIDE) for place in locations]
        for number, jpeg in enumerate(map_in_workers(run_thumbnail_job, jobs)):
            advance(1)
            if isinstance(jpeg, bytes):
                readable_rows.append(number)
                yield Image.open(io.BytesIO(jpeg)).convert("RGB")

    return readable_rows, embedder.encode_images(images())


def encode_with_cache(
    keys: Sequence[str], dimensions: int, encode: Encode, folder: Path, fingerprint: str, title: str, unit: str
) -> tuple[Vectors, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Returns the vectors (n, dimensions) of different keys, and which are known. `encode` gets the new keys and
    returns the positions of those that it could encode, and their vectors. A folder that cannot be written is reported
    once."""
    store = VectorStore(folder.absolute(), fingerprint)
    vectors, is_known = store.read(keys, dimensions)
    missing = np.flatnonzero(~is_known)
    is_writable = True
    with current_run().reporter.bar(title, len(missing), unit) as advance:
        for start in range(0, len(missing), _WRITE_EVERY):
            part = missing[start : start + _WRITE_EVERY]
            encoded_rows, encoded = encode([keys[place] for place in part.tolist()], advance)
            done = part[encoded_rows]
            vectors[done], is_known[done] = encoded, True
            is_writable = is_writable and _store_vectors(store, [keys[place] for place in done.tolist()], encoded)
    return vectors, is_known


def _store_vectors(store: VectorStore, keys: list[str], vectors: Vectors) -> bool:
    try:
        if keys:
            store.add(keys, vectors)
    except OSError as error:
        current_run().reporter.log(f"vectors are not kept for the next time ({error.strerror})")
        return False
    return True
