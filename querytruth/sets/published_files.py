"""The folder of a set: its versions, the files of one, references to files outside, and leftovers.

A number is never used twice: results, exports and people refer to a version by it. A lost version is one that something
refers to and that is newer than the newest existing one; removing an older one has no effect.

A set may not refer to files outside its own folder, unless this user published it here or gives the folder. A record
per published version is stored in the user's state folder, named by the digest of its manifest file, outside every set,
so that no set from elsewhere can claim to be the user's own.

Leftovers of interrupted runs are unfinished writes, and versions of killed builds that were never put in place.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from querytruth.backends.files import durable_files, safe_paths
from querytruth.backends.files.text_formats import parse_bounded_json
from querytruth.backends.images.source_names import is_allowed_url, is_url
from querytruth.defaults import hold_value
from querytruth.errors import UserError, translate_read_errors
from querytruth.sets.manifest import Manifest

# The temporary names of querytruth.backends.files.durable_files.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")
_NAMED = re.compile(r"v([1-9][0-9]{0,8})")
AUDITS_FOLDER = "audits"  # beside the versions
RESULTS_FOLDER = "evaluations"  # beside the versions
NOTICE_FILE = "notice.json"
CHECKSUMS = "images/checksums.parquet"
_STAGE = "read set"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_BYTES = 1 << 40
_image_roots: ContextVar[Sequence[str]] = ContextVar("image_roots", default=())


def notice_folder(version: Path) -> Path:
    """Return the folder of what a version would notice; it may be missing. Raises UserError where it is a link."""
    return safe_paths.contained_path(version.parent, f"notice/{version.name}", _STAGE)


def describe_notice(version: Path, content_digest: str) -> list[str]:
    """Return the line on what the version would notice, for where it is shown; empty where that is not measured, or of
    another content. Raises UserError for a damaged file."""
    file = notice_folder(version) / NOTICE_FILE
    if not file.is_file():
        return []
    try:
        with translate_read_errors(_STAGE, file):
            found = parse_bounded_json(safe_paths.read_regular(file))
        return [str(found["line"])] if found["set"]["content_digest"] == content_digest else []
    except (ValueError, KeyError, TypeError):
        raise UserError(_STAGE, file, "is damaged", "run `querytruth notice` again, or delete it") from None


def newest_version(folder: Path) -> int | None:
    """Return the highest number of a complete version in a set's folder; None without one."""
    if not folder.is_dir():
        return None
    complete = [path.parent.name for path in folder.glob("*/manifest.json") if path.is_file()]
    return max((int(match[1]) for name in complete if (match := _NAMED.fullmatch(name))), default=None)


def read_latest(folder: Path) -> int | None:
    """Return the version that the file `latest` names."""
    file = folder / "latest"
    name = file.read_bytes()[:64].decode("ascii", "replace").strip() if file.is_file() else ""
    return int(found[1]) if (found := _NAMED.fullmatch(name)) else None


def find_lost_versions(folder: Path) -> dict[int, list[str]]:
    """Return the versions after the newest of the set at `folder` that are gone, each with the files that name it."""
    newest = newest_version(folder) or 0
    found: dict[int, list[str]] = {}
    if (latest := read_latest(folder)) is not None and latest > newest:
        found.setdefault(latest, []).append("latest")
    results = folder / RESULTS_FOLDER
    for name in [] if results.is_symlink() else [one.name for one in results.glob("v*")]:
        if (match := _NAMED.fullmatch(name)) and (number := int(match[1])) > newest:
            found.setdefault(number, []).append(f"{RESULTS_FOLDER}/{name}")
    return dict(sorted(found.items()))


def describe_lost_versions(folder: Path) -> Iterator[str]:
    """Yield a line per lost version."""
    for number, names in find_lost_versions(folder).items():
        is_folder = (folder / f"v{number}").is_dir()
        yield (f"v{number} {'has no manifest' if is_folder else 'is missing'}, but {' and '.join(names)} refers to it")


