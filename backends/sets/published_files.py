"""The files of a version, as its manifest and its list of images name them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from backends.bounded_parquet import read_parquet
from backends.contained_paths import is_contained_name
from backends.file_errors import translate_read_errors
from builders.errors import UserError

CHECKSUMS = "images/checksums.parquet"
_STAGE = "read set"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a version: its path there, and what its bytes must be."""

    path: str
    size: int
    sha256: str


def list_published_files(manifest: Mapping[str, Any]) -> list[PublishedFile]:
    """Returns the files that a manifest lists itself: all but the images. Raises UserError for an impossible one."""
    return [_checked(row, "manifest.json") for row in manifest["files"]]


def read_published_images(checksums: Path) -> Iterator[PublishedFile]:
    """Yields the images that a version's `images/checksums.parquet` lists. Raises UserError for an impossible one, and
    where the list cannot be read."""
    next_step = "run verify on the set, restore the file"
    with translate_read_errors(_STAGE, checksums, next_step, also=(pa.ArrowException, KeyError)):
        rows = read_parquet(checksums, ["path", "bytes", "sha256"]).to_pylist()
    for row in rows:
        if not str(row["path"]).startswith("images/") or row["path"] == CHECKSUMS:
            raise _impossible(CHECKSUMS, row["path"])
        yield _checked(row, CHECKSUMS)


def _checked(row: Mapping[str, Any], source: str) -> PublishedFile:
    path, size, sha256 = str(row["path"]), row["bytes"], str(row["sha256"])
    is_possible = is_contained_name(path) and path != "manifest.json" and _DIGEST.fullmatch(sha256)
    if not is_possible or not isinstance(size, int) or not 0 <= size <= _MAX_BYTES:
        raise _impossible(source, path)
    return PublishedFile(path, size, sha256)


def _impossible(source: str, path: object) -> UserError:
    return UserError(_STAGE, source, f"lists {str(path)[:100]!r}, which no version has", "ask for the set again")
