"""What it costs to fetch images from the web with care, beside what people would do it with otherwise.

    python benchmarks/web_fetch.py [--peers-python PYTHON] [--images 2000] [--runs 3]

A server on this machine answers after 5 ms, on one core; each way has the other core to itself, 16 threads, and runs in
turn, so often as --runs says. Once more with one image in ten at fault: who loses what. The peer (img2dataset) lives
in an environment of its own, as benchmarks/gallery.py says. `per core` is images per second of processor time, worker
processes included, start and imports apart.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from jpeg_album import draw_photo
from rich.console import Console
from rich.table import Table
from web_server import UNFETCHABLE_FAULTS, fault_of

HERE = Path(__file__).parent
METHOD_TITLES = {
    "ours": "ours: guards, robots.txt, store, decode check",
    "img2dataset": "img2dataset, decodes, keeps as it is",
    "img2dataset_resize": "img2dataset, resizes to 256",
    "img2dataset_undecoded": "img2dataset, checks nothing",
    "requests": "requests, checks and keeps nothing",
    "sockets": "limit: sockets, check and keep nothing",
}
SIZES = ((640, 480), (800, 600), (1024, 768), (1280, 960), (1600, 1200))  # what a search finds: 1 megapixel on average
TARGET = 2.0  # times img2dataset


def draw(folder: Path, count: int = 60) -> None:
    for number in range(count):
        out = io.BytesIO()
        draw_photo(number, *SIZES[number % len(SIZES)]).save(out, "JPEG", quality=85, subsampling="4:2:0")
        (folder / f"{number:03}.jpg").write_bytes(out.getvalue())


def measure(way: str, url: str, count: int, peers: str, core: int) -> dict[str, float] | str:
    """The figures, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [
                peers if "img2dataset" in way else sys.executable,
                HERE / "web_fetch_ways.py",
                way,
                url,
                str(count),
                folder,
            ],
            capture_output=True,
            text=True,
            # Not for the peers: the project's datasets/ would pass for Hugging Face's package.
            env=os.environ
            | {"NO_ALBUMENTATIONS_UPDATE": "1"}
            | ({"PYTHONPATH": str(HERE.parent)} if way == "ours" else {}),
            preexec_fn=partial(os.sched_setaffinity, 0, {core}),
        )
    if answer.returncode:
        return answer.stderr.strip().splitlines()[-1]
    figures: dict[str, float] = json.loads(answer.stdout)
    return figures


def compare(url: str, count: int, runs: int, peers: str, core: int, console: Console) -> dict[str, dict[str, float]]:
    """The median of each figure."""
    measured: dict[str, list[dict[str, float]]] = {}
    for run in range(runs):
        for way in METHOD_TITLES:
            figures = measure(way, url, count, peers, core)
            if isinstance(figures, str):
                console.print(f"{way}: {figures}", style="dim", markup=False)
                continue
            figures |= {"core": count / figures["processor"], "wall": count / figures["seconds"]}
            console.print(f"{run + 1}/{runs} {way}: {figures['core']:.0f} images/s a core", style="dim")
            measured.setdefault(way, []).append(figures)
    return {way: {name: median(one[name] for one in some) for name in some[0]} for way, some in measured.items()}


def comparison_table(costs: dict[str, dict[str, float]], title: str) -> Table:
    table = Table(title=title)
    for column in ("way", "per core", "ours is", "per second", "images", "MB at most"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way, cost in costs.items():
        ratio = costs["ours"]["core"] / cost["core"]
        cells = (f"{cost['core']:.0f}", f"{ratio:.2f} x", f"{cost['wall']:.0f}", f"{cost['images']:.0f}")
        table.add_row(METHOD_TITLES[way], *cells, f"{cost['peak']:.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", default=".peers/bin/python")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    console, cores = Console(), sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))
        program = [sys.executable, HERE / "web_server.py", folder]
        pinned = partial(os.sched_setaffinity, 0, {cores[0]})
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, preexec_fn=pinned) as server:
            assert server.stdout
            try:
                url = server.stdout.readline().strip()
                costs = compare(url, given.images, given.runs, given.peers_python, cores[-1], console)
                console.print(comparison_table(costs, f"{given.images} images, all of them good"))
                faulty = {way: cost for way in ("ours", "img2dataset") if (cost := _faulty(way, url, given, cores[-1]))}
            finally:
                server.terminate()
    good = sum(fault_of(number) not in UNFETCHABLE_FAULTS for number in range(given.images))
    for way, images in faulty.items():
        console.print(f"{METHOD_TITLES[way]}: {images:.0f} of {good} images that are to be had, one in ten at fault")
    if "img2dataset" in costs:
        ratio = costs["ours"]["core"] / costs["img2dataset"]["core"]
        console.print(f"{ratio:.1f} x img2dataset, wanted {TARGET:g} x: {'reached' if ratio >= TARGET else 'MISSED'}")
        sys.exit(ratio < TARGET or faulty["ours"] < good)


def _faulty(way: str, url: str, given: argparse.Namespace, core: int) -> float:
    """How many images a way gets; each asks under a path of its own, since some faults pass."""
    figures = measure(way, f"{url}/fault/{way}", given.images, given.peers_python, core)
    return 0.0 if isinstance(figures, str) else figures["images"]


if __name__ == "__main__":
    main()
