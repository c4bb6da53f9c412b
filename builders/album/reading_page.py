"""The page of texts to confirm: each text that was read without certainty, beside its place in the photo."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.album.steps import read_fact_table
from querytruth.backends.files.durable_files import write_page
from querytruth.backends.images.image_sources import open_source
from querytruth.backends.images.rendering import PixelsJob, run_pixels_job
from querytruth.backends.images.text_reading import READING_SIDE
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.review.page_parts import PAGE_TEXTS, embed_jpeg, render_template

_MAX_READINGS = 500  # of a page, which then has about 4 MB; those that a person decided make room for others
_CROP_SIZE = 480, 160  # pixels at most


def write_reading_page(page: Path, folder: Path, facts: Path, language: str) -> Path:
    """Write and return the page of the readings of a table that wait for a person, in its order. Raises UserError."""
    waiting = [(number, row) for number, row in enumerate(read_fact_table(facts), 2) if row.is_unconfirmed]
    shown = waiting[:_MAX_READINGS]
    names = list(dict.fromkeys(row.image for _, row in shown))
    located = zip(names, open_source(str(folder)).locate_all(names), strict=True)
    jobs = {name: PixelsJob(place, READING_SIDE, None) for name, place in located if isinstance(place, str)}
    crops: dict[int, str] = {}
    for name, pixels in zip(jobs, map_in_workers(run_pixels_job, jobs.values()), strict=True):
        if isinstance(pixels, np.ndarray):
            crops |= {number: crop_region(pixels, row.region) for number, row in shown if row.image == name}
    rows = [{"number": number, "crop": crops.get(number), **row._asdict()} for number, row in shown]
    texts = PAGE_TEXTS["readings"][language]
    html = render_template(
        "readings_page.html", t=texts, language=language, name=facts.name, rows=rows, count=len(waiting)
    )
    write_page(page, html)
    return page


def crop_region(pixels: NDArray[np.uint8], region: str) -> str:
    """Return the part of an image around a region, with half of the region's height on each side, for a page."""
    height, width = pixels.shape[:2]
    left, top, across, down = np.array(region.split(), float) * (width, height, width, height)
    edge = down / 2 + 2
    box = max(left - edge, 0), max(top - edge, 0), min(left + across + edge, width), min(top + down + edge, height)
    crop, out = Image.fromarray(pixels).crop(box), io.BytesIO()  # Pillow rounds
    crop.thumbnail(_CROP_SIZE)
    crop.save(out, "JPEG")
    return embed_jpeg(out.getvalue())
