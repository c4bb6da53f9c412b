"""What a whole gallery build costs besides decoding: on many images that are so small that all else is measured.

    python benchmarks/gallery_at_scale.py [--count 20000]

Builds a gallery of a quarter, a half and all of --count images, twice each: the second time nothing is new. Seconds
are of processor time, worker processes included, and by the clock; memory is that of the largest process. The growth
from size to size, carried on in a straight line, says what ten million images would take; what decoding them takes
comes on top (benchmarks/gallery.py says how long). All of it is below TMPDIR: 4 GB for a million images alone.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, Popen

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

IMAGES_PER_FOLDER = 1000  # images
MAX_IMAGES = 10_000_000
COMMAND = "import sys; from querytruth.cli.app import main; sys.exit(main())"


@dataclass(frozen=True, slots=True)
class GalleryBuildCost:
    """Of one build: wall and processor seconds, peak memory of its largest process in MB, MB on disk afterwards."""

    images: int
    seconds: float
    processor: float
    memory: float
    disk: float


def write_folder(root: Path, start: int) -> None:
    """A thousand images of 48 x 48: noise so coarse that its perceptual hash is as random as the noise."""
    folder = root / f"{start // IMAGES_PER_FOLDER:05}"
    folder.mkdir(parents=True)
    noise = np.random.default_rng(start).integers(0, 256, (IMAGES_PER_FOLDER, 9, 9, 3), dtype=np.uint8)
    for number, pixels in enumerate(noise, start):
        data = io.BytesIO()
        Image.fromarray(pixels).resize((48, 48), Image.Resampling.BICUBIC).save(data, "JPEG", quality=60)
        (folder / f"{number:08}.jpg").write_bytes(data.getvalue())


def build(images: Path, out: Path, count: int) -> GalleryBuildCost:
    """One whole build by the command line, from start to exit."""
    keys = {"images": images, "out": out, "render": "null"}
    program = [sys.executable, "-c", COMMAND, "build", "gallery", "--in-process"]
    program += [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    start = time.perf_counter()
    process = Popen(program, stdout=DEVNULL, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])})
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit("the build failed")
    return GalleryBuildCost(count, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, on_disk(out) / 1e6)


def on_disk(folder: Path) -> int:
    """Bytes that the files below take; the set, and what is kept for the next build."""
    return sum(os.lstat(Path(root, name)).st_blocks * 512 for root, _, names in os.walk(folder) for name in names)


def measure_sizes(count: int, home: Path, console: Console) -> list[tuple[GalleryBuildCost, GalleryBuildCost]]:
    """A first and a second build of each size, each size with a store of its own."""
    images, costs, written = home / "images", [], 0
    for share in (4, 2, 1):
        size = max(IMAGES_PER_FOLDER, count // share // IMAGES_PER_FOLDER * IMAGES_PER_FOLDER)
        with ProcessPoolExecutor() as pool:
            list(pool.map(partial(write_folder, images), range(written, size, IMAGES_PER_FOLDER)))
        written = size
        first, second = (build(images, home / f"out{size}", size) for _ in range(2))
        console.print(f"{size:,} images: {first.seconds:.0f} s, again {second.seconds:.0f} s", style="dim")
        costs.append((first, second))
    return costs


def report(costs: list[tuple[GalleryBuildCost, GalleryBuildCost]]) -> Table:
    """A row per build, and one for what each further image adds, carried on to ten million."""
    table = Table(title="A whole gallery build, tiny images, nothing rendered")
    for column in ("images", "", "seconds", "of a core", "ms an image", "peak MB", "MB on disk"):
        table.add_column(column, justify="left" if not column else "right")
    for name, builds in zip(("first", "again"), zip(*costs, strict=True), strict=True):
        for cost in builds:
            table.add_row(
                f"{cost.images:,}",
                name,
                f"{cost.seconds:.1f}",
                f"{cost.processor:.1f}",
                f"{cost.processor / cost.images * 1e3:.2f}",
                f"{cost.memory:.0f}",
                f"{cost.disk:.1f}",
            )
        hours, memory, disk = (growth(builds, figure) for figure in ("processor", "memory", "disk"))
        table.add_row(
            f"{MAX_IMAGES:,}",
            f"{name}, carried on",
            "",
            f"{hours / 3600:.1f} hours",
            "",
            f"{memory / 1e3:.1f} GB",
            f"{disk / 1e3:.1f} GB",
            end_section=True,
        )
    return table


def growth(builds: tuple[GalleryBuildCost, ...], figure: str) -> float:
    """The figure at ten million images, on the straight line that fits the sizes measured best."""
    slope, start = np.polyfit([cost.images for cost in builds], [getattr(cost, figure) for cost in builds], 1)
    return float(start + slope * MAX_IMAGES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    given = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as home:
        console.print(report(measure_sizes(given.count, Path(home), console)))


if __name__ == "__main__":
    main()
