"""What scanning and rendering a gallery cost, beside what people would do it with otherwise.

    python benchmarks/gallery.py [--peers-python PYTHON] [--photos FOLDER] [--images 240] [--runs 3]

The peers need other versions of what the project needs, so they live in an environment of their own:

    python -m venv .peers
    .peers/bin/pip install torch==2.13.0
    .peers/bin/pip install imagehash simplejpeg 'pyvips[binary]' cleanvision img2dataset scikit-learn PyWavelets
    .peers/bin/pip install --no-deps imagededup
    python benchmarks/gallery.py --peers-python .peers/bin/python

(torch and imagededup in steps of their own: imagededup asks for torchvision, which has no wheel for every build of
torch, and its hashes do without.) Each way runs in a process of its own, kept to one core unless it says otherwise, in
turn, so often as --runs says. `per core` is images per second of processor time, worker processes included, start
and imports apart; `per second` is by the clock and suffers from whatever else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from gallery_ours import WAYS
from gallery_peers import INSTALL
from gallery_timing import Figures, images_in
from jpeg_album import write_album
from PIL import Image
from rich.console import Console
from rich.table import Table

DISTANCE = 6
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VIPS_CONCURRENCY", "NO_ALBUMENTATIONS_UPDATE"), "1"
)
WORKER_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}  # as builds set it
SCAN = {
    "imagededup_phash": "imagededup PHash (no EXIF, no digest)",
    "cleanvision_duplicates": "cleanvision duplicates (no EXIF)",
    "pillow_imagehash": "Pillow, full decode, imagehash",
    "pyvips_eighth": "pyvips at 1/8, own hash",
    "pillow_draft_imagehash": "Pillow draft, imagehash",
    "opencv_reduced": "OpenCV reduced, own hash",
    "simplejpeg_eighth": "simplejpeg at 1/8, own hash",
    "limit_scan": "limit: libjpeg-turbo at 1/8, nothing else",
    "scan_floor": "floor: read, sha256, checksum of codes, decode at ours' scale",
    "scan_alone": "ours, one process, not isolated",
    "scan_isolated": "ours, isolated, 1 worker",
    "scan_isolated_twice": "ours, isolated, 2 workers on 2 cores",
}
RENDER = {
    "pillow_lanczos": "Pillow, LANCZOS",
    "img2dataset_resizer": "img2dataset's resizer (crop)",
    "pyvips_thumbnail": "pyvips thumbnail",
    "pillow_draft": "Pillow draft, LANCZOS",
    "opencv_reduced_render": "OpenCV reduced",
    "simplejpeg_opencv": "simplejpeg, OpenCV",
    "limit_render": "limit: libjpeg-turbo decodes and encodes, nothing else",
    "render": "ours",
}
OTHER_PARTS = {"pillow_lanczos", "img2dataset_resizer", "limit_render"}  # the model itself, and those that cut out

# ---- the comparison


def measure(way: str, folder: Path, peers: str, keep: Path | None = None) -> Any:
    """Run one way in a process of its own."""
    here, cores = Path(__file__).parent, os.sched_getaffinity(0)
    program = [sys.executable, here / "gallery_ours.py"] if way in WAYS else [peers, here / "gallery_peers.py"]
    # Not for the peers: the project's datasets/ would pass for Hugging Face's package.
    found_from = {"PYTHONPATH": str(here.parent)} if way in WAYS else {}
    kept = WORKER_MEMORY if way == "render" else {}
    answer = subprocess.run(
        [*map(str, program), way, str(folder), *(["--keep", str(keep)] if keep else [])],
        capture_output=True,
        text=True,
        env=os.environ | ONE_THREAD | found_from | kept,
        preexec_fn=partial(os.sched_setaffinity, 0, cores if way.endswith("twice") else {max(cores)}),
    )
    if answer.returncode:
        sys.exit(f"{way} failed:\n{answer.stderr}")
    return json.loads(answer.stdout)


def measure_all(folder: Path, peers: str, runs: int, console: Console) -> dict[str, Figures]:
    """The median of each figure; what is missing is left out, and said."""
    costs: dict[str, list[Figures]] = {way: [] for way in (*SCAN, *RENDER)}
    for run in range(runs):
        for way in list(costs):
            figures = measure(way, folder, peers)
            if "missing" in figures:
                line = INSTALL.get(str(figures["missing"]), "")
                console.print(f"{figures['missing']} is not installed: measured without {way}. {line}", markup=False)
                del costs[way]
                continue
            costs[way].append(figures)
            per_core = figures["images"] / figures["processor"]
            console.print(f"{run + 1}/{runs} {way}: {per_core:.0f} images/s a core", style="dim")
    return {way: median_figures(found) for way, found in costs.items()}


def median_figures(runs: list[Figures]) -> Figures:
    rates = [one | {"core": one["images"] / one["processor"], "wall": one["images"] / one["seconds"]} for one in runs]
    return {key: median(one[key] for one in rates) for key in rates[0]}


def comparison_table(
    costs: dict[str, Figures], ways: dict[str, str], ours: str, title: str, like: dict[str, list[float]] | None = None
) -> Table:
    """`like`: SSIM by way and image."""
    table = Table(title=title)
    for column in ("way", "per core", "ours is", "per second", "MB at most", *(("SSIM", "worst") if like else ())):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way, description in ways.items():
        if cost := costs.get(way):
            memory = f"{cost['peak']:.0f}" + (f" + {cost['worker']:.0f} a worker" if "worker" in cost else "")
            ratio = costs[ours]["core"] / cost["core"]
            alike = [f"{mean(like[way]):.4f}", f"{min(like[way]):.3f}"] if like and way in like else []
            table.add_row(description, f"{cost['core']:.0f}", f"{ratio:.2f} x", f"{cost['wall']:.0f}", memory, *alike)
        else:
            table.add_row(description, "not installed", "", "", "")
    return table


# ---- the targets


def targets(costs: dict[str, Figures], alike: list[float], folder: Path, peers: str) -> Table:
    table = Table(title="Targets")
    for column in ("what", "is", "target", ""):
        table.add_column(column)

    def row(what: str, value: float | None, target: float, at_most: bool = False) -> None:
        if value is None:
            return table.add_row(what, "not measured", f"{target:g}", "")
        reached = value <= target if at_most else value >= target
        target_text = f"{'at most' if at_most else 'at least'} {target:g}"
        return table.add_row(what, f"{value:.3g}", target_text, "reached" if reached else "MISSED")

    def ratio(ours: str, peer: str, figure: str = "core") -> float | None:
        return costs[ours][figure] / costs[peer][figure] if peer in costs else None

    row("scan, isolated: times imagededup", ratio("scan_isolated", "imagededup_phash"), 6)
    row("scan, isolated: times Pillow and imagehash", ratio("scan_isolated", "pillow_imagehash"), 5)
    row("scan, isolated: share of the limit", ratio("scan_isolated", "limit_scan"), 0.75)
    row("scan: MB of a worker", costs["scan_isolated"]["worker"], 150, at_most=True)
    row("scan: times one worker, with two, by the clock", ratio("scan_isolated_twice", "scan_isolated", "wall"), 1.8)
    row("render: times Pillow LANCZOS", ratio("render", "pillow_lanczos"), 2)
    row("render: times img2dataset's resizer", ratio("render", "img2dataset_resizer"), 1)
    row("render: times simplejpeg and OpenCV", ratio("render", "simplejpeg_opencv"), 0.9)
    row("render: likeness to Pillow LANCZOS (worst SSIM)", min(alike), 0.99)
    row("scan: share of a full decode's near-duplicates", neighbour_agreement(folder, peers), 1)
    return table


def neighbour_agreement(folder: Path, peers: str) -> float:
    """Pairs within 6 bits that the hashes of a scan and those of a full decode both find, of all that either finds."""
    reduced, full = (neighbours(measure(way, folder, peers)) for way in ("hashes", "hashes_at_full_scale"))
    return len(reduced & full) / max(1, len(reduced | full))


def neighbours(hashes: list[int | None]) -> set[tuple[int, int]]:
    known = [(number, value) for number, value in enumerate(hashes) if value is not None]
    return {(a, b) for (a, one), (b, other) in combinations(known, 2) if (one ^ other).bit_count() <= DISTANCE}


def likenesses(folder: Path, ways: Iterable[str], peers: str) -> dict[str, list[float]]:
    """By way the SSIM of each image that it renders with that of Pillow's LANCZOS, both as JPEG of quality 90."""
    with tempfile.TemporaryDirectory() as kept:
        for way in ("pillow_lanczos", *ways):
            Path(kept, way).mkdir()
            measure(way, folder, peers, Path(kept, way))
        exact = {path.name: read_grey(path) for path in images_in(Path(kept, "pillow_lanczos"))}
        return {way: [ssim(exact[path.name], read_grey(path)) for path in images_in(Path(kept, way))] for way in ways}


