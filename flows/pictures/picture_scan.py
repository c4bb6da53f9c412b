"""Pictures read, in parts: by worker processes that may die, and never twice while a file stays what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from backends.sources import scan_parts
from backends.sources.picture_sources import Source
from builders.records import PANDAS_TYPES, SCANNED, image_ids_of_bytes
from flows.steps import Advance, current, each_part, step


@dataclass(frozen=True, slots=True)
class ScannedPictures:
    """What was read of every item, on disk. A step takes the columns that it looks at, and no more: all of them for
    a million pictures at once would take a gigabyte. `carried` is what a table said of the pictures, row by row."""

    jobs: list[scan_parts.PartJob]
    carried: pa.Table | None = None

    def frame(self, columns: Sequence[str], rows: Any = None) -> pd.DataFrame:
        """Columns of SCANNED, of what a table said (which counts only where the file says nothing itself), and
        image_id; of all items in their order, or of some rows."""
        wanted = {"sha256" if name == "image_id" else name for name in columns} & set(SCANNED.names)
        table = scan_parts.read_parts(self.jobs, sorted(wanted))
        carried = self.carried if self.carried is not None else pa.table({})
        for name in sorted(set(carried.column_names) & set(columns)):
            said = carried[name]
            if name in wanted:
                kept = pc.coalesce(table[name], said.cast(table.schema.field(name).type))
                table = table.set_column(table.schema.get_field_index(name), name, kept)
            else:
                table = table.append_column(name, said)
        if rows is not None:
            table = table.filter(pa.array(rows)) if np.asarray(rows).dtype == bool else table.take(pa.array(rows))
        frame = table.to_pandas(types_mapper=PANDAS_TYPES.get)
        del table
        pa.default_memory_pool().release_unused()
        if "image_id" in columns:
            frame["image_id"] = image_ids_of_bytes(frame["sha256"])
        return frame[[name for name in columns if name in frame.columns]]

    def codes(self, column: str, rows: Any) -> Any:
        """A number per row, the same where the column's texts are: a tenth of the memory where only that matters."""
        texts = scan_parts.read_parts(self.jobs, [column])[column].take(pa.array(rows)).combine_chunks()
        numbers = texts.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        del texts
        pa.default_memory_pool().release_unused()
        return numbers

    def digest(self) -> str:
        """Of the input: every item with the digest of its bytes, where it could be read."""
        whole = hashlib.sha256()
        table = scan_parts.read_parts(self.jobs, ["item", "sha256"])
        for batch in table.to_batches(max_chunksize=1 << 14):
            for item, sha256 in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                whole.update(f"{len(item)} {item} {sha256}\n".encode())
        return whole.hexdigest()


@step("scan pictures")
def scan_pictures(source: Source, items: pa.Array, folder: Path, carried: pa.Table | None = None) -> ScannedPictures:
    """Read every item, which are sorted, that was not read before; parts are kept below the set's `folder`."""
    jobs = scan_parts.plan_parts(source, items, scan_parts.store_folder(folder.absolute()))
    work = partial(_scan_part, current().rescan)
    each_part("scan pictures", work, jobs, len(items), "pictures")
    scan_parts.remove_stale(jobs)
    return ScannedPictures(jobs, carried)


def count_known(source: Source, items: pa.Array, folder: Path) -> int:
    """How many of the items have been read before; whether they have changed since is not asked."""
    jobs = scan_parts.plan_parts(source, items, scan_parts.store_folder(folder.absolute()))
    return sum(scan_parts.count_known(job) for job in jobs)


def _scan_part(rescan: bool, job: scan_parts.PartJob, advance: Advance) -> None:
    scan_parts.scan_part(job, advance, rescan=rescan)
