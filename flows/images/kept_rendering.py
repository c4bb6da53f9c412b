"""Renders images on workers that share nothing with this machine but a bucket, and gets them from there."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from backends.file_errors import translate_write_errors
from backends.images.rendered_digests import record_digests
from backends.object_storage.image_packs import ImagePack, choose_packs, read_packs, store_pack, unpack_images
from backends.object_storage.kept_objects import KeptObjects, map_at_once
from backends.object_storage.kept_scan_parts import check_is_here
from backends.object_storage.set_urls import BucketFolder
from backends.object_storage.transfer_bars import open_transfer_bar
from backends.sources.source_names import is_url
from backends.task_folders import open_task_folder, task_root
from builders.errors import UserError
from flows.definitions import RenderOptions
from flows.images.kept_scan import remove_superseded
from flows.images.render_parts import RenderFault, RenderPartJob, is_intact, render_part, split_into_parts
from flows.steps import Advance, map_parts

_STAGE = "render pictures"
_ROUNDS = 3  # in each, what was stored and cannot be read is rendered again


def render_in_bucket(
    jobs: Sequence[RenderPartJob], render: RenderOptions, rendered_folder: Path, work: BucketFolder
) -> list[RenderFault]:
    """Returns per image None, or why it could not be rendered. Files of `rendered_folder` that are not intact come from
    the bucket, below `work`; what it lacks is rendered by tasks. Raises UserError."""
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
    reason = f"gives back other bytes than it got, for {len(missing):,} pictures"
    raise UserError(_STAGE, images.folder, reason, "check the service, then run the same command")


class KeptImages:
    """The rendered images of one size and mode in a folder of a bucket, and the folder here that gets them."""

    def __init__(self, folder: BucketFolder, render: RenderOptions, rendered_folder: Path) -> None:
        """Connects to nothing yet. Raises UserError as Bucket does."""
        self.folder, self._render, self._rendered_folder = folder, render, rendered_folder
        self._objects = KeptObjects(folder)

    def fetch_stored(self, paths: Sequence[str]) -> set[str]:
        """Gets the images that the bucket has, and returns their paths. Raises UserError."""
        packs, abandoned = read_packs(self._objects)
        remove_superseded(self._objects, abandoned)
        return self.fetch(choose_packs(packs, paths))

    def fetch(self, packs: Sequence[ImagePack]) -> set[str]:
        """Gets the images of packs, and returns the paths of those that are whole. Raises UserError."""
        total = sum(image.size for pack in packs for image in pack.images)
        with (
            open_transfer_bar("read rendered pictures", total) as advance,
            translate_write_errors(_STAGE, self._rendered_folder),
        ):

            def unpack(pack: ImagePack) -> list[tuple[str, str]]:
                options = self._render.size, self._render.mode
                placed = list(unpack_images(self._objects, pack, self._rendered_folder, *options))
                if placed:
                    record_digests(self._rendered_folder, placed)
                advance(sum(image.size for image in pack.images))
                return placed

            return {path for placed in map_at_once(unpack, packs) for path, _ in placed}

    def render(self, jobs: Sequence[RenderPartJob]) -> tuple[list[RenderFault], list[ImagePack]]:
        """Renders the jobs' images as tasks, and returns their faults and the packs. Raises UserError."""
        work = partial(_render_kept_part, self.folder, self._render.size, self._render.mode)
        done = map_parts(_STAGE, work, split_into_parts(jobs), len(jobs), "pictures")
        return [fault for faults, _ in done for fault in faults], [pack for _, pack in done if pack is not None]


def _render_kept_part(
    folder: BucketFolder, size: int, mode: str, jobs: list[RenderPartJob], advance: Advance
) -> tuple[list[RenderFault], ImagePack | None]:
    """Work of a task: the faults of images whose `target` is a path in the set, and the pack of the others. Raises
    UserError where none of the sources is on this machine, and where the service fails."""
    if not any(is_url(job.location) or os.path.exists(job.location) for job in jobs):  # noqa: PTH110 - bytes as surrogates
        check_is_here(jobs[0].location)
    objects = KeptObjects(folder)
    with open_task_folder() as place:
        rendered = place / "rendered"
        here = [job._replace(target=str(rendered / job.target)) for job in jobs]
        faults = render_part(size, mode, here, advance, writable=task_root())
        paths = [job.target for job, fault in zip(jobs, faults, strict=True) if fault is None]
        return faults, store_pack(objects, rendered, paths, place) if paths else None