def read_grey(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("L"), float)


def ssim(one: np.ndarray, other: np.ndarray) -> float:
    """Structural similarity (Wang et al., 2004) of two grey images, over windows of 8 x 8, each weighing the same."""
    small, large = (0.01 * 255) ** 2, (0.03 * 255) ** 2

    def local(values: np.ndarray) -> np.ndarray:
        summed = np.pad(values, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
        return (summed[8:, 8:] - summed[:-8, 8:] - summed[8:, :-8] + summed[:-8, :-8]) / 64

    a, b = local(one), local(other)
    spread = local(one * one) - a * a + local(other * other) - b * b
    joint = local(one * other) - a * b
    index = (2 * a * b + small) * (2 * joint + large) / ((a * a + b * b + small) * (spread + large))
    return float(index.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files (*.jpg) in place of the album drawn")
    parser.add_argument("--images", type=int, default=240, help="how many the album has, near-duplicates apart")
    parser.add_argument("--runs", type=int, default=3, help="of which the median is given")
    given = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as drawn:
        folder = given.photos or Path(drawn)
        if not given.photos:
            console.print(f"drawing {given.images} images", style="dim")
            write_album(folder, given.images)
        costs = measure_all(folder, given.peers_python, given.runs, console)
        title = f"{len(images_in(folder))} JPEG files, {format_size(folder)}, median of {given.runs}"
        console.print(comparison_table(costs, SCAN, "scan_isolated", f"Scan: {title}"))
        like = likenesses(
            folder, [way for way in RENDER if way in costs and way not in OTHER_PARTS], given.peers_python
        )
        console.print(comparison_table(costs, RENDER, "render", f"Render to 512 x 512: {title}", like))
        console.print(targets(costs, like["render"], folder, given.peers_python))


def format_size(folder: Path) -> str:
    pixels = data = 0
    for path in images_in(folder):
        with Image.open(path) as image:
            pixels += image.width * image.height
        data += path.stat().st_size
    return f"{pixels / len(images_in(folder)) / 1e6:.1f} megapixels each, {data / pixels:.2f} bytes a pixel"


if __name__ == "__main__":
    main()
