"""Decodes a set's images for encoders in worker processes, a few in memory at a time."""

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from backends.images.rendering import PixelsJob, run_pixels_job
from backends.workers.worker_processes import map_in_parallel
from flows.steps import Advance, current_run

_AT_ONCE = 256


class DecodedImages:
    """The images that can be decoded, in the jobs' order, once. After the iteration `failures` has reason and detail of
    the others by position."""

    def __init__(self, jobs: Sequence[PixelsJob], advance: Advance) -> None:
        self._jobs, self._advance = jobs, advance
        self.failures: dict[int, tuple[str, str]] = {}

    def __iter__(self) -> Iterator[Image.Image]:
        for start in range(0, len(self._jobs), _AT_ONCE):
            jobs = self._jobs[start : start + _AT_ONCE]
            images = map_in_parallel(run_pixels_job, jobs, min(current_run().workers, len(jobs)))
            for number, decoded in enumerate(images, start=start):
                self._advance(1)
                if isinstance(decoded, np.ndarray):
                    yield Image.fromarray(decoded)
                else:
                    self.failures[number] = decoded
