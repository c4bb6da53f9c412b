"""Encodes a set's images and texts into one vector space: with a model, or from a folder of vectors that others
computed.
"""

import hashlib
import io
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from querytruth.array_types import Vectors
from querytruth.backends.files.durable_files import append_lines, file_sha256, open_log, read_journal_lines
from querytruth.backends.files.text_formats import parse_bounded_json
from querytruth.backends.images.rendering import PixelsJob
from querytruth.backends.models import hub_models, vector_store
from querytruth.backends.models.embedders import ImageTextEmbedder, load_image_text_embedder
from querytruth.backends.steps import Advance, current_run, step
from querytruth.errors import UserError, translate_write_errors
from querytruth.evaluation.ground_truth import to_id_array
from querytruth.evaluation.judged_sets import JudgedSet
from querytruth.evaluation.result_types import SystemDescription
from querytruth.sets.image_vectors import DecodedImages, embed_texts, encode_with_cache
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.set_files import ImageLocation, locate_images

MAX_IMAGE_SIDE = 1024  # pixels of the longer side at most: encoders look at 224 to 384


def _encode_again(image: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=30)
    return Image.open(buffer)


# Copies that an index may hold in place of the images.
IMAGE_CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "images as JPEG of quality 30": _encode_again,
    "images of half the size": lambda image: image.reduce(2),
    "images turned by a quarter": lambda image: image.transpose(Image.Transpose.ROTATE_90),
}
_COSTS = "encoding.jsonl"  # beside the vectors
_PARTS = (("queries", "query_id", "query"), ("images", "image_id", "image"))


@dataclass(frozen=True, slots=True)
class EncodedItems:
    """Images or texts: ids, a row (n, d) per id, and which rows are known."""

    ids: pa.Array
    vectors: Vectors
    is_known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EncodedSet:
    """Both sides of a set, what computed their vectors, and the ledger of items without one."""

    texts: EncodedItems
    images: EncodedItems
    description: SystemDescription
    ledger: Ledger


@step("encode set")
def encode_set(name: str, judged: JudgedSet, image_change: str = "") -> EncodedSet:
    """Encode the set with a model, given by folder or by name on the hub. Vectors are stored in the sets' folder by
    the digest of their content: no image and no text is encoded twice with the same weights. `image_change`: one of
    IMAGE_CHANGES, applied to the images before encoding."""
    if (stored := judged.stored) is None:
        raise UserError("evaluate", name, "needs a set: a file of judgments has only ids", "give the set")
    embedder, ledger = load_image_text_embedder(name), Ledger()
    vector_folder = stored.path.parent.parent / ".vectors"
    images = encode_images(embedder, locate_images(stored), vector_folder, ledger, image_change)
    if not images.is_known.any():
        reason = f"none of the {len(images.ids):,} images is available"
        raise UserError("encode images", judged.description["name"], reason, "restore them, or build with `render`")
    queries = stored.tables.queries
    text_vectors = embed_texts(embedder, queries["text"].tolist(), vector_folder)
    texts = EncodedItems(to_id_array(queries["query_id"]), text_vectors, np.ones(len(queries), dtype=bool))
    described = SystemDescription(
        kind="model", name=embedder.name, revision=embedder.revision, dimensions=embedder.dimensions
    )
    return EncodedSet(texts, images, described, ledger)


@step("read vectors")
def read_encoded_set(folder: Path, judged: JudgedSet) -> EncodedSet:
    """Read the set's vectors from `folder`/queries and `folder`/images; rows of other ids are ignored and counted."""
    if judged.queries is None or judged.images is None:
        raise UserError("evaluate", folder, "needs a set: a file of judgments lacks ids", "give the set")
    ledger, unknown_rows = Ledger(), 0
    encoded_parts = []
    for name, id_name, kind in _PARTS:
        ids = to_id_array(getattr(judged, name)[id_name])
        with current_run().reporter.bar(f"read {name}", len(ids), "vectors") as advance:
            vectors, known, other_rows = vector_store.read_vectors(folder / name, id_name, ids, advance)
        unknown_rows += other_rows
        _record_missing(ledger, f"read vectors of {name}", kind, ids, known, [("no_vector", "")] * len(ids))
        encoded_parts.append(EncodedItems(ids, vectors, known))
    parts = " ".join(hub_models.resolve_model_revision(str(folder / name), None)[1] for name in ("images", "queries"))
    described: SystemDescription = {
        "kind": "vectors",
        "name": folder.resolve().name,
        "revision": f"files:{hashlib.sha256(parts.encode()).hexdigest()}",
        "dimensions": int(encoded_parts[1].vectors.shape[1]),
        "rows_of_other_ids": unknown_rows,
    }
    return EncodedSet(encoded_parts[0], encoded_parts[1], described, ledger)


