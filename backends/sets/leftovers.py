"""Files below a set's folder that no run reads any more: unfinished writes, versions of killed builds that were never
put in place, and bodies of pages without a row."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from backends.sets.staging_folders import is_abandoned
from backends.web.page_store import PageStore

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")  # the temporary names of backends.durable_files
_VERSION = re.compile(r"v[1-9][0-9]*")
_BODY = re.compile(r"[0-9a-f]{64}")


def find_leftovers(folder: Path, older_than: float) -> list[Path]:
    """Returns the leftovers that were last changed before `older_than` (seconds since 1970), sorted. Nothing in a
    version and no decision, reply or rendered image is one."""
    files = [path for path in _walk(folder) if path.lstat().st_mtime < older_than]
    inside = {path: path.relative_to(folder).parts for path in files}
    found = {
        path for path, parts in inside.items() if _UNFINISHED.fullmatch(path.name) or parts[:2] == ("pages", "incoming")
    }
    staged = {path: folder.joinpath(*parts[:2]) for path, parts in inside.items() if parts[0] == ".publish"}
    found |= {path for path, staging in staged.items() if is_abandoned(staging)}
    bodies = {path.name: path for path, parts in inside.items() if parts[:2] == ("pages", "bodies")}
    bodies = {name: path for name, path in bodies.items() if _BODY.fullmatch(name)}
    if bodies and (folder / "pages" / "fetches.sqlite").is_file():
        with closing(PageStore(folder / "pages")) as store:
            found |= {bodies[name] for name in bodies.keys() - store.find_stored_digests(list(bodies))}
    return sorted(found)


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink():
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not _VERSION.fullmatch(path.name):
            yield from _walk(path)
