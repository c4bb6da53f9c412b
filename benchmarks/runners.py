"""What more workers save where the processor is what is waited for: a gallery's scan and rendering on every runner.

    python benchmarks/runners.py [--pictures 300] [--side 1600] [--album FOLDER] [--runner threads:2 --runner dask:4 …]

Each row builds the same gallery of drawn photos of 2 megapixels (benchmarks/jpeg_album.py) anew, as a Prefect flow in a
process of its own with a server of its own. Seconds by the clock are those of the two steps, without what Prefect and
the cluster take to start; the digest says whether the same was built. A runner that is not installed is left out.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from jpeg_album import draw_photo, make_exif
from rich.console import Console
from rich.table import Table

WIDTH, HEIGHT = 1632, 1224
RUNNERS = ("threads:1", "threads:2", "dask:1", "dask:2", "dask:4", "ray:1", "ray:2", "ray:4")
MODULES = {"dask": "prefect_dask", "ray": "prefect_ray"}
SCRIPT = """
import sys
from pathlib import Path
from flows.prefect_server import silence_prefect
silence_prefect()
from flows.definitions import load_definition
from flows.prefect_engine import run_build_in_prefect
from flows.steps import BuildRun
if __name__ == "__main__":
    definition = load_definition(Path(sys.argv[1]), [], "gallery")
    run_build_in_prefect(definition, BuildRun(workers=int(sys.argv[3])), sys.argv[2])
"""


@dataclass(frozen=True, slots=True)
class RunnerTiming:
    """One build: the steps' seconds, those of the whole process, and what was built."""

    runner: str
    scan: float
    render: float
    whole: float
    digest: str

    @property
    def steps(self) -> float:
        return self.scan + self.render


def write_image(folder: Path, index: int) -> None:
    data = io.BytesIO()
    draw_photo(index, WIDTH, HEIGHT).save(data, "JPEG", quality=90, subsampling="4:2:0", exif=make_exif(index))
    (folder / f"{index:05}.jpg").write_bytes(data.getvalue())


def write_album(folder: Path, images: int) -> None:
    """An album that is there already is left as it is."""
    if folder.exists() and len(list(folder.iterdir())) == images:
        return
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(write_image, folder), range(images), chunksize=4))


def build(root: Path, album: Path, side: int, runner: str) -> RunnerTiming:
    """A build of which nothing is known from before."""
    kind, _, workers = runner.partition(":")
    place = root / runner.replace(":", "-")
    place.mkdir()
    keys = {"name": "photos", "images": str(album.absolute()), "out": str(place), "render": {"size": side}}
    (place / "photos.json").write_text(json.dumps({"kind": "gallery", **keys}))
    (place / "build.py").write_text(SCRIPT)
    command = [sys.executable, str(place / "build.py"), str(place / "photos.json"), kind, workers]
    start = time.perf_counter()
    environment = {**os.environ, "PREFECT_HOME": str(place / "home")}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    whole = time.perf_counter() - start
    manifest = json.loads((place / "photos" / "v1" / "manifest.json").read_text("utf-8"))
    took, digest = manifest["envelope"]["durations"], str(manifest["content_digest"])
    shutil.rmtree(place)
    return RunnerTiming(runner, took["scan pictures"], took["render pictures"], whole, digest)


def print_timings(rows: list[RunnerTiming], images: int) -> None:
    ones = {row.runner.partition(":")[0]: row.steps for row in rows if row.runner.endswith(":1")}
    table = Table(title=f"{images:,} photos of {WIDTH} x {HEIGHT}, {os.cpu_count()} cores; seconds")
    for name in ("runner", "workers", "scan", "render", "both", "to one worker", "whole", "digest"):
        table.add_column(name, justify="left" if name in ("runner", "digest") else "right", no_wrap=True)
    for row in rows:
        kind, _, workers = row.runner.partition(":")
        share = f"{ones[kind] / row.steps:.2f} x" if kind in ones else "–"
        same = "the same" if row.digest == rows[0].digest else "ANOTHER"
        times = [f"{seconds:.1f}" for seconds in (row.scan, row.render, row.steps)]
        table.add_row(kind, workers, *times, share, f"{row.whole:.0f}", same)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--side", type=int, default=1600, help="of the rendered pictures")
    parser.add_argument("--album", type=Path, help="where the photos are drawn, once, and kept")
    parser.add_argument("--runner", action="append", metavar="KIND:WORKERS", help="instead of all")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="runners-"))
    try:
        print(f"drawing {given.pictures:,} photos", file=sys.stderr, flush=True)
        album = given.album or root / "photos"
        write_album(album, given.pictures)
        rows = []
        for runner in given.runner or RUNNERS:
            if find_spec(MODULES.get(runner.partition(":")[0], "flows")) is not None:
                rows.append(build(root, album, given.side, runner))
                print(f"{runner}: {rows[-1].steps:.1f} s", file=sys.stderr, flush=True)
        print_timings(rows, given.pictures)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
