"""Renders the images of a set once, in parts, and links them into each version.

A part is rendered on this machine, or on workers that share nothing with it but a bucket. The files that a chat model
is shown are looked up here, each of them intact.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from builders.gallery.image_scan import remove_superseded
from querytruth.backends.files.bucket import map_at_once
from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.files.durable_files import file_sha256, open_task_folder, task_root
from querytruth.backends.files.safe_paths import contained_file, contained_path
from querytruth.backends.images import worker_processes
from querytruth.backends.images.rendering import RenderJob, read_rendered_size, run_render_job
from querytruth.backends.images.source_names import is_url
from querytruth.backends.models.chat import ChatImage
from querytruth.backends.steps import Advance, current_run, map_parts, open_transfer_bar, step
from querytruth.definitions import RenderOptions
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.sets import benchmark_set, kept_scan_parts, kept_work, ledger
from querytruth.sets.set_files import read_intact_digests, read_recorded_digests, record_digests

_IMAGES_A_PART = 1000
_MIN_PARTS = 16  # a small album, too, keeps all cores busy
_RECORD_EVERY = 64  # images: after kill -9, at most these of each part are rendered again
RenderFault: TypeAlias = tuple[str, str] | None  # reason and detail; None: it was rendered
_STAGE = "render images"
_ROUNDS = 3  # in each, what was stored and cannot be read is rendered again


class RenderPartJob(NamedTuple):
    """An image of a part: its source and the sha256 of that (None: unknown), the file to write, and the digests that an
    intact file there may have."""

    location: str
    sha256: str | None
    target: str
    intact: frozenset[str]


def render_all(jobs: Sequence[RenderPartJob], render: RenderOptions) -> list[RenderFault]:
    """Return per image None, or why it could not be rendered. Raises UserError for what is not the image's fault."""
    work = partial(render_part, render.size, render.mode)
    done = map_parts("render images", work, split_into_parts(jobs), len(jobs), "images")
    return [fault for part in done for fault in part]


