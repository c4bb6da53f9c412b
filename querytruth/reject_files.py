"""The files that rejects are, as they lie on this machine: found by what the ledger calls them, never fetched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from backends.pictures.isolated import Limits, Lost, each_isolated
from backends.pictures.picture_reading import Picture, read_picture
from backends.sets.set_files import StoredSet
from backends.sources import picture_sources
from backends.sources.source_names import is_url, is_web, name_of
from builders.errors import UserError
from builders.records import content_id, image_id_of_bytes
from querytruth.set_pictures import kept_small
from review.saying import Refused
from review.server.rejects import Files

Locate = Callable[[Iterable[str]], Mapping[str, str]]
_LIMITS = Limits(seconds=30)  # somebody waits


def reject_files(stored: StoredSet) -> Files:
    """Those of the set's source; of a generated set the pictures that its search found and that are kept."""
    locate = _finder(stored)
    known: dict[str, tuple[str, str]] = {}  # an item and its stamp, by the name of its small picture

    def place(name: str) -> str | None:
        item, stamp = known[name]
        location = locate([item]).get(item)
        return location if location is not None and _stamp(location) == stamp else None

    kept = kept_small(stored, f"{stored.path.name}-rejects", place)

    def small(item: str, stamp: str, side: int) -> bytes | None:
        name = content_id("rej", item, stamp)
        known[name] = (item, stamp)
        return kept(name, side)

    def stamps(items: Iterable[str]) -> dict[str, str]:
        found = {item: _stamp(location) for item, location in locate(items).items()}
        return {item: stamp for item, stamp in found.items() if stamp}

    return Files(stamps, small, lambda item: _image_id(locate([item]).get(item)))


def _finder(stored: StoredSet) -> Locate:
    definition = stored.manifest["envelope"].get("definition") or {}
    collect: Mapping[str, Any] = definition.get("collect") or {}
    images = definition.get("images")
    if collect.get("search") == "folder":
        options = collect.get("options") or {}
        images = options.get("images") or str(Path(str(options.get("index"))).parent)
    elif collect:
        return lambda items: _kept(stored.path.parent / "pages", items)
    return lambda items: _in_source(images, items) if isinstance(images, str) else {}


def _in_source(images: str, items: Iterable[str]) -> dict[str, str]:
    """A folder lists only what is below it; a list may name files and URLs anywhere, but of the web."""
    found: dict[str, str] = {}
    try:
        source = picture_sources.open_source(images)
    except UserError:
        return found
    for item in items:
        with suppress(ValueError):  # of a name that no file system could have given
            if source.kind == "folder" and (is_url(item) or name_of(item).startswith(b"/")):
                continue
            location = source.location(item)
            if isinstance(location, str) and not is_web(location):
                found[item] = location
    return found


def _kept(folder: Path, items: Iterable[str]) -> dict[str, str]:
    """The bodies of pictures that were fetched, by their addresses."""
    from backends.image_search import web_address
    from backends.web.page_store import PageStore
    from backends.web.web_records import WebRequest

    requests = {item: WebRequest(item) for item in items if web_address(item)}
    if not requests or not folder.is_dir():
        return {}
    store = PageStore(folder)
    try:
        known = store.find(list(requests.values()))
    finally:
        store.close()
    there = {item: known[request.key] for item, request in requests.items() if request.key in known}
    return {item: str(store.body_path(one.sha256).absolute()) for item, one in there.items() if one.sha256}


def _stamp(location: str) -> str:
    """Another one once the file is another; "" where there is none."""
    state = picture_sources.state(location)
    if isinstance(state, picture_sources.Refused):
        return ""
    return hashlib.sha256(repr(tuple(state)).encode()).hexdigest()[:16]


def _image_id(location: str | None) -> str:
    """Read as a build reads it: what no build can read is no picture that could be let in."""
    if location is None:
        raise Refused("its file is not where the set found it: put it back, then rescue it")
    (found,) = each_isolated(read_picture, [location], _LIMITS)
    picture = Picture(reason=found.reason) if isinstance(found, Lost) else found
    if picture.reason or picture.sha256 is None:
        reason = str(picture.reason).replace("_", " ")
        raise Refused(f"its file cannot be read by now ({reason}): put back what was there, then rescue it")
    return image_id_of_bytes(picture.sha256)
