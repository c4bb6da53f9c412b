"""The images of a set as queries of a search service."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from backends.file_errors import translate_read_errors
from backends.regular_files import read_regular
from backends.search_systems import ImageSearchSystem, SearchHit
from backends.sets.image_locations import ImageLocation, locate_images
from backends.sets.set_files import StoredSet
from builders.errors import UserError

_STAGE = "ask search system"
MAX_IMAGE_BYTES = 200 << 20  # of an image, as everywhere


@dataclass(frozen=True, slots=True)
class QuerySearch:
    """One query of a set: its id, what the recorded answer depends on (a text, or the digest of an image), and the
    search."""

    query_id: str
    question: str
    search: Callable[[], list[SearchHit]]


def list_image_searches(
    system: ImageSearchSystem, stored: StoredSet, image_ids: Sequence[str], k: int
) -> list[QuerySearch]:
    """Returns a search per image; its file is read when it is asked. Raises UserError for an image that is not at
    hand."""
    places = {place.image_id: place for place in locate_images(stored)}
    return [
        QuerySearch(image_id, f"image {place.sha256}", partial(_search, system, place, k))
        for image_id in image_ids
        for place in [_require_file(places.get(image_id), image_id)]
    ]


def map_text_ids(queries: pd.DataFrame) -> dict[str, str]:
    """Returns the query id by what a system answers with: the query id, or a text that one query alone has."""
    ids, texts = queries["query_id"].astype(str).tolist(), queries["text"].tolist()
    shared = Counter(texts)
    return {text: name for name, text in zip(ids, texts, strict=True) if shared[text] == 1} | dict(
        zip(ids, ids, strict=True)
    )


def _require_file(place: ImageLocation | None, image_id: str) -> ImageLocation:
    if place is None or place.location is None or "://" in place.location or place.sha256 is None:
        raise UserError(_STAGE, image_id, "is not at hand as a file", "build the set with `render`, or name --images")
    return place


def _search(system: ImageSearchSystem, place: ImageLocation, k: int) -> list[SearchHit]:
    with translate_read_errors(_STAGE, place.image_id, "restore the file: querytruth verify the set"):
        data = read_regular(Path(str(place.location)), MAX_IMAGE_BYTES)
    if hashlib.sha256(data).hexdigest() != place.sha256:
        raise UserError(_STAGE, place.image_id, "is another file than the set has", "querytruth verify the set")
    return system.search_image(data, k)
