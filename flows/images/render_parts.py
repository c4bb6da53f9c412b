"""Renders images in parts: as tasks on this machine, or on workers that share nothing with it but a bucket."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from backends.durable_files import file_sha256
from backends.images.rendered_digests import record_digests
from backends.images.rendering import RenderJob, run_render_job
from backends.workers import worker_processes
from builders.errors import UserError
from flows.definitions import RenderOptions
from flows.steps import Advance, map_parts

_IMAGES_A_PART = 1000
_MIN_PARTS = 16  # a small album, too, keeps all cores busy
_RECORD_EVERY = 64  # images: after kill -9, at most these of each part are rendered again
RenderFault: TypeAlias = tuple[str, str] | None  # reason and detail; None: it was rendered


class RenderPartJob(NamedTuple):
    """An image of a part: its source and the sha256 of that (None: unknown), the file to write, and the digests that an
    intact file there may have."""

    location: str
    sha256: str | None
    target: str
    intact: frozenset[str]


def render_all(jobs: Sequence[RenderPartJob], render: RenderOptions) -> list[RenderFault]:
    """Returns per image None, or why it could not be rendered. Raises UserError for what is not the image's fault."""
    work = partial(render_part, render.size, render.mode)
    done = map_parts("render pictures", work, split_into_parts(jobs), len(jobs), "pictures")
    return [fault for part in done for fault in part]


def split_into_parts(jobs: Sequence[RenderPartJob]) -> list[list[RenderPartJob]]:
    """Returns the jobs of each task, in order."""
    size = max(1, min(_IMAGES_A_PART, len(jobs) // _MIN_PARTS))
    return [list(jobs[start : start + size]) for start in range(0, len(jobs), size)]


def render_part(
    size: int, mode: str, jobs: list[RenderPartJob], advance: Advance, *, writable: Path | None = None
) -> list[RenderFault]:
    """Work of a task: returns per image None, or why it could not be rendered. Intact files are left as they are.
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
        next_step = "fix that, then run the same command: what was rendered is kept"
        raise UserError("render pictures", place, error.strerror or str(error), next_step) from None
    return failures


def is_intact(file: Path, digests: frozenset[str]) -> bool:
    """Whether the file is there and has one of the digests."""
    try:
        return bool(digests) and file_sha256(file)[0] in digests
    except FileNotFoundError:
        return False
