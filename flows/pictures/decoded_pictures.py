"""A set's pictures as encoders look at them: decoded by worker processes, a few in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image

from backends.pictures.isolated import Lost, each_isolated
from backends.pictures.rendering import PixelsJob, pixels_job
from flows.steps import Advance, current

_AT_ONCE = 256


class DecodedPictures:
    """The pictures that can be shown, in the jobs' order, once. `faults` has the others when all have been drawn: by
    place, reason and detail."""

    def __init__(self, jobs: Sequence[PixelsJob], advance: Advance) -> None:
        self._jobs, self._advance = jobs, advance
        self.faults: dict[int, tuple[str, str]] = {}

    def __iter__(self) -> Iterator[Image.Image]:
        for start in range(0, len(self._jobs), _AT_ONCE):
            for number, found in enumerate(_decoded(self._jobs[start : start + _AT_ONCE]), start=start):
                self._advance(1)
                if isinstance(found, np.ndarray):
                    yield Image.fromarray(found)
                else:
                    self.faults[number] = (found.reason, found.detail) if isinstance(found, Lost) else found


def _decoded(jobs: Sequence[PixelsJob]) -> list[Any]:
    """Each thread has a worker process, and every so-manieth picture."""
    workers = max(1, min(current().workers, len(jobs)))
    found: list[Any] = [None] * len(jobs)

    def work(first: int) -> None:
        found[first::workers] = each_isolated(pixels_job, jobs[first::workers])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return found
