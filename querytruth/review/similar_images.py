"""Images that resemble another one, by stored vectors or else by hash, and the files of rejected items on this machine.

Nothing is fetched: items are located by their names in the ledger.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread

import numpy as np
import pandas as pd
import pyarrow as pa

from querytruth.array_types import Vectors
from querytruth.backends.files.parquet_files import read_checked, write_checked
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.images import image_sources, rendering, worker_starts
from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.image_views import have_views
from querytruth.backends.images.same_images import ComparableImages
from querytruth.backends.images.scan_parts import read_images_in_workers
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.models.vector_store import read_most_complete_vectors
from querytruth.backends.web.image_search import find_image_folder, normalize_web_url
from querytruth.definitions import NearDuplicateOptions
from querytruth.errors import UserError
from querytruth.records import content_id, image_id_of_bytes
from querytruth.review.deck import ActionError
from querytruth.sets.set_files import StoredSet, locate_images, locate_source_items
from querytruth.sets.set_thumbnails import ThumbnailCache, ThumbnailSource

MAX_FOUND_IMAGES = 60
FoundImages = list[tuple[str, str]]  # image_id, and why it was found
_WAIT = 20.0  # seconds for the hashes; then those that are there are compared
_NOTHING_AT_HAND = "the images of this set are not available, so nothing can be compared"


class SimilarImageSearch:
    """The images of a version; hashes are computed at the first search and stored beside the versions."""

    def __init__(self, stored: StoredSet) -> None:
        self._stored = stored
        count = len(stored.tables.images)
        self._views: list[bytes | None] = [None] * count
        self._thumbnails: list[bytes | None] = [None] * count
        self._read_count, self._ready, self._lock = 0, Event(), Lock()
        self._thread: Thread | None = None

    def find_by_image(self, image_id: str) -> tuple[FoundImages, str]:
        """Return the most similar images, and a remark on what is not compared yet. Raises ActionError where the
        image cannot be compared."""
        row = self._row[image_id]
        if self._vectors is not None and self._vectors[row].any():
            cosines = self._vectors @ self._vectors[row]
            order = [other for other in np.argsort(-cosines, kind="stable")[: MAX_FOUND_IMAGES + 1] if other != row]
            return [(self._ids[other], f"cosine {cosines[other]:.2f}") for other in order], ""
        remark = self._wait_for_hashes()
        if not have_views([self._views[row]])[0]:
            raise ActionError("this image has too little structure to compare, or is not available")
        rows = np.arange(len(self._ids))
        bits = self._compare([], []).view_distances(rows, np.full(len(rows), row))
        order = [other for other in np.argsort(bits, kind="stable")[: MAX_FOUND_IMAGES + 1] if other != row]
        return [(self._ids[one], f"{bits[one]} of 64 bits differ") for one in order if bits[one] < 65], remark

    def find_by_file(self, data: bytes) -> tuple[FoundImages, str]:
        """Return the image with these bytes, else the images that are its duplicates by the rule of the gallery. Raises
        ActionError, with the reason, where there is none."""
        digest = hashlib.sha256(data).hexdigest()
        if image_id := self._ids_by_digest.get(digest):
            return [(image_id, "the same file")], ""
        if image_id := self._representatives.get(image_id_of_bytes(digest)):
            return [(image_id, "represents this near-duplicate")], ""
        remark, scanned = self._wait_for_hashes(), _scan_bytes(data)
        if not have_views([scanned.views])[0]:
            raise ActionError("this image has too little structure to compare, and no image has the same bytes")
        images, rows = self._compare([scanned.views], [scanned.thumbnail]), np.arange(len(self._ids))
        bits = images.view_distances(rows, np.full(len(rows), len(rows)))
        same = np.flatnonzero(images.relate(rows, np.full(len(rows), len(rows)))[1])
        if not len(same):
            nearest = int(bits.argmin())
            raise ActionError(
                f"this image is not in the gallery: no image shows the same, and the most similar one, "
                f"{self._name(nearest)}, differs in {bits[nearest]} of 64 bits"
            )
        order = same[np.argsort(bits[same], kind="stable")].tolist()
        return [(self._ids[row], f"{bits[row]} of 64 bits differ") for row in order], remark

    def _compare(self, views: list[bytes | None], thumbnails: list[bytes | None]) -> ComparableImages:
        """Return the images of the version, and others behind them."""
        known = {"views": [*self._views, *views], "thumbnail": [*self._thumbnails, *thumbnails]}
        return ComparableImages(pd.DataFrame(known, dtype="object"), NearDuplicateOptions().distance or 0)

    def _name(self, row: int) -> str:
        name = self._stored.tables.images["file_name"].iloc[row]
        return name if isinstance(name, str) else self._ids[row]

    @cached_property
    def _ids(self) -> list[str]:
        return list(self._stored.tables.images["image_id"])

    @cached_property
    def _row(self) -> dict[str, int]:
        return {image_id: row for row, image_id in enumerate(self._ids)}

    @cached_property
    def _ids_by_digest(self) -> dict[str, str]:
        """Return the image of each sha256: of the source's file and of the set's own."""
        images = self._stored.tables.images
        of_source = dict(zip(images["sha256"], images["image_id"], strict=True))
        return of_source | {place.sha256: place.image_id for place in locate_images(self._stored) if place.sha256}

    @cached_property
    def _representatives(self) -> dict[str, str]:
        """Return the image in the gallery that represents each near-duplicate."""
        duplicates = self._stored.tables.duplicates
        leads = duplicates[duplicates["is_representative"].astype(bool)]
        by_group = dict(zip(leads["duplicate_group"], leads["image_id"], strict=True))
        pairs = zip(duplicates["image_id"], duplicates["duplicate_group"], strict=True)
        return {image_id: by_group[group] for image_id, group in pairs if by_group.get(group) in self._row}

    @cached_property
    def _vectors(self) -> Vectors | None:
        """Return unit vectors (images, d) that a model computed before; None where most images have none."""
        folder, places = self._stored.path.parent, locate_images(self._stored)
        for stored_vectors, keys in (
            (folder / ".vectors", self._ids),
            (folder.parent / ".vectors", [place.sha256 or "" for place in places]),
        ):
            vectors = read_most_complete_vectors(stored_vectors, keys)
            if vectors is not None:
                unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
                return unit
        return None

    def _wait_for_hashes(self) -> str:
        """Return a remark where not all images are compared yet. Raises ActionError where none can be."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._read_hashes, daemon=True)
                self._thread.start()
        if self._ready.wait(_WAIT):
            if not have_views(self._views).any():
                raise ActionError(_NOTHING_AT_HAND)
            return ""
        return f"{self._read_count:,} of {len(self._ids):,} images are compared so far; search again for the rest"

    def _read_hashes(self) -> None:
        """Fill the hashes from the file beside the versions, or compute them and write it."""
        folder, name = self._stored.path.parent, f".hashes/{self._stored.path.name}.parquet"
        try:
            table = read_checked(folder / name)
            if table is not None and "views" in table.schema.names and table["image_id"].to_pylist() == self._ids:
                self._views, self._thumbnails = (table[name].to_pylist() for name in ("views", "thumbnail"))
                return
            self._compute_hashes()
            views, thumbnails = (pa.array(values, pa.binary()) for values in (self._views, self._thumbnails))
            known = {"image_id": self._ids, "views": views, "thumbnail": thumbnails}
            with suppress(OSError, UserError):  # the next page computes them again
                write_checked(contained_path(folder, name, "find images"), pa.table(known))
        finally:
            self._ready.set()

    def _compute_hashes(self) -> None:
        places = [(self._row[place.image_id], place.location) for place in locate_images(self._stored)]
        at_hand = [(row, location) for row, location in places if location is not None]
        scans = read_images_in_workers(location for _, location in at_hand)
        for (row, _), scanned in zip(at_hand, scans, strict=True):
            self._read_count += 1
            if isinstance(scanned, ScannedImage):
                self._views[row], self._thumbnails[row] = scanned.views, scanned.thumbnail


