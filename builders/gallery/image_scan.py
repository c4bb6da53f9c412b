"""Scan images in parts, here or on workers that share only a bucket, and never twice while a file is unchanged.

Each part is read in worker processes that may die. Images that people want despite a rule are also handled here.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from querytruth.array_types import RowIndices
from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.images import scan_parts
from querytruth.backends.images.image_folder import ImageFolder, folder_words
from querytruth.backends.images.image_headers import sniff_format
from querytruth.backends.images.image_sources import ImageSource
from querytruth.backends.images.scan_parts import ScanPartJob
from querytruth.backends.images.source_names import decode_item, encode_item
from querytruth.backends.steps import current_run, map_parts, step
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.records import ARROW_TO_PANDAS_TYPES, SCANNED_IMAGES_SCHEMA
from querytruth.sets import kept_scan_parts
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.decision_records import Override
from querytruth.sets.kept_work import KeptObject, KeptObjects

_STAGE = "scan images"
_ROUNDS = 3  # in each, what was stored and cannot be read is scanned again
_DIGESTED_AT_ONCE = 1 << 21  # images: each time all parts are read
_UNREADABLE_REASON = "the image is missing or cannot be read"
_DUPLICATE_REASON = "it is grouped with a duplicate: mark the two as different under Duplicates"


def kept_scan_folder(work: BucketFolder, jobs: Sequence[ScanPartJob]) -> BucketFolder:
    """Return the location of the parts of these jobs in the bucket: by the settings of the scan, as on disk."""
    return work.below(f"scan/{jobs[0].folder.name}")


def scan_in_bucket(jobs: Sequence[ScanPartJob], work: BucketFolder) -> None:
    """Scan every item that neither the bucket, below `work`, nor this machine has; afterwards each job's file is here.
    Raises UserError."""
    folder = kept_scan_folder(work, jobs)
    objects, run = KeptObjects(folder), current_run()
    stored = objects.list_kept()
    stored = [*kept_scan_parts.store_local_parts(objects, jobs, stored), *stored]
    missing, kept = list(jobs), set[str]()
    for _ in range(_ROUNDS):
        kept_jobs = kept_scan_parts.plan_kept_jobs(missing, folder, stored)
        items = sum(len(job.items) for job in missing)
        found = map_parts(
            _STAGE, partial(kept_scan_parts.scan_kept_part, rescan=run.rescan), kept_jobs, items, "images"
        )
        kept |= {one.name for one in found}
        with translate_write_errors(_STAGE, jobs[0].folder, "then run again: the images read so far are kept"):
            missing = kept_scan_parts.fetch_scanned_parts(objects, missing, found)
        if not missing:
            remove_superseded(objects, [one for one in stored if one.name not in kept])
            return
    reason = f"returned different bytes than were stored for {len(missing)} parts"
    raise UserError(_STAGE, folder, reason, "check the service, then run the same command")


def remove_superseded(objects: KeptObjects, stored: Sequence[KeptObject]) -> None:
    """Remove those of the objects that no build under way can need; where that is not allowed, it is logged."""
    try:
        objects.remove_superseded(stored)
    except UserError as error:
        current_run().reporter.log(f"superseded files remain in the bucket ({error.reason})")


@dataclass(frozen=True, slots=True)
class ScannedImages:
    """The scan of every item, on disk. A step loads only the columns that it needs: all of them for a million images
    would take a gigabyte. `source_columns` has what a source table states about the images, row by row."""

    jobs: list[scan_parts.ScanPartJob]
    source_columns: pa.Table | None = None

    def to_frame(self, columns: Sequence[str], rows: object = None) -> pd.DataFrame:
        """Return columns of SCANNED_IMAGES_SCHEMA, of the source table (used only where the file itself has no value),
        and image_id: of all items in order, or of some rows."""
        wanted = set(columns) & {"image_id", *SCANNED_IMAGES_SCHEMA.names}
        table = scan_parts.read_scan_parts(self.jobs, sorted(wanted), rows)
        source_columns = self.source_columns if self.source_columns is not None else pa.table({})
        for name in sorted(set(source_columns.column_names) & set(columns)):
            source_values = source_columns[name] if rows is None else _choose(source_columns[name], rows)
            if name in wanted:
                merged = pc.coalesce(table[name], source_values.cast(table.schema.field(name).type))
                table = table.set_column(table.schema.get_field_index(name), name, merged)
            else:
                table = table.append_column(name, source_values)
        frame = table.to_pandas(types_mapper=ARROW_TO_PANDAS_TYPES.get)
        del table
        pa.default_memory_pool().release_unused()
        return frame[[name for name in columns if name in frame.columns]]

    def factorize_column(self, column: str, rows: object) -> Any:
        """Return a number per row, equal where the texts of the column are equal; a row without one has its own. Texts
        are compared where their 64-bit hashes are equal: all digests of ten million images would take gigabytes."""
        codes = pd.factorize(scan_parts.hash_column(self.jobs, column, rows))[0].astype(np.int32)
        is_shared = np.bincount(codes)[codes] > 1
        texts = self.to_frame([column], np.asarray(rows)[is_shared])[column]
        distinct = pd.factorize(texts)[0]
        codes[is_shared] = len(codes) + np.where(distinct < 0, len(codes) + np.arange(len(distinct)), distinct)
        return codes

    def digest(self) -> str:
        """Return the digest of the input: every item with the digest of its bytes, where it could be read."""
        whole, count = hashlib.sha256(), sum(len(job.items) for job in self.jobs)
        for start in range(0, count, _DIGESTED_AT_ONCE):
            rows = np.arange(start, min(start + _DIGESTED_AT_ONCE, count))
            table = scan_parts.read_scan_parts(self.jobs, ["item", "sha256"], rows)
            for batch in table.to_batches(max_chunksize=1 << 14):
                for item, sha256 in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    whole.update(f"{len(item)} {item} {sha256}\n".encode())
        return whole.hexdigest()


def _choose(column: pa.ChunkedArray, rows: object) -> pa.ChunkedArray:
    return column.filter(pa.array(rows)) if np.asarray(rows).dtype == bool else column.take(pa.array(rows))


@step("scan images")
def scan_images(
    source: ImageSource, items: pa.Array, folder: Path, source_columns: pa.Table | None = None
) -> ScannedImages:
    """Scan every item that was not scanned before. `items` are sorted; parts are stored below the set's `folder`."""
    jobs = scan_parts.plan_scan_parts(source, items, scan_parts.scan_store_folder(folder.absolute()))
    run = current_run()
    if run.work is not None and jobs:
        scan_in_bucket(jobs, run.work)
    else:
        work = partial(scan_parts.scan_part, rescan=run.rescan)
        map_parts("scan images", work, jobs, len(items), "images")
    scan_parts.remove_stale_parts(jobs)
    return ScannedImages(jobs, source_columns)


