"""Where this machine keeps what it read from object storage. It may be deleted at any time: nothing is written there
that is not in a bucket, too."""

import os
from pathlib import Path

from builders.errors import UserError


def cache_folder() -> Path:
    """Returns the folder: below XDG_CACHE_HOME, or ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return cache / "querytruth" / "object-storage"


def object_path(sha256: str) -> Path:
    """Returns where the file with these bytes is kept."""
    return cache_folder() / "objects" / sha256[:2] / sha256


def is_fetched_copy(path: Path) -> bool:
    """Whether a folder or file is a copy of what is in a bucket."""
    return path.is_absolute() and path.is_relative_to(cache_folder())


def refuse_fetched_copy(path: Path, stage: str) -> None:
    """Raises UserError where something is to be written beside a copy: it would be lost with the cache."""
    if is_fetched_copy(path):
        reason = "is a set in object storage, which can be read here and not written"
        raise UserError(stage, path.name if path.suffix else path, reason, FETCH_FIRST)


FETCH_FIRST = "run querytruth fetch s3://… --to datasets, work on that set, and publish it again"
