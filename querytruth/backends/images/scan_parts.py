"""Scanned images, stored in Parquet parts below a set, so that no image is read twice.

A part holds the items whose hash begins with its number, up to 2000 on average. Its file is replaced as a whole. Where
two builds scan at once, the later file stays; if they listed different items, the build whose file was replaced asks to
be run again. A damaged file is scanned again, and what others may have written is checked before anything uses it.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pandas.util import hash_array

from querytruth.array_types import Hashes
from querytruth.backends.files.parquet_files import read_checked, read_parquet, read_parquet_schema, write_checked
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.images import image_quality, image_views, source_names
from querytruth.backends.images import image_reading as images
from querytruth.backends.images.image_reading import TRANSIENT_REASONS, ScannedImage, decode_image, describe_images
from querytruth.backends.images.image_sources import FileState, ImageSource, RefusedItem, read_file_state
from querytruth.backends.images.worker_processes import finish_in_workers
from querytruth.backends.images.worker_starts import WorkerFailure
from querytruth.errors import UserError, translate_write_errors
from querytruth.records import SCANNED_IMAGES_SCHEMA, image_ids_of_bytes, stable_hash

SCAN_VERSION = 8  # goes up whenever the same file would give another row
_MOST = 2000  # items in a part, on average
_LEAST_PARTS = 16  # a small album uses all cores, too
_ABANDONED = 24 * 3600  # seconds after which an incomplete file counts as that of a build that ended
_IMAGE_ID = pa.field("image_id", pa.string())  # made of the digest, a third as long
_NAME = re.compile(r"(\d+)-of-(\d+)\.parquet")

_ReadImages = Callable[[Iterable[str]], Iterator[ScannedImage | WorkerFailure]]
MAX_PART_BYTES = 256 << 20
_FORMS = {  # ids, which become parts of paths, are made of sha256; reasons stand in the ledger
    "sha256": "^[0-9a-f]{64}$",
    "pixels": "^[0-9a-f]{32,64}$",
    "head": "^[0-9a-f]{0,64}$",
    "format": "^[A-Z0-9]{1,16}$",
    "taken_at": "^[0-9T:.+Z-]{1,40}$",
    "reason": "^[a-z_]{1,64}$",
}
_LIMITS = {"width": (1, 1 << 17), "height": (1, 1 << 17), "orientation": (1, 8)}
_OF_READ_IMAGES = ["sha256", "pixels", "width", "height", "format"]
_LENGTHS = {"views": image_views.VIEW_BYTES, "details": 1 + image_quality.DETAIL_SIDE**2}  # bytes


@dataclass(frozen=True, slots=True, eq=False)
class ScanPartJob:
    """One part of a scan: its items, their source, and the file of their rows."""

    source: ImageSource
    items: pa.StringArray
    folder: Path
    number: int
    parts: int

    @property
    def path(self) -> Path:
        """Return the part's file."""
        return self.folder / f"{self.number:05}-of-{self.parts:05}.parquet"


def scan_store_folder(set_folder: Path) -> Path:
    """Return the folder for rows of this version of the reader, of its limits and of its decoders. Raises UserError
    where it is a link: a received set may hold one."""
    limits = [images.FORMATS, images.MAX_PIXELS, images.MAX_FILE_BYTES]
    settings = json.dumps(
        [SCAN_VERSION, SCANNED_IMAGES_SCHEMA.to_string(), version("pillow"), version("pillow-heif"), limits]
    )
    name = f".scan/{hashlib.sha256(settings.encode()).hexdigest()[:16]}"
    return contained_path(set_folder, name, "scan images")


def plan_scan_parts(source: ImageSource, items: pa.Array, folder: Path) -> list[ScanPartJob]:
    """Return a job per part that has items. An item's part depends only on the item and on the number of parts (a power
    of two)."""
    parts = _LEAST_PARTS
    while len(items) > _MOST * parts:
        parts *= 2
    shift = 64 - (parts.bit_length() - 1)
    numbers = np.fromiter((stable_hash(item) >> shift for item in _texts(items)), np.int64, len(items))
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(parts + 1))
    return [
        ScanPartJob(source, items.take(pa.array(order[first:last])).cast(pa.string()), folder, number, parts)
        for number, (first, last) in enumerate(pairwise(bounds))
        if first < last
    ]


def _texts(items: pa.Array) -> Iterator[str]:
    for start in range(0, len(items), 1 << 13):
        yield from items.slice(start, 1 << 13).to_pylist()


def read_images_in_workers(locations: Iterable[str]) -> Iterator[ScannedImage | WorkerFailure]:
    """Read images in a worker process. Yields a WorkerFailure for each image that the worker fails over."""
    return finish_in_workers(decode_image, describe_images, locations)


