"""Small pictures of a set, one at a time as a page asks for them, each made once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore

from backends.pictures.isolated import Limits, each_isolated
from backends.pictures.rendering import ThumbnailJob, thumbnail_job
from backends.sets.set_files import StoredSet
from querytruth.thumbnails import locations_of_pictures

_LIMITS = Limits(seconds=30)  # somebody waits
_END = b"\xff\xd9"  # of a whole JPEG


def small_pictures(stored: StoredSet) -> Callable[[str, int], bytes | None]:
    """A JPEG by image_id and longer side, or None where the picture is not at hand. They are kept beside the version,
    where that can be written, and decoded by as many worker processes as there are cores."""
    kept = stored.path.parent / ".thumbnails" / stored.path.name
    turns = BoundedSemaphore(os.cpu_count() or 1)

    def small(image_id: str, side: int) -> bytes | None:
        file = kept / str(side) / image_id[4:6] / f"{image_id}.jpg"
        with suppress(OSError):
            if (data := file.read_bytes()).endswith(_END):
                return data
        location = locations_of_pictures(stored, [image_id]).get(image_id)
        if location is None or ".." in Path(location).parts:  # no set of ours says so: it leads out of it
            return None
        with turns:
            (made,) = each_isolated(thumbnail_job, [ThumbnailJob(location, side)], _LIMITS)
        if not isinstance(made, bytes):
            return None
        with suppress(OSError):
            _keep(file, made)
        return made

    return small


def _keep(file: Path, data: bytes) -> None:
    """Without waiting for the disk: what a crash leaves half written has no end, and is made again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{secrets.token_hex(8)}")
    beside.write_bytes(data)
    beside.replace(file)
