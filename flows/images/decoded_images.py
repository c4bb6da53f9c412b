"""Decodes a set's images for encoders in worker processes, a few in memory at a time."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image

from backends.images.rendering import PixelsJob, run_pixels_job
from backends.workers.worker_processes import WorkerFailure, map_in_workers
from flows.steps import Advance, current_run

_AT_ONCE = 256


class DecodedImages:
    """The images that can be decoded, in the jobs' order, once. After the iteration `faults` has the others: position,
    reason and detail."""

    def __init__(self, jobs: Sequence[PixelsJob], advance: Advance) -> None:
        self._jobs, self._advance = jobs, advance
        self.failures: dict[int, tuple[str, str]] = {}

    def __iter__(self) -> Iterator[Image.Image]:
        for start in range(0, len(self._jobs), _AT_ONCE):
            for number, decoded in enumerate(_decode_in_workers(self._jobs[start : start + _AT_ONCE]), start=start):
                self._advance(1)
                if isinstance(decoded, np.ndarray):
                    yield Image.fromarray(decoded)
                else:
                    self.failures[number] = (
                        (decoded.reason, decoded.detail) if isinstance(decoded, WorkerFailure) else decoded
                    )


def _decode_in_workers(jobs: Sequence[PixelsJob]) -> list[Any]:
    """Gives each thread a worker process and an equal share of the images."""
    workers = max(1, min(current_run().workers, len(jobs)))
    decoded: list[Any] = [None] * len(jobs)

    def work(first: int) -> None:
        decoded[first::workers] = map_in_workers(run_pixels_job, jobs[first::workers])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return decoded
