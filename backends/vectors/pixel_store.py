"""Decoded images of one size in two .npy files, which are memory-mapped."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.durable_files import replace_atomically
from backends.file_errors import translate_write_errors


def open_pixels(folder: Path, key: str) -> tuple[NDArray[np.uint8], NDArray[np.bool_]] | None:
    """Returns images (n, side, side, 3) and which of them are known (n,); None where none, or only some, are stored
    under this key."""
    rows, known = _paths(folder, key)
    try:
        return np.load(rows, mmap_mode="r"), np.load(known)
    except (FileNotFoundError, ValueError):
        return None


def write_pixels(
    folder: Path, key: str, shape: tuple[int, ...], fill: Callable[[NDArray[np.uint8]], NDArray[np.bool_]]
) -> None:
    """Stores the array that `fill` fills, and which rows it returns as known. The file of images is put in place last
    and atomically. Raises UserError where they cannot be written."""
    rows, known = _paths(folder, key)
    folder.mkdir(parents=True, exist_ok=True)
    beside = rows.with_name(f".{rows.name}.{secrets.token_hex(8)}")
    try:
        with translate_write_errors("keep images", folder):
            held: Any = np.lib.format.open_memmap(beside, mode="w+", dtype=np.uint8, shape=shape)
            is_known = fill(held)
            held.flush()
            del held
            replace_atomically(known, lambda file: np.save(file, is_known))
            with beside.open("rb") as file:
                os.fsync(file.fileno())
            beside.replace(rows)
    finally:
        beside.unlink(missing_ok=True)


def _paths(folder: Path, key: str) -> tuple[Path, Path]:
    return folder / f"{key}.npy", folder / f"{key}-known.npy"