def split_into_parts(jobs: Sequence[RenderPartJob]) -> list[list[RenderPartJob]]:
    """Return the jobs of each task, in order."""
    size = max(1, min(_IMAGES_A_PART, len(jobs) // _MIN_PARTS))
    return [list(jobs[start : start + size]) for start in range(0, len(jobs), size)]


def render_part(
    size: int, mode: str, jobs: list[RenderPartJob], advance: Advance, *, writable: Path | None = None
) -> list[RenderFault]:
    """Return per image None, or why it could not be rendered (the work of one task). Intact files are not changed.
    `writable`: a folder around that of the files, None: that folder; a worker process serves one such folder."""
    failures: list[RenderFault] = [None] * len(jobs)
    folder = Path(jobs[0].target).parents[2]
    written: list[tuple[str, str]] = []
    try:
        unrendered = [number for number, job in enumerate(jobs) if not is_intact(Path(job.target), job.intact)]
        advance(len(jobs) - len(unrendered))
        wanted = [
            RenderJob(job.location, job.target, size, mode, job.sha256) for job in map(jobs.__getitem__, unrendered)
        ]
        folder.mkdir(parents=True, exist_ok=True)
        results = worker_processes.map_in_workers(run_render_job, wanted, writable=writable or folder)
        try:
            for number, result in zip(unrendered, results, strict=True):
                if isinstance(result, str):
                    written.append((Path(jobs[number].target).relative_to(folder).as_posix(), result))
                else:
                    failures[number] = (result[0], result[1])
                if len(written) >= _RECORD_EVERY:
                    record_digests(folder, written)
                    written = []
                advance(1)
        finally:
            record_digests(folder, written)
    except OSError as error:
        place = error.filename or folder
        next_step = "fix that, then run the same command: the images rendered so far are kept"
        raise UserError("render images", place, error.strerror or str(error), next_step) from None
    return failures


def is_intact(file: Path, digests: frozenset[str]) -> bool:
    """Return whether the file is there and has one of the digests."""
    try:
        return bool(digests) and file_sha256(file)[0] in digests
    except FileNotFoundError:
        return False


def render_in_bucket(
    jobs: Sequence[RenderPartJob], render: RenderOptions, rendered_folder: Path, work: BucketFolder
) -> list[RenderFault]:
    """Return per image None, or why it could not be rendered. Files of `rendered_folder` that are not intact come from
    the bucket, below `work`; tasks render what it lacks. Raises UserError."""
    images = KeptImages(work.below(f"rendered/{rendered_folder.name}"), render, rendered_folder)
    faults: list[RenderFault] = [None] * len(jobs)
    paths = [Path(job.target).relative_to(rendered_folder).as_posix() for job in jobs]
    missing = [number for number, job in enumerate(jobs) if not is_intact(Path(job.target), job.intact)]
    if missing:
        placed = images.fetch_stored([paths[number] for number in missing])
        missing = [number for number in missing if paths[number] not in placed]
    for _ in range(_ROUNDS):
        if not missing:
            return faults
        found, packs = images.render([jobs[number]._replace(target=paths[number]) for number in missing])
        for number, fault in zip(missing, found, strict=True):
            faults[number] = fault
        placed = images.fetch(packs)
        missing = [number for number in missing if faults[number] is None and paths[number] not in placed]
    if not missing:
        return faults
    reason = f"returned different bytes than were stored for {len(missing):,} images"
    raise UserError(_STAGE, images.folder, reason, "check the service, then run the same command")


class KeptImages:
    """The rendered images of one size and mode in a folder of a bucket, and the folder here that gets them."""

    def __init__(self, folder: BucketFolder, render: RenderOptions, rendered_folder: Path) -> None:
        """Connect to nothing yet."""
        self.folder, self._render, self._rendered_folder = folder, render, rendered_folder
        self._objects = kept_work.KeptObjects(folder)

    def fetch_stored(self, paths: Sequence[str]) -> set[str]:
        """Get the images that the bucket has, and return their paths. Raises UserError."""
        packs, abandoned = kept_work.read_packs(self._objects)
        remove_superseded(self._objects, abandoned)
        return self.fetch(kept_work.choose_packs(packs, paths))

    def fetch(self, packs: Sequence[kept_work.ImagePack]) -> set[str]:
        """Get the images of packs, and return the paths of those that are whole. Raises UserError."""
        total = sum(image.size for pack in packs for image in pack.images)
        with (
            open_transfer_bar("read rendered images", total) as advance,
            translate_write_errors(_STAGE, self._rendered_folder),
        ):

            def unpack(pack: kept_work.ImagePack) -> list[tuple[str, str]]:
                options = self._render.size, self._render.mode
                placed = list(kept_work.unpack_images(self._objects, pack, self._rendered_folder, *options))
                if placed:
                    record_digests(self._rendered_folder, placed)
                advance(sum(image.size for image in pack.images))
                return placed

            return {path for placed in map_at_once(unpack, packs) for path, _ in placed}

    def render(self, jobs: Sequence[RenderPartJob]) -> tuple[list[RenderFault], list[kept_work.ImagePack]]:
        """Render the jobs' images as tasks, and return their faults and the packs. Raises UserError."""
        work = partial(_render_kept_part, self.folder, self._render.size, self._render.mode)
        done = map_parts(_STAGE, work, split_into_parts(jobs), len(jobs), "images")
        return [fault for faults, _ in done for fault in faults], [pack for _, pack in done if pack is not None]


def _render_kept_part(
    folder: BucketFolder, size: int, mode: str, jobs: list[RenderPartJob], advance: Advance
) -> tuple[list[RenderFault], kept_work.ImagePack | None]:
    """Work of a task: the faults of images whose `target` is a path in the set, and the pack of the others. Raises
    UserError where none of the sources is on this machine, and where the service fails."""
    if not any(is_url(job.location) or os.path.exists(job.location) for job in jobs):  # noqa: PTH110 - bytes as surrogates
        kept_scan_parts.check_is_here(jobs[0].location)
    objects = kept_work.KeptObjects(folder)
    with open_task_folder() as place:
        rendered = place / "rendered"
        here = [job._replace(target=str(rendered / job.target)) for job in jobs]
        faults = render_part(size, mode, here, advance, writable=task_root())
        paths = [job.target for job, fault in zip(jobs, faults, strict=True) if fault is None]
        return faults, kept_work.store_pack(objects, rendered, paths, place) if paths else None


@step("render images")
def render_images(
    images: pd.DataFrame,
    locations: Sequence[str],
    digests: Sequence[Any],
    render: RenderOptions,
    folder: Path,
) -> tuple[pd.DataFrame, pd.DataFrame, Path]:
    """Render the images that are not rendered yet below the set's `folder`, and those whose file there is damaged.
    `digests`: the sha256 of each location as it was scanned; other bytes are not rendered. Return the images
    (image_id, file_name) with `path` as in the set and their rendered sizes, without those that failed; the ledger's
    rows of these; and the folder of the rendered files."""
    set_paths, rendered_folder = locate_rendered(images["image_id"], render, folder)
    with translate_write_errors("render images", rendered_folder):
        intact = read_recorded_digests(rendered_folder)
    jobs = [
        RenderPartJob(
            location,
            sha256 if isinstance(sha256, str) else None,
            str(rendered_folder / path),
            frozenset(intact.get(path, ())),
        )
        for location, sha256, path in zip(locations, digests, set_paths, strict=True)
    ]
    work = current_run().work
    failures = render_all(jobs, render) if work is None else render_in_bucket(jobs, render, rendered_folder, work)
    failed_images = [(name, *fault) for name, fault in zip(images["file_name"], failures, strict=True) if fault]
    failure_rows = ledger.rejection_table(
        ledger.Rejection(name, "quarantined", reason, detail=detail) for name, reason, detail in failed_images
    )
    is_rendered = np.array([fault is None for fault in failures], dtype=bool)
    rendered = images.assign(path=pd.array(set_paths, dtype="str"))[is_rendered]
    return rendered.assign(**_rendered_sizes(rendered["path"], render, rendered_folder)), failure_rows, rendered_folder


def _rendered_sizes(set_paths: pd.Series, render: RenderOptions, folder: Path) -> dict[str, pd.Series]:
    """Return the rendered columns of the images table: without values where `render` alone gives the size."""
    if benchmark_set.is_square_mode(render.mode):
        sizes: list[tuple[int | None, int | None]] = [(None, None)] * len(set_paths)
    else:
        sizes = [read_rendered_size(folder / path) for path in set_paths]
    columns = zip(benchmark_set.RENDERED_SIZE_COLUMNS, zip(*sizes, strict=True) if sizes else [(), ()], strict=True)
    return {name: pd.Series(values, set_paths.index, dtype="Int32") for name, values in columns}


def render_every_image(
    images: pd.DataFrame, digests: Sequence[Any], render: RenderOptions, folder: Path
) -> tuple[pd.DataFrame, Path]:
    """Return the images table with every image of `path` rendered, and the folder of the rendered files.

    Raises UserError if one cannot be rendered: all of these images are judged, so none may be left out.
    """
    rendered, failures, rendered_folder = render_images(images, list(images["path"]), digests, render, folder)
    if len(failures):
        first = failures.iloc[0]
        reason = f"{first['reason']} ({first['detail']}), the first of {len(failures)} failures"
        raise UserError("render images", first["item"], reason, "fix or remove the file, then run again")
    return rendered, rendered_folder


def locate_rendered(image_ids: pd.Series, render: RenderOptions, folder: Path) -> tuple[list[str], Path]:
    """Return the paths of the images within a set, and the folder below the set's own that stores them. Raises
    UserError where that is a link."""
    rendered_folder = contained_path(folder.absolute(), f".rendered/{render.size}-{render.mode}", "render images")
    return [f"images/{image_id[4:6]}/{image_id}.jpg" for image_id in image_ids], rendered_folder


@step("look up images")
def load_shown_images(images: pd.DataFrame, folder: Path | None) -> list[ChatImage]:
    """Return the image files for a chat model, sorted by id. Raises UserError for a file that is damaged, or is not
    the one that was scanned."""
    images, next_step = images.sort_values("image_id"), "restore the file, or build the gallery again"
    intact = read_intact_digests(folder) if folder is not None else None
    columns = [images[name] for name in ("image_id", "path", "file_name", "sha256")]
    with current_run().reporter.bar("look up images", len(images), "images") as advance:
        shown = []
        for image_id, image_path, name, scanned in zip(*columns, strict=True):
            path = Path(image_path) if folder is None else contained_file(folder, image_path, "look up images")
            with translate_read_errors("look up images", path, next_step):
                digest = file_sha256(path)[0]
            if intact is not None and digest not in intact.get(image_path, ()):
                raise UserError("look up images", path, "is damaged: its checksum differs", next_step)
            if folder is None and isinstance(scanned, str) and digest != scanned:
                raise UserError("look up images", path, "changed since it was scanned", next_step)
            shown.append(ChatImage(path, digest, name if isinstance(name, str) else "", image_id))
            advance(1)
    return shown