def scan_part(
    job: ScanPartJob,
    advance: Callable[[int], None] = lambda _count: None,
    *,
    rescan: bool = False,
    read: _ReadImages = read_images_in_workers,
) -> Path:
    """Update a part and return its file. Rows of unchanged files stay (unless `rescan`); the other files are read.

    `advance` receives numbers of finished items. The file is written only if it changes. Raises UserError where it
    cannot be written.
    """
    own = read_checked(job.path)
    known = _KnownRows([] if rescan else [own] if own is not None else _other_layouts(job, SCANNED_IMAGES_SCHEMA.names))
    current: list[int] = []
    rows: list[dict[str, Any]] = []
    wanted: list[tuple[str, str, FileState | None]] = []
    items = job.items.to_pylist()
    for item, location in zip(items, job.source.locate_all(items), strict=True):
        if isinstance(location, RefusedItem):
            rows.append(_empty_row(item, location))
            continue
        state = read_file_state(location) if item in known.rows or source_names.is_url(location) else None
        if isinstance(state, RefusedItem):
            rows.append(_empty_row(item, state))
        elif state is not None and known.is_current(item, state):
            current.append(known.rows[item])
        else:
            wanted.append((item, location, state if source_names.is_url(location) else None))
    advance(len(current) + len(rows))
    for (item, _, state), scanned in zip(wanted, read(location for _, location, _ in wanted), strict=True):
        rows.append(_empty_row(item, scanned) if isinstance(scanned, WorkerFailure) else _row(item, scanned, state))
        advance(1)
    unchanged = known.table.take(pa.array(current, pa.int64()))
    table = pa.concat_tables([unchanged, pa.Table.from_pylist(rows, SCANNED_IMAGES_SCHEMA)]).sort_by("item")
    if own is None or not table.equals(own):
        with translate_write_errors("scan images", job.folder, "then run again: results so far are kept"):
            write_checked(job.path, table)
    return job.path


class _KnownRows:
    """The stored rows by item."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        self.table = pa.concat_tables([SCANNED_IMAGES_SCHEMA.empty_table(), *tables])
        self.rows = {item: number for number, item in enumerate(self.table["item"].to_pylist())}
        columns = [self.table[name].to_pylist() for name in ("size", "modified", "head")]
        self._states = list(zip(*columns, strict=True))
        self._reasons = self.table["reason"].to_pylist()

    def is_current(self, item: str, facts: FileState) -> bool:
        """Return whether the item's row was read from a file in this state and has no transient reason."""
        number = self.rows.get(item)
        if number is None or (facts.modified is None and not facts.head):  # only its size is known
            return False
        return self._states[number] == facts and self._reasons[number] not in TRANSIENT_REASONS


def count_reusable_rows(jobs: Iterable[ScanPartJob]) -> int:
    """Count the items of the jobs that have a reusable row. Whether their files have changed is not checked."""
    return sum(map(_count_reusable_rows, jobs))


def _count_reusable_rows(job: ScanPartJob) -> int:
    own = read_checked(job.path, ["item", "reason"])
    reusable: set[str] = set()
    for table in [own] if own is not None else _other_layouts(job, ["item", "reason"]):
        rows = zip(table["item"].to_pylist(), table["reason"].to_pylist(), strict=True)
        reusable |= {item for item, reason in rows if reason not in TRANSIENT_REASONS}
    return len(reusable.intersection(job.items.to_pylist()))


def _other_layouts(job: ScanPartJob, columns: Sequence[str]) -> list[pa.Table]:
    """Read the parts that share items with this one in stores of more or fewer parts."""
    others = (path for path in sorted(job.folder.glob("*.parquet")) if path.name != job.path.name)
    tables = [read_checked(path, columns) for path in others if shares_items(job, path.name)]
    return [table for table in tables if table is not None]


def shares_items(job: ScanPartJob, name: str) -> bool:
    """Return whether a file of this name is a part that can have items of the job, in this store or in one of more or
    fewer parts."""
    if not (found := _NAME.fullmatch(name)):
        return False
    number, parts = int(found[1]), int(found[2])
    return number * job.parts < (job.number + 1) * parts and job.number * parts < (number + 1) * job.parts


def _empty_row(item: str, failure: RefusedItem | WorkerFailure) -> dict[str, Any]:
    return {"item": item, "reason": failure.reason, "detail": failure.detail}


def _row(item: str, image: ScannedImage, state: FileState | None) -> dict[str, Any]:
    """Return the row of an image. `state`: the state of a URL before it was read; if it changed meanwhile, the URL is
    read again next time."""
    row = {name: getattr(image, name) for name in SCANNED_IMAGES_SCHEMA.names if name != "item"}
    return row | {"item": item, "reason": image.reason or None} | (state._asdict() if state else {})


