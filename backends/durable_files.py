"""Atomic, durable writes, and digests of files."""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

from backends.file_errors import translate_write_errors
from backends.regular_files import open_regular


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replaces a file and creates its folder; after a crash the file holds the old bytes or all new ones. Only
    `sync_folder` of its folder makes sure of the new ones. Without `sync`, a crash of the machine may leave a part of
    them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, lambda file: file.write(data), sync=sync)


def replace_atomically(path: Path, write: Callable[[IO[bytes]], object], *, sync: bool = True) -> None:
    """Replaces a file with what `write` puts into a new one, as `write_atomically` does. The folder must exist."""
    # A random name, not the process id: hosts that share a folder may share that, too.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("wb") as file:
            write(file)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_page(page: Path, html: str, then: str = "or give another file to --page") -> None:
    """Writes a page and creates its folder. Raises UserError where it cannot be written; `then` ends its next step."""
    with translate_write_errors("write page", page, then):
        write_atomically(page, html.encode("utf-8", "replace"))


def link_or_copy(source: Path, target: Path) -> None:
    """Makes a hard link, or where the file system has no links a copy, whose bytes are on disk when the call returns.
    Raises OSError."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        sync_file(target)


def make_durable_folder(folder: Path) -> None:
    """Creates a folder and its missing parents; their names are on disk when the call returns."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_file(path: Path) -> None:
    """Waits until the bytes of a file are on disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Waits until the folder's entries are on disk."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> tuple[str, int]:
    """Returns a file's SHA-256 and its size in bytes; reads it in pieces."""
    digest, size = hashlib.sha256(), 0
    with open_regular(path) as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
            progress(len(data))
    return digest.hexdigest(), size