def _scan_bytes(data: bytes) -> ScannedImage:
    """Return the image, decoded in a worker process. Raises ActionError for a file that is not a readable image."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dropped"
        file.write_bytes(data)
        (scanned,) = read_images_in_workers([str(file)])
    if not isinstance(scanned, ScannedImage) or scanned.reason:
        reason = str(scanned.reason).replace("_", " ")
        raise ActionError(f"this file is not a readable image ({reason})")
    return scanned


class RejectedFiles:
    """The files of rejected items in the set's source, by the names in the ledger; for a generated set the images that
    its search gave and that are stored."""

    def __init__(self, stored: StoredSet) -> None:
        self._cache = ThumbnailCache(stored, f"{stored.path.name}-rejects")
        self._pages = stored.path.parent / "pages"
        collect, self._source = stored.own_definition.get("collect") or {}, stored.own_definition.get("images")
        if collect:
            folder = find_image_folder(collect["search"], collect.get("options") or {})
            self._source = None if folder is None else str(folder)
        self._is_fetched = bool(collect) and self._source is None

    def get_stamps(self, items: Iterable[str]) -> dict[str, str]:
        """Return the stamps of the files that are there; a stamp changes with its file."""
        stamps = {item: _file_stamp(location) for item, location in self._locate(items).items()}
        return {item: stamp for item, stamp in stamps.items() if stamp}

    def load_thumbnail(self, item: str, stamp: str, side: int) -> bytes | None:
        """Return the JPEG of the file with this stamp, or None."""

        def locate_unchanged() -> ThumbnailSource | None:
            location = self._locate([item]).get(item)
            is_unchanged = location is not None and _file_stamp(location) == stamp
            return ThumbnailSource(location) if location is not None and is_unchanged else None

        return self._cache.read(content_id("rej", item, stamp), side, locate_unchanged)

    def compute_image_id(self, item: str) -> str:
        """Return the id as a build would compute it. Raises ActionError for a file that no build can read, which
        therefore cannot be overridden."""
        location = self._locate([item]).get(item)
        if location is None:
            raise ActionError("its file is no longer where the set found it: put it back, then rescue it")
        (image,) = map_in_workers(read_image, [location], rendering.THUMBNAIL_LIMITS)
        if isinstance(image, worker_starts.WorkerFailure) or image.sha256 is None:
            reason = str(image.reason).replace("_", " ")
            raise ActionError(f"its file can no longer be read ({reason}): restore it, then rescue it")
        return image_id_of_bytes(image.sha256)

    def _locate(self, items: Iterable[str]) -> Mapping[str, str]:
        return _locate_fetched(self._pages, items) if self._is_fetched else locate_source_items(self._source, items)


def _locate_fetched(folder: Path, items: Iterable[str]) -> dict[str, str]:
    """Return the stored bodies of fetched images, by their addresses."""
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
    """Return a text that changes with the file; "" without a file."""
    state = image_sources.read_file_state(location)
    if isinstance(state, image_sources.RefusedItem):
        return ""
    return hashlib.sha256(repr(tuple(state)).encode()).hexdigest()[:16]
