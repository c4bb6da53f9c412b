"""What more workers save, and what a cluster costs: a gallery's scan and rendering on every runner.

    python benchmarks/runners.py [--images 300] [--width 1632] [--side 1600] [--album FOLDER] [--prefect]
                                 [--runner threads:2 --runner dask:4 …]

Each row builds the same gallery of drawn photos (benchmarks/jpeg_album.py) anew, in a process of its own; with
--prefect as a Prefect flow with a server of its own. `scan` and `render` are seconds by the clock of the two steps,
`whole` those of the process with all that it starts, `processor` its processor time; the digest says whether the same
was built. Without Dask its runners are left out.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
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

RUNNERS = ("threads:1", "threads:2", "dask:1", "dask:2", "dask:4")
SCRIPT = """
import sys
from pathlib import Path
from flows.requests import BuildRequest
from querytruth.backends.steps import SilentReporter
from querytruth.api.set_builds import run_build
if __name__ == "__main__":
    request = BuildRequest(definition=Path(sys.argv[1]), workers=int(sys.argv[3]), runner=sys.argv[2])
    run_build(request, SilentReporter(), prefect=sys.argv[4] == "prefect")
"""


@dataclass(frozen=True, slots=True)
class RunnerTiming:
    """One build: the steps' seconds, those of the whole process by the clock and of the processor, and what was
    built."""

    runner: str
    scan: float
    render: float
    whole: float
    processor: float
    digest: str

    @property
    def steps(self) -> float:
        return self.scan + self.render


def write_image(folder: Path, width: int, index: int) -> None:
    data = io.BytesIO()
    draw_photo(index, width, width * 3 // 4).save(data, "JPEG", quality=90, subsampling="4:2:0", exif=make_exif(index))
    (folder / f"{index:05}.jpg").write_bytes(data.getvalue())


def write_album(folder: Path, images: int, width: int) -> None:
    """An album that is there already is left as it is."""
    if folder.exists() and len(list(folder.iterdir())) == images:
        return
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(write_image, folder, width), range(images), chunksize=4))


def build(root: Path, album: Path, side: int, runner: str, engine: str) -> RunnerTiming:
    """A build of which nothing is known from before."""
    kind, _, workers = runner.partition(":")
    place = root / runner.replace(":", "-")
    place.mkdir()
    keys = {"name": "photos", "images": str(album.absolute()), "out": str(place), "render": {"size": side}}
    (place / "photos.json").write_text(json.dumps({"kind": "gallery", **keys}))
    (place / "build.py").write_text(SCRIPT)
    command = [sys.executable, str(place / "build.py"), str(place / "photos.json"), kind, workers, engine]
    start, before = time.perf_counter(), child_seconds()
    environment = {**os.environ, "PREFECT_HOME": str(place / "home")}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    whole, processor = time.perf_counter() - start, child_seconds() - before
    manifest = json.loads((place / "photos" / "v1" / "manifest.json").read_text("utf-8"))
    took, digest = manifest["envelope"]["durations"], str(manifest["content_digest"])
    shutil.rmtree(place)
    return RunnerTiming(runner, took["scan images"], took["render images"], whole, processor, digest)


def child_seconds() -> float:
    """Processor time of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def print_timings(rows: list[RunnerTiming], images: int, width: int) -> None:
    ones = {row.runner.partition(":")[0]: row.steps for row in rows if row.runner.endswith(":1")}
    table = Table(title=f"{images:,} photos of {width} x {width * 3 // 4}, {os.cpu_count()} cores; seconds")
    for name in ("runner", "workers", "scan", "render", "both", "to one worker", "whole", "processor", "digest"):
        table.add_column(name, justify="left" if name in ("runner", "digest") else "right", no_wrap=True)
    for row in rows:
        kind, _, workers = row.runner.partition(":")
        share = f"{ones[kind] / row.steps:.2f} x" if kind in ones else "–"
        same = "the same" if row.digest == rows[0].digest else "ANOTHER"
        times = [f"{seconds:.1f}" for seconds in (row.scan, row.render, row.steps)]
        table.add_row(kind, workers, *times, share, f"{row.whole:.1f}", f"{row.processor:.1f}", same)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--width", type=int, default=1632, help="of the photos")
    parser.add_argument("--side", type=int, default=1600, help="of the rendered images")
    parser.add_argument("--prefect", action="store_true", help="build as a Prefect flow")
    parser.add_argument("--album", type=Path, help="where the photos are drawn, once, and kept")
    parser.add_argument("--runner", action="append", metavar="KIND:WORKERS", help="instead of all")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="runners-"))
    try:
        print(f"drawing {given.images:,} photos", file=sys.stderr, flush=True)
        album = given.album or root / "photos"
        write_album(album, given.images, given.width)
        rows = []
        for runner in given.runner or RUNNERS:
            if runner.startswith("threads") or find_spec("distributed"):
                rows.append(build(root, album, given.side, runner, "prefect" if given.prefect else "process"))
                print(f"{runner}: {rows[-1].steps:.1f} s", file=sys.stderr, flush=True)
        print_timings(rows, given.images, given.width)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
