"""JPEG thumbnails for a page, made in worker processes, in all small enough to be mailed."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.workers.worker_processes import WorkerLimits, map_in_workers

ImageKey = TypeVar("ImageKey")
THUMBNAIL_LIMITS = WorkerLimits(seconds=30)  # a person waits for the page
_SIDES = {150: 320, 300: 240, 600: 176}  # largest number of images: the longer side of each
_SMALLEST = (128, 96, 72)
_MAX_TOTAL_BYTES = 3_500_000  # of all thumbnails; base64 and the text keep the page below 5 MB
_MAX_PROCESSES = min(4, os.cpu_count() or 1)


def make_thumbnails(locations: Mapping[ImageKey, str]) -> dict[ImageKey, bytes]:
    """Returns a JPEG per readable file, as large as the limit for all of them allows. Files that crash the decoder or
    take over 30 seconds are left out."""
    thumbnails: dict[ImageKey, bytes] = {}
    first = [side for most, side in _SIDES.items() if len(locations) <= most]
    for side in (*first[:1], *_SMALLEST):
        jobs = [ThumbnailJob(location, side) for location in locations.values()]
        rendered = zip(locations, _render_parallel(jobs), strict=True)
        thumbnails = {key: data for key, data in rendered if isinstance(data, bytes)}
        if sum(map(len, thumbnails.values())) <= _MAX_TOTAL_BYTES:
            break
        locations = {key: location for key, location in locations.items() if key in thumbnails}
    return thumbnails


def _render_parallel(jobs: list[ThumbnailJob]) -> list[Any]:
    """Each thread uses one worker process and takes every n-th image."""
    rendered: list[Any] = [None] * len(jobs)

    def work(first: int) -> None:
        own = slice(first, None, _MAX_PROCESSES)
        rendered[own] = map_in_workers(run_thumbnail_job, jobs[own], THUMBNAIL_LIMITS)

    with ThreadPoolExecutor(_MAX_PROCESSES) as pool:
        list(pool.map(work, range(_MAX_PROCESSES)))
    return rendered
