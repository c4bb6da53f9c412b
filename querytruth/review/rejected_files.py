"""Locates the files of rejected items on this machine, by the names in the ledger; nothing is fetched."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

from querytruth.backends.images import image_sources, rendering, worker_starts
from querytruth.backends.images.image_reading import read_image
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.web.image_search import find_image_folder, normalize_web_url
from querytruth.records import content_id, image_id_of_bytes
from querytruth.review.deck import ActionError
from querytruth.review.gallery_views import RejectionFiles
from querytruth.sets.set_files import StoredSet, locate_source_items
from querytruth.sets.set_thumbnails import ThumbnailCache, ThumbnailSource

ItemLocator = Callable[[Iterable[str]], Mapping[str, str]]


def open_rejected_files(stored: StoredSet) -> RejectionFiles:
    """Return the files of the set's source; for a generated set the images that its search gave and that are stored."""
    locate = _item_locator(stored)
    cache = ThumbnailCache(stored, f"{stored.path.name}-rejects")

    def locate_unchanged(item: str, stamp: str) -> ThumbnailSource | None:
        location = locate([item]).get(item)
        is_unchanged = location is not None and _file_stamp(location) == stamp
        return ThumbnailSource(location) if location is not None and is_unchanged else None

    def stamps(items: Iterable[str]) -> dict[str, str]:
        item_stamps = {item: _file_stamp(location) for item, location in locate(items).items()}
        return {item: stamp for item, stamp in item_stamps.items() if stamp}

    return RejectionFiles(
        stamps,
        lambda item, stamp, side: cache.read(
            content_id("rej", item, stamp), side, lambda: locate_unchanged(item, stamp)
        ),
        lambda item: _image_id(locate([item]).get(item)),
    )


def _item_locator(stored: StoredSet) -> ItemLocator:
    collect, images = stored.own_definition.get("collect") or {}, stored.own_definition.get("images")
    if collect:
        folder = find_image_folder(collect["search"], collect.get("options") or {})
        if folder is None:
            return lambda items: _locate_fetched(stored.path.parent / "pages", items)
        images = str(folder)
    return lambda items: locate_source_items(images, items)


def _locate_fetched(folder: Path, items: Iterable[str]) -> dict[str, str]:
    """Returns the stored bodies of fetched images, by their addresses."""
    from querytruth.backends.web.page_store import PageStore
    from querytruth.backends.web.web_records import WebRequest

    requests = {item: WebRequest(item) for item in items if normalize_web_url(item)}
    if not requests or not folder.is_dir():
        return {}
    with closing(PageStore(folder)) as store:
        stored_fetches = store.find(list(requests.values()))
    stored_by_item = {
        item: stored_fetches[request.key] for item, request in requests.items() if request.key in stored_fetches
    }
    return {item: str(store.body_path(one.sha256).absolute()) for item, one in stored_by_item.items() if one.sha256}


def _file_stamp(location: str) -> str:
    """Returns a text that changes with the file; "" where there is none."""
    state = image_sources.read_file_state(location)
    if isinstance(state, image_sources.RefusedItem):
        return ""
    return hashlib.sha256(repr(tuple(state)).encode()).hexdigest()[:16]


def _image_id(location: str | None) -> str:
    """Returns the id as a build would compute it; a file that no build can read cannot be overridden."""
    if location is None:
        raise ActionError("its file is not where the set found it: put it back, then rescue it")
    (image,) = map_in_workers(read_image, [location], rendering.THUMBNAIL_LIMITS)
    if isinstance(image, worker_starts.WorkerFailure) or image.sha256 is None:
        reason = str(image.reason).replace("_", " ")
        raise ActionError(f"its file cannot be read by now ({reason}): put back what was there, then rescue it")
    return image_id_of_bytes(image.sha256)