def read_scan_parts(jobs: Sequence[ScanPartJob], columns: Sequence[str], rows: object = None) -> pa.Table:
    """Return the chosen columns of all items, sorted by item, or of some rows (k,) of these; `image_id` is accepted as
    a column. Uses the memory of the result plus the largest column. Raises UserError if a part is missing, damaged or
    from another build."""
    schema = pa.schema([_IMAGE_ID if name == "image_id" else SCANNED_IMAGES_SCHEMA.field(name) for name in columns])
    order = pc.sort_indices(pa.chunked_array([job.items for job in jobs], pa.string())).to_numpy().astype(np.uint32)
    order = order if rows is None else order[rows]
    is_wanted = np.zeros(sum(len(job.items) for job in jobs), dtype=bool)
    is_wanted[order] = True
    tables, start = [schema.empty_table()], 0
    for job in jobs:
        wanted, start = is_wanted[start : start + len(job.items)], start + len(job.items)
        part = _read_part(job, columns)
        tables.append(part if wanted.all() else part.filter(pa.array(wanted)))
    whole = pa.concat_tables(tables)
    del tables
    places = pa.array(order if rows is None else (np.cumsum(is_wanted, dtype=np.uint32) - 1)[order])
    ordered = {}
    for name in columns:
        column = whole[name].combine_chunks()
        whole = whole.drop_columns(name)
        ordered[name] = column.take(places)
        del column
        pa.default_memory_pool().release_unused()  # many pieces that are too small to be reused
    return pa.table(ordered, schema)


def hash_column(jobs: Sequence[ScanPartJob], column: str, rows: object) -> Hashes:
    """Return a 64-bit hash of the text that a column has in each of some rows (k,) of the items in order. Raises
    UserError as read_scan_parts does."""
    texts = (_read_part(job, [column])[column].to_numpy(zero_copy_only=False) for job in jobs)
    hashes = [np.empty(0, np.uint64), *(hash_array(some, categorize=False) for some in texts)]
    order = pc.sort_indices(pa.chunked_array([job.items for job in jobs], pa.string())).to_numpy()
    hash_by_row: Hashes = np.concatenate(hashes)[order[rows]]
    return hash_by_row


def _read_part(job: ScanPartJob, columns: Sequence[str]) -> pa.Table:
    stored = ["sha256" if name == "image_id" else name for name in columns]
    table = read_checked(job.path, sorted({"item", *stored}))
    if table is None or not table["item"].combine_chunks().equals(job.items):
        reason = "is missing, damaged or from another build"
        raise UserError("scan images", job.path, reason, "run again: results so far are kept")
    if "image_id" in columns:
        table = table.append_column(_IMAGE_ID, image_ids_of_bytes(table["sha256"]))
    return table.select(columns)


def remove_stale_parts(jobs: Sequence[ScanPartJob]) -> None:
    """Remove files of scans with other parts. Call it when all of `jobs` are done. Raises UserError."""
    paths = {job.path for job in jobs}
    for folder in {job.folder for job in jobs}:
        with translate_write_errors("scan images", folder, "then run again: results so far are kept"):
            for path in folder.iterdir():
                is_part = _NAME.fullmatch(path.name) is not None
                if (is_part and path not in paths) or (not is_part and _age(path) > _ABANDONED):
                    path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def is_sound_part(path: Path) -> bool:
    """Return whether a file is a part of a scan as `scan_part` writes it, with values of the right forms. Reads it
    within the limits of `bounded_parquet`."""
    try:
        if not read_parquet_schema(path).equals(SCANNED_IMAGES_SCHEMA):
            return False
        table = read_parquet(path)
    except (OSError, pa.ArrowException):
        return False
    return read_checked(path, ["item"]) is not None and _has_right_values(table)


def _has_right_values(table: pa.Table) -> bool:
    items, is_read = table["item"].combine_chunks(), pc.is_null(table["reason"])
    if items.null_count or not pc.all(pc.less(items[:-1], items[1:]), min_count=0).as_py():
        return False
    forms = (pc.match_substring_regex(table[name], form) for name, form in _FORMS.items())
    ranges = (
        pc.and_(pc.greater_equal(table[name], low), pc.less_equal(table[name], high))
        for name, (low, high) in _LIMITS.items()
    )
    read = table.filter(is_read)
    return (
        all(pc.all(column, min_count=0).as_py() for column in (*forms, *ranges))
        and not any(read[name].null_count for name in _OF_READ_IMAGES)
        and all(map(image_views.is_thumbnail, _values(table, "thumbnail")))
        and all(len(value) == length for name, length in _LENGTHS.items() for value in _values(table, name))
    )


def _values(table: pa.Table, name: str) -> list[bytes]:
    values: list[bytes] = table[name].drop_null().to_pylist()
    return values