def check_no_version_is_lost(folder: Path, stage: str, *, accept_loss: bool | None) -> list[str]:
    """Return a line per lost version. Raises UserError where there is one, unless the loss is accepted; None: it cannot
    be accepted."""
    losses = list(describe_lost_versions(folder))
    if losses and not accept_loss:
        next_step = "restore its folder from a backup"
        if accept_loss is not None:
            next_step += ", or give --accept-loss to continue from the version before; its number is not reused"
        raise UserError(stage, folder, "; ".join(losses), next_step)
    return losses


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a version: its path there, and what its bytes must be."""

    path: str
    size: int
    sha256: str


def list_published_files(manifest: Manifest) -> list[PublishedFile]:
    """Return the files that a manifest lists itself: all but the images. Raises UserError for an impossible one."""
    return [_checked(row, "manifest.json") for row in manifest["files"]]


def read_published_images(checksums: Path) -> Iterator[PublishedFile]:
    """Yield the images that a version's `images/checksums.parquet` lists. Raises UserError for an impossible one, and
    where the list cannot be read."""
    import pyarrow as pa  # which a command that reads a manifest alone does not need

    from querytruth.backends.files import parquet_files

    next_step = "run verify on the set, restore the file"
    with translate_read_errors(_STAGE, checksums, next_step, also=(pa.ArrowException, KeyError)):
        rows = parquet_files.read_parquet(checksums, ["path", "bytes", "sha256"]).to_pylist()
    for row in rows:
        if not str(row["path"]).startswith("images/") or row["path"] == CHECKSUMS:
            raise _impossible(CHECKSUMS, row["path"])
        yield _checked(row, CHECKSUMS)


def _checked(row: Mapping[str, Any], source: str) -> PublishedFile:
    path, size, sha256 = str(row["path"]), row["bytes"], str(row["sha256"])
    is_possible = safe_paths.is_contained_name(path) and path != "manifest.json" and _DIGEST.fullmatch(sha256)
    if not is_possible or not isinstance(size, int) or not 0 <= size <= _MAX_BYTES:
        raise _impossible(source, path)
    return PublishedFile(path, size, sha256)


def _impossible(source: str, path: object) -> UserError:
    return UserError(_STAGE, source, f"lists {str(path)[:100]!r}, which no version has", "get a new copy")


def record_own_version(version: Path) -> None:
    """Record that this user published the version at this path. Raises OSError."""
    record = _record_of((version / "manifest.json").read_bytes())
    record.parent.mkdir(parents=True, exist_ok=True)
    record.touch()


def is_own_version(version: Path) -> bool:
    """Return whether this user published the version at this path on this machine, and its manifest is unchanged."""
    with suppress(OSError):
        return is_own_manifest((version / "manifest.json").read_bytes())
    return False


def is_own_manifest(data: bytes) -> bool:
    """Return whether these are the bytes of the manifest of a version that this user published on this machine."""
    with suppress(OSError, RuntimeError):  # RuntimeError: no home folder
        return _record_of(data).is_file()
    return False


def _record_of(manifest: bytes) -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return state / "querytruth" / "own-versions" / hashlib.sha256(manifest).hexdigest()


def image_roots(roots: Sequence[str]) -> AbstractContextManager[None]:
    """Allow the images of every set that is read meanwhile to be below these folders or URLs."""
    return hold_value(_image_roots, roots)


def list_image_roots() -> list[str]:
    """Return the folders and URLs that are allowed now."""
    return list(_image_roots.get())


def is_allowed_image_path(path: str, *, is_own: bool) -> bool:
    """Return whether an image of a set may be read at an absolute path or a URL; `is_own`: of a set of this user."""
    if is_url(path) and (not is_allowed_url(path) or "/../" in path):
        return False
    return is_own or any(_is_below(path, root) for root in _image_roots.get())


def _is_below(path: str, root: str) -> bool:
    if is_url(path) or is_url(root):
        return path.startswith(root.rstrip("/") + "/")
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def find_leftovers(folder: Path, older_than: float) -> list[Path]:
    """Return the leftovers that were last changed before `older_than` (seconds since 1970), sorted. Files of versions,
    decisions, replies and rendered images are never included."""
    files = [path for path in _walk(folder) if path.lstat().st_mtime < older_than]
    inside = {path: path.relative_to(folder).parts for path in files}
    found = {
        path for path, parts in inside.items() if _UNFINISHED.fullmatch(path.name) or parts[:2] == ("pages", "incoming")
    }
    staged = {path: folder.joinpath(*parts[:2]) for path, parts in inside.items() if parts[0] == ".publish"}
    return sorted(found | {path for path, staging in staged.items() if durable_files.is_abandoned(staging)})


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink():
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not _NAMED.fullmatch(path.name):
            yield from _walk(path)
