"""Parts of a scan in a bucket: scanned on workers that share only the bucket, and read by the build.

    FOLDER/<number>-of-<parts>/<sha256>.parquet

A worker reads the earlier part, if there is one, works in a folder of its own, and stores what changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from querytruth.backends.files.bucket import map_at_once
from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.files.durable_files import file_sha256, open_task_folder
from querytruth.backends.files.parquet_files import read_checked
from querytruth.backends.images import scan_parts
from querytruth.backends.images.scan_parts import MAX_PART_BYTES, is_sound_part
from querytruth.backends.images.source_names import is_url
from querytruth.backends.steps import open_transfer_bar
from querytruth.errors import UserError
from querytruth.sets.kept_work import KeptObject, KeptObjects

_STAGE = "scan images"
_KIND = "parquet"
_MOST_TRIED = 3  # stored parts of one name: more than one where builds ran at once


@dataclass(frozen=True, slots=True, eq=False)
class KeptScanJob:
    """One part of a scan whose rows are kept in a folder of a bucket: the job, whose own folder means nothing on the
    worker, and the stored objects that may have its rows, the most likely ones first."""

    job: scan_parts.ScanPartJob
    folder: BucketFolder
    earlier: tuple[KeptObject, ...]


def plan_kept_jobs(
    jobs: Sequence[scan_parts.ScanPartJob], folder: BucketFolder, stored: Sequence[KeptObject]
) -> list[KeptScanJob]:
    """Return the jobs with what is `stored` in the folder, the newest first, that may have their rows."""
    by_label: dict[str, list[KeptObject]] = {}
    for one in stored:
        by_label.setdefault(one.label, []).append(one)
    planned = []
    for job in jobs:
        earlier = by_label.get(job.path.stem, [])[:_MOST_TRIED] or [
            objects[0]
            for label, objects in sorted(by_label.items())
            if scan_parts.shares_items(job, f"{label}.{_KIND}")
        ]
        planned.append(KeptScanJob(replace(job, folder=Path()), folder, tuple(earlier)))
    return planned


def scan_kept_part(
    kept_job: KeptScanJob, advance: Callable[[int], None] = lambda _count: None, *, rescan: bool = False
) -> KeptObject:
    """Work of a task: updates a part as `scan_part` does, and stores it. Raises UserError where the source cannot be
    seen from here, and where the service fails."""
    check_is_here(kept_job.job.source.base)
    objects = KeptObjects(kept_job.folder)
    with open_task_folder() as place:
        job = replace(kept_job.job, folder=place)
        earlier = _fetch_earlier(objects, kept_job.earlier, job)
        scan_parts.scan_part(job, advance, rescan=rescan)
        if earlier is not None and file_sha256(job.path)[0] == earlier.sha256:
            return earlier
        return objects.store(job.path, _KIND, job.path.stem)


def check_is_here(location: str) -> None:
    """Raise UserError where a local file or folder is not on this machine."""
    if not is_url(location) and not Path(location).exists():
        reason = "is not on this machine, which does part of the build"
        raise UserError(_STAGE, location, reason, "put the images into a bucket, or where all workers see them")


def _fetch_earlier(
    objects: KeptObjects, earlier: Sequence[KeptObject], job: scan_parts.ScanPartJob
) -> KeptObject | None:
    """Put the earlier part next to the job's own, and return it where it has the same name; otherwise those of
    other names that share its items."""
    for one in earlier:
        path = job.folder / f"{one.label}.{_KIND}"
        if objects.fetch(one, path, MAX_PART_BYTES, is_sound_part) and path == job.path:
            return one
    return None


def store_local_parts(
    objects: KeptObjects, jobs: Sequence[scan_parts.ScanPartJob], stored: Sequence[KeptObject]
) -> list[KeptObject]:
    """Store the parts that an earlier build left on this machine and that the bucket lacks, and return them."""
    known = {one.label for one in stored}
    new = [job for job in jobs if job.path.stem not in known and read_checked(job.path, ["item"]) is not None]
    return list(map_at_once(lambda job: objects.store(job.path, _KIND, job.path.stem), new))


def fetch_scanned_parts(
    objects: KeptObjects, jobs: Sequence[scan_parts.ScanPartJob], kept: Sequence[KeptObject]
) -> list[scan_parts.ScanPartJob]:
    """Put each job's part into its file; files that have its bytes already stay. Return the jobs whose part is gone,
    damaged or of another build. Raises UserError and OSError."""
    pairs = list(zip(jobs, kept, strict=True))
    with open_transfer_bar("read parts", sum(one.size for one in kept)) as advance:

        def fetch(pair: tuple[scan_parts.ScanPartJob, KeptObject]) -> bool:
            job, one = pair
            is_here = job.path.is_file() and file_sha256(job.path)[0] == one.sha256
            is_whole = (is_here or objects.fetch(one, job.path, MAX_PART_BYTES, is_sound_part)) and _has_items(job)
            advance(one.size)
            return is_whole

        return [job for (job, _), is_whole in zip(pairs, map_at_once(fetch, pairs), strict=True) if not is_whole]


def _has_items(job: scan_parts.ScanPartJob) -> bool:
    table: pa.Table | None = read_checked(job.path, ["item"])
    return table is not None and table["item"].combine_chunks().equals(job.items)


def count_kept_rows(jobs: Sequence[scan_parts.ScanPartJob], folder: BucketFolder) -> int:
    """Count the items of the jobs that have a reusable row in the bucket; nothing is kept here. Raises UserError."""
    objects = KeptObjects(folder)
    planned = plan_kept_jobs(jobs, folder, objects.list_kept())

    def count(kept_job: KeptScanJob) -> int:
        with open_task_folder() as place:
            job = replace(kept_job.job, folder=place)
            _fetch_earlier(objects, kept_job.earlier, job)
            return scan_parts.count_reusable_rows([job])

    return sum(map_at_once(count, planned))