def find_listed_images(root: Path, lists: Sequence[Sequence[str]], places: Sequence[Path]) -> list[list[Path | str]]:
    """Return, per list and name, the file below `root`, or the reason why there is none. `places`: the files of the
    lists, whose names show which folder is meant if several contain an image of one name.

    Raises UserError if `root` is not a folder.
    """
    if not root.is_dir():
        raise UserError("scan images", root, "is not a folder", "fix `images` in the definition, or remove it")
    nears = [folder_words(place.stem) for place in places]
    folders = [place.absolute().parent.name for place in places]
    if len(set(folders)) > 1:  # train/_annotations.coco.json; a folder of all of them tells nothing apart
        nears = [near | folder_words(folder) for near, folder in zip(nears, folders, strict=True)]
    return ImageFolder(root).find_all(lists, nears)


def scan_listed_images(root: Path, names: Iterable[str], folder: Path) -> pd.DataFrame:
    """Return a row per listed name: the scan of its file below `root`, or the `reason` why there is none.

    Raises UserError if `root` is not a folder.
    """
    (found,) = find_listed_images(root, [list(names)], [root])
    return scan_found_images(root, found, folder)


def list_other_images(root: Path, found: Iterable[Path | str], skip: Path) -> list[str]:
    """Return the names, in order, of the images below `root` but not below `skip`, without the files `found`."""
    known = {os.path.realpath(file) for file in found if isinstance(file, Path)}
    place, home = str(root.absolute()), os.path.realpath(root)
    items = sorted(ImageSource(place, "folder", place, str(skip)).list_items().items.to_pylist())
    paths = [os.path.realpath(f"{home}/{os.fsdecode(decode_item(item))}") for item in items]
    return [item for item, path in zip(items, paths, strict=True) if path not in known and _is_image(Path(path))]


