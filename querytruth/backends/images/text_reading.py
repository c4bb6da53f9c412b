"""Lines of text in images, read by RapidOCR (extra `ocr`): Chinese and English.

Its wheel contains the weights (PP-OCRv6, Apache-2.0). A worker process opens no socket, so that nothing is downloaded.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np

from querytruth.array_types import FloatArray
from querytruth.backends.images.rendering import PixelsJob, run_pixels_job
from querytruth.backends.images.worker_processes import WorkerFailure, WorkerLimits, map_in_parallel
from querytruth.backends.steps import Advance
from querytruth.errors import UserError

READING_SIDE = 1600  # pixels of the longer side at most: the detector's time grows with the area
_LIMITS = WorkerLimits(seconds=120, memory=2 << 30)
_TOGETHER = 32  # images that a progress bar advances by

TextLine = tuple[str, str, float]
"""A text, its region (left, top, width and height as shares of the upright image), and the confidence, 0 to 1."""


def read_texts(
    locations: Sequence[str], workers: int, bar: AbstractContextManager[Advance]
) -> Iterator[list[TextLine] | str]:
    """Yield the lines of each image, or why it cannot be read. Raises UserError without the extra `ocr`."""
    if not (find_spec("rapidocr") and find_spec("onnxruntime")):
        raise UserError("read texts", "texts", "needs the extra ocr", "pip install 'querytruth[ocr]'")
    jobs = (PixelsJob(location, READING_SIDE, None) for location in locations)
    with bar as advance:
        while batch := list(islice(jobs, _TOGETHER)):
            for found in map_in_parallel(read_lines, batch, workers, _LIMITS):
                yield found.reason if isinstance(found, WorkerFailure) else found
            advance(len(batch))


def read_lines(job: PixelsJob) -> list[TextLine] | str:
    """Work for a worker process: return the lines of an image, the most certain first, or why it cannot be read."""
    pixels = run_pixels_job(job)
    if isinstance(pixels, tuple):
        return pixels[1]
    reader = _load_reader()
    try:
        found = reader(pixels[:, :, ::-1])  # as OpenCV has colours: blue first
    except Exception as error:  # of an odd image: all others are read
        return f"the text reader failed ({type(error).__name__})"
    lines = zip(found.txts or (), found.boxes if found.txts else (), found.scores or (), strict=True)
    read = [
        (" ".join(text.split()), _find_region(box, pixels.shape), round(float(sure), 2)) for text, box, sure in lines
    ]
    return sorted((line for line in read if sum(map(str.isalnum, line[0])) > 1), key=lambda line: -line[2])


def _find_region(corners: FloatArray, shape: tuple[int, ...]) -> str:
    """Return the upright box around four corners (x, y) in pixels."""
    shares = np.clip(corners / (shape[1], shape[0]), 0, 1)
    low, high = shares.min(axis=0), shares.max(axis=0)
    return " ".join(f"{side:.4g}" for side in (*low, *(high - low)))


@cache
def _load_reader() -> Any:
    from rapidocr import RapidOCR

    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "critical", **threads})
