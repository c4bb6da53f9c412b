"""Fetched images and their facts, decoded in worker processes."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from backends.images import image_reading
from backends.images.image_reading import ScannedImage, read_image
from backends.web.page_store import PageStore, StoredFetch
from backends.workers.worker_processes import WorkerFailure, map_in_workers

# The leading number goes up when the same bytes give other facts.
READER_VERSION = f"3 pillow {version('pillow')} {image_reading.MAX_PIXELS}"
DECODER_COUNT = os.cpu_count() or 1
_BINARY_FIELDS = ("outline", "patches", "thumbnail", "colours", "details")
_FACT_FIELDS = ("width", "height", "format", "pixels", "phash", "turned", *_BINARY_FIELDS)
_decoding = threading.BoundedSemaphore(DECODER_COUNT)  # limits the processes, whatever the number of threads


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """An image with its facts, or the reason why there is none; `width` and `height` are of the upright image."""

    url: str
    reason: str = ""
    kind: str = ""  # of the failure: transient, final
    detail: str = ""
    path: str = ""
    final_url: str = ""
    fetched_at: str = ""
    sha256: str = ""
    size: int = 0
    width: int = 0
    height: int = 0
    format: str = ""
    pixels: str = ""
    phash: int | None = None
    turned: list[int] | None = None
    outline: bytes | None = None
    patches: bytes | None = None
    thumbnail: bytes | None = None
    colours: bytes | None = None
    details: bytes | None = None


def decode_images(paths: Sequence[Path]) -> list[ScannedImage]:
    """Returns the facts of each file, or the reason why it cannot be used."""
    if not paths:
        return []
    with _decoding:
        scanned = list(map_in_workers(read_image, map(str, paths)))
    return [
        ScannedImage(reason=one.reason, detail=one.detail) if isinstance(one, WorkerFailure) else one for one in scanned
    ]


def image_facts_as_json(image: ScannedImage) -> dict[str, Any]:
    """Returns the facts as plain JSON data."""
    facts = {name: getattr(image, name) for name in _FACT_FIELDS}
    return facts | {name: facts[name].hex() for name in _BINARY_FIELDS if facts[name] is not None}


def read_local_image(path: Path) -> FetchedImage:
    """Returns the image of a local file."""
    [image] = decode_images([path])
    if image.reason:
        return FetchedImage("", image.reason, "final", image.detail or "", str(path))
    size, sha256 = image.size or 0, image.sha256 or ""
    return FetchedImage("", path=str(path), sha256=sha256, size=size, **_from_json(image_facts_as_json(image)))


def fetched_image_of(store: PageStore, one: StoredFetch, facts: dict[str, Any]) -> FetchedImage:
    """Returns the image of a stored fetch, `facts` as from image_facts_as_json, or why it failed."""
    if one.outcome != "kept":
        return FetchedImage(one.url, one.reason, one.outcome, one.detail, fetched_at=one.fetched_at)
    place = str(store.body_path(one.sha256))
    fetch_fields = (one.final_url, one.fetched_at, one.sha256, one.size)
    return FetchedImage(one.url, "", "", "", place, *fetch_fields, **_from_json(facts))


def _from_json(facts: dict[str, Any]) -> dict[str, Any]:
    return facts | {name: bytes.fromhex(facts[name]) for name in _BINARY_FIELDS if facts[name] is not None}
