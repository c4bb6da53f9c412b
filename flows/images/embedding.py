"""Images and texts as vectors: encoded once, kept beside the set; and images compared by their cosine."""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image

from backends.contained_paths import contained_path
from backends.embedders import Embedder, ImageTextEmbedder, load_image_text_embedder
from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.vectors.vector_store import VectorStore
from backends.workers.worker_processes import map_in_workers
from builders.array_types import RowIndices, Vectors
from builders.cosine_background import choose_cosine_cut, measure_image_background
from builders.manifest_records import ModelRecord, Provenance, ThresholdRecord
from builders.nearest_neighbours import find_pairs_above
from builders.records import digest_start_of_image_id
from flows.images.kept_vectors import KeptVectors
from flows.steps import Advance, current_run, step

_WRITE_EVERY = 1024  # between two writes
Encode = Callable[[list[str], Advance], tuple[list[int], Vectors]]
_NEAR_DUPLICATE_COSINE = 0.95
_SIDE = 512  # pixels of the longer side: encoders look at 224 to 384


@dataclass(frozen=True, slots=True)
class ImageVectors:
    """A row per image. An image that is gone or cannot be decoded is not `is_known`, and its row is zeros: similar to
    no other."""

    embedder: ImageTextEmbedder
    vectors: Vectors
    is_known: np.ndarray[Any, np.dtype[np.bool_]]


class ImageToEmbed(NamedTuple):
    """An image: its id, its path or URL (None: it has none), and the sha256, or its first digits, that its bytes must
    have."""

    image_id: str
    location: str | None
    sha256: str


@step("embed pictures")
def find_similar_pairs(
    frame: pd.DataFrame, locations: Sequence[Any], name: str, cosine: float | None, folder: Path
) -> tuple[RowIndices, Provenance]:
    """The rows (n, 2) of the images with at least that cosine, and the model and its cut. `cosine` None: 0.95, or the
    embedder's own where that lies over the background of the images. Raises UserError for a cut among random pairs."""
    # The same file under two names is one picture, whose vector is asked for once.
    rows = np.flatnonzero(~frame["image_id"].duplicated().to_numpy())
    embedder = load_image_text_embedder(name)
    images = []
    for row, image_id in zip(rows.tolist(), frame["image_id"].iloc[rows].tolist(), strict=True):
        location = locations[row] if isinstance(locations[row], str) else None
        images.append(ImageToEmbed(image_id, location, digest_start_of_image_id(image_id)))
    image_vectors = _embed_with_cache(embedder, images, folder)
    known = image_vectors.vectors[image_vectors.is_known]
    thresholds = choose_image_cut("near_duplicates.cosine", cosine, _NEAR_DUPLICATE_COSINE, embedder, known)
    pairs = find_pairs_above(known, thresholds[0].value, threads=current_run().workers)[0]
    model = ModelRecord("near-duplicates", embedder.name, embedder.revision)
    return rows[image_vectors.is_known][pairs], Provenance(models=[model], thresholds=thresholds)


def choose_image_cut(
    key: str, given: float | None, usual: float, embedder: ImageTextEmbedder, vectors: Vectors
) -> list[ThresholdRecord]:
    """Returns the cut of similar images and the background of these vectors (n, d): the definition's cut, or else the
    `usual` one, or the embedder's own where that is higher. Raises UserError for a cut among random pairs."""
    background = measure_image_background(vectors)
    cut = choose_cosine_cut("embed pictures", key, given, usual, background, embedder.name)
    return [ThresholdRecord(key, "at least", cut), *(background.as_thresholds(key) if background else [])]


@step("embed pictures")
def embed_images(embedder: ImageTextEmbedder, images: Sequence[ImageToEmbed], folder: Path) -> ImageVectors:
    """Returns the vectors of images with ids of their own, stored below the set's `folder`."""
    return _embed_with_cache(embedder, images, folder)


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


def _embed_with_cache(embedder: ImageTextEmbedder, images: Sequence[ImageToEmbed], folder: Path) -> ImageVectors:
    by_id = {image.image_id: image for image in images}

    def encode(new_ids: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        return _encode(embedder, [by_id[image_id] for image_id in new_ids], advance)

    ids = [image.image_id for image in images]
    store = contained_path(folder, ".vectors", "embed pictures")
    vectors, known = encode_with_cache(
        ids, embedder.dimensions, encode, store, embedder.fingerprint, "embed pictures", "pictures"
    )
    return ImageVectors(embedder, np.where(known[:, None], vectors, np.float32(0)), known)


def _encode(embedder: ImageTextEmbedder, images: Sequence[ImageToEmbed], advance: Advance) -> tuple[list[int], Vectors]:
    """Returns the positions of the images that could be read, and their vectors."""
    readable_rows: list[int] = []

    def decoded() -> Iterator[Image.Image]:
        jobs = [ThumbnailJob(image.location or "", _SIDE, sha256=image.sha256) for image in images]
        for number, jpeg in enumerate(map_in_workers(run_thumbnail_job, jobs)):
            advance(1)
            if isinstance(jpeg, bytes):
                readable_rows.append(number)
                yield Image.open(io.BytesIO(jpeg)).convert("RGB")

    return readable_rows, embedder.encode_images(decoded())


def encode_with_cache(
    keys: Sequence[str], dimensions: int, encode: Encode, folder: Path, fingerprint: str, title: str, unit: str
) -> tuple[Vectors, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Returns the vectors (n, dimensions) of different keys, and which are known. `encode` gets the new keys and
    returns the positions of those that it could encode, and their vectors. A folder that cannot be written is reported
    once."""
    store, work = VectorStore(folder.absolute(), fingerprint), current_run().work
    kept = None if work is None else KeptVectors(store.folder, work)
    if kept is not None:
        kept.exchange()
    vectors, is_known = store.read(keys, dimensions)
    missing = np.flatnonzero(~is_known)
    is_writable = True
    with current_run().reporter.bar(title, len(missing), unit) as advance:
        for start in range(0, len(missing), _WRITE_EVERY):
            part = missing[start : start + _WRITE_EVERY]
            encoded_rows, encoded = encode([keys[place] for place in part.tolist()], advance)
            done = part[encoded_rows]
            vectors[done], is_known[done] = encoded, True
            is_writable = is_writable and _store_vectors(store, kept, [keys[place] for place in done.tolist()], encoded)
    return vectors, is_known


def _store_vectors(store: VectorStore, kept: KeptVectors | None, keys: list[str], vectors: Vectors) -> bool:
    try:
        if keys:
            path = store.add(keys, vectors)
            if kept is not None:
                kept.store(path)
    except OSError as error:
        current_run().reporter.log(f"vectors are not kept for the next time ({error.strerror})")
        return False
    return True
