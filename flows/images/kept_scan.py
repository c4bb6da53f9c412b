"""Scans images on workers that share nothing with this machine but a bucket, and gets their parts from there."""

from collections.abc import Sequence
from functools import partial

from backends.file_errors import translate_write_errors
from backends.object_storage.kept_objects import KeptObject, KeptObjects
from backends.object_storage.kept_scan_parts import (
    fetch_scanned_parts,
    plan_kept_jobs,
    scan_kept_part,
    store_local_parts,
)
from backends.object_storage.set_urls import BucketFolder
from backends.sources.scan_parts import ScanPartJob
from builders.errors import UserError
from flows.steps import current_run, map_parts

_STAGE = "scan pictures"
_ROUNDS = 3  # in each, what was stored and cannot be read is scanned again


def kept_scan_folder(work: BucketFolder, jobs: Sequence[ScanPartJob]) -> BucketFolder:
    """Returns where the parts of these jobs lie in the bucket: by the settings of the scan, as on disk."""
    return work.below(f"scan/{jobs[0].folder.name}")


def scan_in_bucket(jobs: Sequence[ScanPartJob], work: BucketFolder) -> None:
    """Scans every item that neither the bucket, below `work`, nor this machine has; afterwards each job's file is here.
    Raises UserError."""
    folder = kept_scan_folder(work, jobs)
    objects, run = KeptObjects(folder), current_run()
    stored = objects.list()
    stored = [*store_local_parts(objects, jobs, stored), *stored]
    missing, kept = list(jobs), set[str]()
    for _ in range(_ROUNDS):
        kept_jobs = plan_kept_jobs(missing, folder, stored)
        items = sum(len(job.items) for job in missing)
        found = map_parts(_STAGE, partial(scan_kept_part, rescan=run.rescan), kept_jobs, items, "pictures")
        kept |= {one.name for one in found}
        with translate_write_errors(_STAGE, jobs[0].folder, "then run again: what was read is kept"):
            missing = fetch_scanned_parts(objects, missing, found)
        if not missing:
            remove_superseded(objects, [one for one in stored if one.name not in kept])
            return
    reason = f"gives back other bytes than it got, for {len(missing)} parts"
    raise UserError(_STAGE, folder, reason, "check the service, then run the same command")


def remove_superseded(objects: KeptObjects, stored: Sequence[KeptObject]) -> None:
    """Removes those of the objects that no build under way can need; where that is not allowed, it is logged."""
    try:
        objects.remove_superseded(stored)
    except UserError as error:
        current_run().reporter.log(f"what is superseded stays in the bucket ({error.reason})")