def encode_images(
    embedder: ImageTextEmbedder, places: list[ImageLocation], folder: Path, ledger: Ledger, change: str = ""
) -> EncodedItems:
    """Return a vector per image, stored in `folder`. Encodes an image under two ids once; one that is missing, changed
    or unreadable is entered in the ledger."""
    keys = [_key(place) for place in places]
    by_key = {key: place for key, place in zip(keys, places, strict=True) if key and place.location}
    failures: dict[str, tuple[str, str]] = {}
    seconds: list[tuple[int, float]] = []  # of each call, with the number of its images

    def encode(names: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        jobs = [PixelsJob(str(by_key[name].location), MAX_IMAGE_SIDE, name) for name in names]
        decoded_images, start = DecodedImages(jobs, advance), time.perf_counter()
        vectors = embedder.encode_images(map(IMAGE_CHANGES[change], decoded_images) if change else decoded_images)
        seconds.append((len(names), time.perf_counter() - start))
        failures.update({names[number]: fault for number, fault in decoded_images.failures.items()})
        return [number for number in range(len(names)) if number not in decoded_images.failures], vectors

    fingerprint = f"{embedder.fingerprint} pixels {MAX_IMAGE_SIDE}{change and f' {change}'}"
    wanted = sorted(by_key)
    encoded = encode_with_cache(wanted, embedder.dimensions, encode, folder, fingerprint, "images")
    if seconds:
        _record_cost(folder, embedder, sum(count for count, _ in seconds), sum(took for _, took in seconds))
    row_of_key = {key: place for place, key in enumerate(wanted)}
    ids = pa.array([place.image_id for place in places], pa.large_string())
    side = _expand_rows(ids, np.array([row_of_key.get(key, -1) for key in keys], dtype=np.int64), *encoded)
    failures_by_row = [
        failures.get(key, (place.reason or "cannot_be_read", "")) for key, place in zip(keys, places, strict=True)
    ]
    _record_missing(ledger, "encode images", "image", ids, side.is_known, failures_by_row)
    return side


def _record_cost(folder: Path, embedder: ImageTextEmbedder, images: int, seconds: float) -> None:
    """Keep how long the encoding of so many images took; what a cache answered took none."""
    entry = {"name": embedder.name, "revision": embedder.revision, "images": images, "seconds": round(seconds, 3)}
    with translate_write_errors("encode images", folder), open_log(folder / _COSTS, wait=True) as handle:
        append_lines(handle, [json.dumps(entry)])


def read_encoding_cost(folder: Path, system: SystemDescription) -> dict[str, float] | None:
    """Return the cost of a model from its result: milliseconds per image (decoding included, on the machine that
    encoded most at once; NaN without a measurement), and megabytes of vectors for 100,000 images. None for systems that
    are neither a model nor vectors."""
    if not isinstance(dimensions := system.get("dimensions"), int):
        return None
    most, milliseconds = 0, math.nan
    for line in read_journal_lines(folder / _COSTS) if (folder / _COSTS).is_file() else []:
        with suppress(ValueError, KeyError, TypeError):
            entry = parse_bounded_json(line)
            is_same = (entry["name"], entry["revision"]) == (system.get("name"), system.get("revision"))
            if is_same and entry["images"] > most:
                most, milliseconds = entry["images"], 1000 * entry["seconds"] / entry["images"]
    return {"ms_per_image": milliseconds, "mb_per_100000_images": dimensions * 4 * 100_000 / 1e6}


def _expand_rows(ids: pa.Array, row: NDArray[np.int64], vectors: Vectors, known: NDArray[np.bool_]) -> EncodedItems:
    """Expand rows of distinct contents to rows of ids; -1 has none."""
    rows, there = np.maximum(row, 0), row >= 0
    if not len(vectors):
        return EncodedItems(ids, np.zeros((len(ids), vectors.shape[1]), np.float32), there)
    spread = vectors[rows]
    spread[~there] = 0
    return EncodedItems(ids, spread, there & known[rows])


def _key(place: ImageLocation) -> str:
    """Return the recorded digest of the content, or the digest of the current file; empty without a file."""
    if place.sha256 is not None or place.location is None or "://" in place.location:
        return place.sha256 or ""
    try:
        return file_sha256(Path(place.location))[0]
    except OSError:
        return ""


def _record_missing(
    ledger: Ledger, stage: str, kind: str, ids: pa.Array, known: NDArray[np.bool_], failures: list[tuple[str, str]]
) -> None:
    missing_rows = np.flatnonzero(~known).tolist()
    items = ids.take(pa.array(missing_rows, pa.int64())).to_pylist()
    reasons, details = zip(*(failures[row] for row in missing_rows), strict=True) if missing_rows else ((), ())
    quarantined = rejection_rows(items, "quarantined", reasons, item_id=items, detail=details)
    ledger.record_stage(stage, kind, len(ids), int(known.sum()), quarantined)
