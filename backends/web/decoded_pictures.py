"""Pictures that were fetched, and what a reader sees in them: decoded by a process that may die."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from backends.pictures import picture_reading
from backends.pictures.isolated import Lost, each_isolated
from backends.pictures.picture_reading import Picture, read_picture
from backends.web.page_store import PageStore, StoredFetch

READER = f"1 pillow {version('pillow')} {picture_reading.MAX_PIXELS}"  # 1: goes up when the same bytes look otherwise
DECODERS = os.cpu_count() or 1
_SEEN = ("width", "height", "format", "pixels", "phash", "turned", "outline")
_decoding = threading.BoundedSemaphore(DECODERS)  # so many processes, however many threads want one


@dataclass(frozen=True, slots=True)
class FetchedPicture:
    """A picture that is there, with what a reader saw in it, or the reason why it is not."""

    url: str
    reason: str = ""
    kind: str = ""  # of the failure: transient, final
    detail: str = ""
    path: str = ""
    final_url: str = ""
    fetched_at: str = ""
    sha256: str = ""
    size: int = 0
    width: int = 0  # of the upright picture
    height: int = 0
    format: str = ""
    pixels: str = ""
    phash: int | None = None
    turned: list[int] | None = None
    outline: bytes | None = None


def decoded(paths: Sequence[Path]) -> list[Picture]:
    """What the files say of themselves, each with its reason where it is no good."""
    if not paths:
        return []
    with _decoding:
        found = list(each_isolated(read_picture, map(str, paths)))
    return [Picture(reason=one.reason, detail=one.detail) if isinstance(one, Lost) else one for one in found]


def facts_of(picture: Picture) -> dict[str, Any]:
    """What was seen, as JSON can hold it."""
    facts = {name: getattr(picture, name) for name in _SEEN}
    return facts | {"outline": picture.outline.hex() if picture.outline is not None else None}


def local_picture(path: Path) -> FetchedPicture:
    """A picture where it lies."""
    [picture] = decoded([path])
    if picture.reason:
        return FetchedPicture("", picture.reason, "final", picture.detail or "", str(path))
    size, sha256 = picture.size or 0, picture.sha256 or ""
    return FetchedPicture("", path=str(path), sha256=sha256, size=size, **_unpacked(facts_of(picture)))


def kept_picture(store: PageStore, one: StoredFetch, facts: dict[str, Any]) -> FetchedPicture:
    """A fetch that was kept, or has failed, with what was seen."""
    if one.outcome != "kept":
        return FetchedPicture(one.url, one.reason, one.outcome, one.detail, fetched_at=one.fetched_at)
    place = str(store.body_path(one.sha256))
    told = (one.final_url, one.fetched_at, one.sha256, one.size)
    return FetchedPicture(one.url, "", "", "", place, *told, **_unpacked(facts))


def _unpacked(facts: dict[str, Any]) -> dict[str, Any]:
    return facts | {"outline": bytes.fromhex(facts["outline"]) if facts["outline"] is not None else None}