def _is_image(path: Path) -> bool:
    with translate_read_errors(_STAGE, path, "grant read permission"), path.open("rb") as file:
        return sniff_format(file.read(64)) is not None


def scan_found_images(root: Path, files: Sequence[Path | str], folder: Path) -> pd.DataFrame:
    """Return a row per image: the scan of its file below `root`, or the `reason` why there is none."""
    table = scan_listed_files(root, [file if isinstance(file, Path) else None for file in files], folder)
    missing = pd.Series([None if isinstance(file, Path) else file for file in files], dtype="str")
    return table.assign(reason=table["reason"].fillna(missing))


def scan_listed_files(root: Path, files: Sequence[Path | None], folder: Path) -> pd.DataFrame:
    """Return a row per file below `root`: its scan, `item` and `path`; empty if there are no files."""
    items = [None if file is None else encode_item(os.fsencode(file.relative_to(root))) for file in files]
    distinct = pa.array(sorted({item for item in items if item is not None}), pa.string())
    place = str(root.absolute())
    scanned = scan_images(ImageSource(place, "folder", place), distinct, folder).to_frame(SCANNED_IMAGES_SCHEMA.names)
    table = scanned.set_index("item").reindex(pd.Index(items, dtype="object")).reset_index(drop=True)
    paths = pd.Series([None if file is None else str(file.absolute()) for file in files], dtype="object")
    return table.assign(path=paths, item=pd.Series(items, dtype="object"))


def count_scanned(source: ImageSource, items: pa.Array, folder: Path) -> int:
    """Count the items that were scanned before, without checking whether they changed since."""
    jobs = scan_parts.plan_scan_parts(source, items, scan_parts.scan_store_folder(folder.absolute()))
    if (work := current_run().work) is not None and jobs:
        return kept_scan_parts.count_kept_rows(jobs, kept_scan_folder(work, jobs))
    return scan_parts.count_reusable_rows(jobs)


@dataclass(frozen=True, slots=True)
class OverriddenImages:
    """The overrides of readable images. `rows`: by image_id, all scanned rows of that image (several may have the same
    bytes); `overrides`: those of all images."""

    rows: Mapping[str, RowIndices]
    overrides: Mapping[str, Override]

    def is_overridden(self, rows: RowIndices) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each row whether a person overrides the rejection of its image."""
        return np.isin(rows, np.concatenate([[], *self.rows.values()]).astype(np.int64))

    def decision_outcome(self, chosen: RowIndices) -> DecisionOutcome:
        """Return which overrides take effect when the rows `chosen` are selected, and why the others do not."""
        applied = {item for item, rows in self.rows.items() if np.isin(rows, chosen).any()}
        stale = [
            (override, _DUPLICATE_REASON if item in self.rows else _UNREADABLE_REASON)
            for item, override in self.overrides.items()
            if item not in applied
        ]
        return DecisionOutcome([self.overrides[item] for item in sorted(applied)], stale)


def find_overridden_images(
    images: ScannedImages, readable: RowIndices, overrides: Mapping[str, Override]
) -> OverriddenImages:
    """Return the overrides on images, with the rows of those images among the `readable` ones."""
    image_overrides = {item: override for item, override in overrides.items() if item.startswith("img_")}
    if not image_overrides:  # saves the ids of a million images
        return OverriddenImages({}, {})
    ids = images.to_frame(["image_id"], readable)["image_id"]
    overridden_rows = readable[ids.isin(list(image_overrides)).to_numpy()]
    overridden_ids = images.to_frame(["image_id"], overridden_rows)["image_id"].to_numpy(dtype=object)
    return OverriddenImages(
        {str(name): overridden_rows[overridden_ids == name] for name in np.unique(overridden_ids)}, image_overrides
    )
