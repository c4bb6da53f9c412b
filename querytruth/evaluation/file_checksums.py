"""Images by the SHA-1 of their files, used as names by Immich (base64) and PhotoPrism (hex).

A set has the SHA-256 of each source file. Its SHA-1 is computed from the file where that is available and still has
that SHA-256, and kept next to the sets (`.systems/sha1.txt`, a line `<sha256> <sha1>` each): no file is read twice.
"""

import base64
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd

from querytruth.backends.files.durable_files import append_lines, open_log, read_lines
from querytruth.backends.files.safe_paths import open_regular
from querytruth.backends.id_patterns import map_pattern
from querytruth.backends.steps import current_run
from querytruth.errors import UserError, translate_write_errors
from querytruth.sets.published_files import list_image_roots
from querytruth.sets.set_files import StoredSet, locate_source_items

_KEPT = Path(".systems") / "sha1.txt"  # in the folder of the sets
_AT_ONCE = 1000  # lines


def map_system_ids(images: pd.DataFrame, column: str, stored: StoredSet) -> dict[str, str]:
    """Return the image id by the id that a system answers with: a value of a column of the images, `sha1` of their
    files, or a pattern. Raises UserError for sha1 where no file is at hand."""
    return _map_checksums(images, stored) if column == "sha1" else map_pattern(images, column)


def _map_checksums(images: pd.DataFrame, stored: StoredSet) -> dict[str, str]:
    known = images.dropna(subset=["sha256"])
    kept = _read_kept(stored.path.parent.parent / _KEPT)
    missing = known[~known["sha256"].isin(list(kept))]
    if len(missing):
        kept |= _compute(missing, stored)
    rows = zip(known["sha256"].tolist(), known["image_id"].tolist(), strict=True)
    found = {kept[sha256]: str(image_id) for sha256, image_id in rows if sha256 in kept}
    if not found:
        reason = "has no source file available for its images, so their SHA-1 cannot be computed"
        raise UserError("map ids", stored.path, reason, "give the folder of the photos: --images FOLDER")
    in_base64 = {base64.b64encode(bytes.fromhex(sha1)).decode(): image_id for sha1, image_id in found.items()}
    return found | in_base64


def _read_kept(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    pairs = (line.decode("ascii", "replace").split(" ") for line in read_lines(file)[0])
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and len(pair[0]) == 64 and len(pair[1]) == 40}


def _compute(images: pd.DataFrame, stored: StoredSet) -> dict[str, str]:
    """Return sha1 by sha256 of the available unchanged files, and store them."""
    file, found = stored.path.parent.parent / _KEPT, dict[str, str]()
    with current_run().reporter.bar("sha1 of images", len(images), "images") as advance:
        for sha256, place in _locate(images, stored):
            with suppress(OSError):
                if (sha1 := _read_sha1(place, sha256)) is not None:
                    found[sha256] = sha1
            advance(1)
    lines = [f"{sha256} {sha1}" for sha256, sha1 in found.items()]
    with translate_write_errors("map ids", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with open_log(file, wait=True) as handle:
            for start in range(0, len(lines), _AT_ONCE):
                append_lines(handle, lines[start : start + _AT_ONCE])
    return found


def _locate(images: pd.DataFrame, stored: StoredSet) -> Iterator[tuple[str, Path]]:
    """Yield the sha256 and the file of each image that is at hand: in the folder that the build read, or below one
    that the person names."""
    names = images["file_name"].dropna().astype(str).tolist()
    sources = [stored.own_definition.get("images"), *list_image_roots()]
    places = [locate_source_items(source, names) for source in sources]
    for sha256, name in zip(images["sha256"].tolist(), images["file_name"].tolist(), strict=True):
        for place in (one.get(name) for one in places):
            if place is not None and "://" not in place and Path(place).is_file():
                yield sha256, Path(place)
                break


def _read_sha1(path: Path, sha256: str) -> str | None:
    """Return the SHA-1 of a file; None where its SHA-256 is another."""
    both = hashlib.sha256(), hashlib.sha1(usedforsecurity=False)
    with open_regular(path) as file:
        while data := file.read(1 << 20):
            for one in both:
                one.update(data)
    return both[1].hexdigest() if both[0].hexdigest() == sha256 else None
