"""What a set may name outside its own folder: nothing, unless this user published it here or gives the folder.

A record per published version is stored in the user's state folder, named by the digest of its manifest file. It is
outside every set, so that no set from elsewhere can claim to be the user's own.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from backends.durable_files import file_sha256
from backends.sources.source_names import is_allowed_url, is_url

_image_roots: ContextVar[Sequence[str]] = ContextVar("image_roots", default=())


def record_own_version(version: Path) -> None:
    """Records that this user published the version at this path. Raises OSError."""
    record = _record_of(version)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.touch()


def is_own_version(version: Path) -> bool:
    """Whether this user published the version at this path on this machine, and its manifest is unchanged."""
    with suppress(OSError, RuntimeError):  # RuntimeError: no home folder
        return _record_of(version).is_file()
    return False


def _record_of(version: Path) -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return state / "querytruth" / "own-versions" / file_sha256(version / "manifest.json")[0]


@contextmanager
def image_roots(roots: Sequence[str]) -> Iterator[None]:
    """Allows the images of every set that is read meanwhile to be below these folders or URLs."""
    token = _image_roots.set(roots)
    try:
        yield
    finally:
        _image_roots.reset(token)


def is_allowed_image_path(path: str, *, is_own: bool) -> bool:
    """Whether an image of a set may be read at an absolute path or a URL; `is_own`: of a set of this user."""
    if is_url(path) and (not is_allowed_url(path) or "/../" in path):
        return False
    return is_own or any(_is_below(path, root) for root in _image_roots.get())


def _is_below(path: str, root: str) -> bool:
    if is_url(path) or is_url(root):
        return path.startswith(root.rstrip("/") + "/")
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
