"""How the project scans and renders a gallery; each way runs in a process of its own.

    python benchmarks/gallery_ours.py WAY FOLDER [--keep FOLDER]

Prints one line of JSON, as benchmarks/gallery_peers.py does; or a list of perceptual hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from gallery_timing import Figures, images_in, measure_call, measure_each, peak_mb, process_each, processor_seconds

SIDE = 512


def scan_alone(files: list[Path]) -> Figures:
    from querytruth.backends.images.image_reading import read_image

    count_good([read_image(path) for path in files[:3]])
    return measure_call(lambda: process_each(read_image, files))


def scan_isolated(files: list[Path], workers: int = 1) -> Figures:
    """As a build does it: a thread per worker, each with its share of the images; the workers have started."""
    from querytruth.backends.images.image_reading import decode_image, describe_images
    from querytruth.backends.images.worker_processes import finish_in_workers

    scan = partial(finish_in_workers, decode_image, describe_images)
    for results in [scan(files[:3]) for _ in range(workers)]:
        count_good(list(results))
    # Long enough that the clock shows the work and not the threads that start.
    shares = [files[number::workers] * 12 for number in range(workers)]
    workers_before, before, wall = processor_seconds_of_children(), processor_seconds(), time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        counts = list(pool.map(lambda share: count_good(list(scan(share))), shares))
    seconds, processor = time.perf_counter() - wall, processor_seconds() - before
    processor += processor_seconds_of_children() - workers_before
    worker = max(peak_mb(child) for child in child_processes())
    return {"images": sum(counts), "seconds": seconds, "processor": processor, "peak": peak_mb(), "worker": worker}


def scan_floor(files: list[Path]) -> Figures:
    """What no scan can leave out: read the file, sha256, the checksum of all codes, decode at the scan's scale."""
    from querytruth.backends.images.jpeg_files import checksum_coded_data, decode_reduced, read_plain_jpeg_header

    def work(path: Path) -> None:
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        if (header := read_plain_jpeg_header(data)) is None:
            sys.exit(f"not a plain JPEG: {path}")
        checksum_coded_data(data, header.layers, header.coded_from, header.tables)
        decode_reduced(data, header)

    return measure_each(work, files, None)


def render(files: list[Path], keep: Path | None = None) -> Figures:
    from querytruth.backends.images.rendering import render_image

    return measure_each(lambda path: render_image(path.read_bytes(), SIDE, "squash"), files, keep)


def hashes(files: list[Path], at_full_scale: bool = False) -> list[int]:
    """The perceptual hash of each; at full scale the decoder is not let to leave out what it may."""
    from PIL import JpegImagePlugin

    from querytruth.backends.images.image_reading import read_image
    from querytruth.backends.images.image_views import read_views

    if at_full_scale:
        JpegImagePlugin.JpegImageFile.draft = lambda *_: None  # type: ignore[method-assign]
    return [int(row[0]) for row in read_views([read_image(path).views for path in files]).hashes]


def count_good(images: list[Any]) -> int:
    for image in images:
        if image.reason:
            sys.exit(f"not a good image: {image}")
    return len(images)


def child_processes() -> Iterator[int]:
    """The processes that this one started and that still run."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except FileNotFoundError:  # ended meanwhile
            continue
        if parent == os.getpid():
            yield int(stat.parent.name)


def processor_seconds_of_children() -> float:
    """Seconds of processor time of those that still run; the kernel counts to the nanosecond."""
    runs = [f"/proc/{child}/schedstat" for child in child_processes()]
    return sum(int(Path(run).read_text(encoding="ascii").split()[0]) for run in runs) / 1e9


WAYS: dict[str, Callable[[list[Path]], Any]] = {
    "scan_alone": scan_alone,
    "scan_floor": scan_floor,
    "scan_isolated": scan_isolated,
    "scan_isolated_twice": partial(scan_isolated, workers=2),
    "hashes": hashes,
    "hashes_at_full_scale": partial(hashes, at_full_scale=True),
    "render": render,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", type=Path, help="where `render` leaves its images")
    given = parser.parse_args()
    options = {"keep": given.keep} if given.keep else {}
    print(json.dumps(WAYS[given.way](images_in(given.folder), **options)))


if __name__ == "__main__":
    main()
