"""Writes a set's page: the pictures it shows are read, made small and put into one HTML file."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from PIL import Image

from backends import durable_files, pictures, set_files
from backends.set_files import StoredSet
from builders.errors import UserError
from builders.lint import lint
from review.set_page import PageSelection, render_set_page, select

_SIDES = {150: 320, 300: 240, 600: 176}  # up to so many pictures: the longer side of each
_SMALLEST = (128, 96, 72)
_ROOM = 3_500_000  # bytes of all thumbnails; base64 and the text make it less than 5 MB


def write_set_page(path: Path, page: Path) -> None:
    """One HTML file about the version at `path` that opens anywhere, with its pictures inside."""
    stored = set_files.read(path)
    shown = select(stored.tables, stored.manifest["notes"].get("parents", ()))
    thumbnails = _thumbnails(stored, shown)
    html = render_set_page(stored.tables, stored.manifest, thumbnails, lint(stored.tables), shown)
    try:
        durable_files.write_atomically(page, html.encode("utf-8", "replace"))
    except OSError as error:
        raise UserError(
            "write page", page, f"cannot be written ({error.strerror})", "give another file to --page"
        ) from None


def _thumbnails(stored: StoredSet, shown: PageSelection) -> dict[str, bytes]:
    """A JPEG per picture that is at hand, as large as all of them together may be."""
    wanted = stored.tables.images[stored.tables.images["image_id"].isin(shown.image_ids)]
    rows = sorted(zip(wanted["image_id"], wanted["path"], strict=True))
    files = {str(image_id): file for image_id, name in rows if (file := _file(stored.path, name)) is not None}
    made: dict[str, bytes] = {}
    first = [side for most, side in _SIDES.items() if len(files) <= most]
    for side in (*first[:1], *_SMALLEST):
        with ThreadPoolExecutor() as pool:
            found = zip(files, pool.map(partial(_small, side), files.values()), strict=True)
            made = {image_id: data for image_id, data in found if data is not None}
        if sum(map(len, made.values())) <= _ROOM:
            break
    return made


def _file(folder: Path, name: object) -> Path | None:
    """Where a picture lies: in the set, or where the set refers to."""
    if not isinstance(name, str) or "\x00" in name:
        return None
    try:
        return next((file for file in (folder / name, Path(name)) if file.is_file()), None)
    except OSError:  # a name too long for any file
        return None


def _small(side: int, file: Path) -> bytes | None:
    """A picture that is gone, broken or huge by now has no thumbnail; the page names it instead."""
    try:
        if file.stat().st_size > pictures.MAX_BYTES:
            return None
        data = file.read_bytes()
        with Image.open(io.BytesIO(data), formats=pictures.FORMATS) as header:
            if header.width * header.height > pictures.MAX_PIXELS:
                return None
        return pictures.thumbnail(data, side)
    except Exception:  # Pillow's decoders raise whatever a hostile file makes them raise
        return None
