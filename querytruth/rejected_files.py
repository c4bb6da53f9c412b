"""The files that rejects are, as they lie on this machine: found by what the ledger calls them, never fetched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from backends.images.image_reading import ScannedImage, read_image
from backends.images.worker_processes import WorkerFailure, WorkerLimits, map_in_workers
from backends.sets.set_files import StoredSet
from backends.sources import image_sources
from backends.sources.source_names import decode_item, is_url, is_web_url
from builders.errors import UserError
from builders.records import content_id, image_id_of_bytes
from querytruth.set_images import make_cached_thumbnail_reader
from review.actions import ActionError
from review.server.rejection_views import RejectionFiles

ItemLocator = Callable[[Iterable[str]], Mapping[str, str]]
_LIMITS = WorkerLimits(seconds=30)  # somebody waits


def open_rejected_files(stored: StoredSet) -> RejectionFiles:
    """Those of the set's source; of a generated set the pictures that its search found and that are kept."""
    locate = _item_locator(stored)
    items_by_name: dict[str, tuple[str, str]] = {}  # an item and its stamp, by the name of its small picture

    def locate_unchanged(name: str) -> str | None:
        item, stamp = items_by_name[name]
        location = locate([item]).get(item)
        return location if location is not None and _file_stamp(location) == stamp else None

    cached_thumbnail = make_cached_thumbnail_reader(stored, f"{stored.path.name}-rejects", locate_unchanged)

    def thumbnail(item: str, stamp: str, side: int) -> bytes | None:
        name = content_id("rej", item, stamp)
        items_by_name[name] = (item, stamp)
        return cached_thumbnail(name, side)

    def stamps(items: Iterable[str]) -> dict[str, str]:
        item_stamps = {item: _file_stamp(location) for item, location in locate(items).items()}
        return {item: stamp for item, stamp in item_stamps.items() if stamp}

    return RejectionFiles(stamps, thumbnail, lambda item: _image_id(locate([item]).get(item)))


def _item_locator(stored: StoredSet) -> ItemLocator:
    definition = stored.manifest["envelope"].get("definition") or {}
    collect: Mapping[str, Any] = definition.get("collect") or {}
    images = definition.get("images")
    if collect.get("search") == "folder":
        options = collect.get("options") or {}
        images = options.get("images") or str(Path(str(options.get("index"))).parent)
    elif collect:
        return lambda items: _locate_fetched(stored.path.parent / "pages", items)
    return lambda items: _locate_in_source(images, items) if isinstance(images, str) else {}


def _locate_in_source(images: str, items: Iterable[str]) -> dict[str, str]:
    """A folder lists only what is below it; a list may name files and URLs anywhere, but of the web."""
    locations: dict[str, str] = {}
    try:
        source = image_sources.open_source(images)
    except UserError:
        return locations
    for item in items:
        with suppress(ValueError):  # of a name that no file system could have given
            if source.kind == "folder" and (is_url(item) or decode_item(item).startswith(b"/")):
                continue
            location = source.locate(item)
            if isinstance(location, str) and not is_web_url(location):
                locations[item] = location
    return locations


def _locate_fetched(folder: Path, items: Iterable[str]) -> dict[str, str]:
    """The bodies of pictures that were fetched, by their addresses."""
    from backends.image_search import normalize_web_url
    from backends.web.page_store import PageStore
    from backends.web.web_records import WebRequest

    requests = {item: WebRequest(item) for item in items if normalize_web_url(item)}
    if not requests or not folder.is_dir():
        return {}
    store = PageStore(folder)
    try:
        stored_fetches = store.find(list(requests.values()))
    finally:
        store.close()
    stored_by_item = {
        item: stored_fetches[request.key] for item, request in requests.items() if request.key in stored_fetches
    }
    return {item: str(store.body_path(one.sha256).absolute()) for item, one in stored_by_item.items() if one.sha256}


def _file_stamp(location: str) -> str:
    """Another one once the file is another; "" where there is none."""
    state = image_sources.read_file_state(location)
    if isinstance(state, image_sources.RefusedItem):
        return ""
    return hashlib.sha256(repr(tuple(state)).encode()).hexdigest()[:16]


def _image_id(location: str | None) -> str:
    """Read as a build reads it: what no build can read is no picture that could be let in."""
    if location is None:
        raise ActionError("its file is not where the set found it: put it back, then rescue it")
    (decoded,) = map_in_workers(read_image, [location], _LIMITS)
    image = ScannedImage(reason=decoded.reason) if isinstance(decoded, WorkerFailure) else decoded
    if image.reason or image.sha256 is None:
        reason = str(image.reason).replace("_", " ")
        raise ActionError(f"its file cannot be read by now ({reason}): put back what was there, then rescue it")
    return image_id_of_bytes(image.sha256)
