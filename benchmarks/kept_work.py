"""What it costs a build to keep its parts and rendered images in a bucket, beside a build that keeps them on disk.

    python -m benchmarks.kept_work [--images 2000] [--runs 3]

Each build is a process of its own, with a folder of its own; `processor` is that of the build and its workers. The
service is moto's, in another process on this machine: no network, and it takes processor time from what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import boto3
from rich.console import Console
from rich.table import Table

from benchmarks.object_storage import draw_images, serve_objects

SIDE = (800, 600)
BUILD = "build on disk"
FIRST, AGAIN = "build with `work`, the first", "the same on a fresh machine: nothing is scanned or rendered"


def build(place: Path, images: Path, work: str | None) -> tuple[float, float]:
    """Return the seconds by the clock and of the processor of a build into a new folder."""
    keys = {"kind": "gallery", "name": "drawn", "images": str(images), "out": str(place)}
    keys |= {"work": work} if work else {}
    place.mkdir()
    (place / "drawn.yaml").write_text(json.dumps(keys))
    command = [sys.executable, "-m", "querytruth", "build", "gallery", str(place / "drawn.yaml"), "--json"]
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_once(place: Path, images: Path, number: int) -> dict[str, tuple[float, float]]:
    """Return the seconds of each build, with a bucket of its own."""
    bucket = f"benchmark-{number}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    work = f"s3://{bucket}/work"
    return {
        BUILD: build(place / f"disk-{number}", images, None),
        FIRST: build(place / f"first-{number}", images, work),
        AGAIN: build(place / f"again-{number}", images, work),
    }


def describe_objects(number: int) -> str:
    """Return how many objects the builds left in their bucket, and their bytes."""
    pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=f"benchmark-{number}")
    sizes = [entry["Size"] for page in pages for entry in page.get("Contents", [])]
    return f"{len(sizes):,} objects, {sum(sizes) / 1e6:,.1f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serve_objects():
        place = Path(folder)
        os.environ |= {"XDG_CACHE_HOME": str(place / "cache"), "XDG_STATE_HOME": str(place / "state")}
        draw_images(place / "images", given.images, SIDE)
        runs = [run_once(place, place / "images", number) for number in range(given.runs)]
        stored = describe_objects(0)
    table = Table(title=f"{given.images:,} images, {stored}; medians of {given.runs}; load {os.getloadavg()[0]:.1f}")
    for title in ("work", "clock", "processor", "to a build on disk"):
        table.add_column(title, justify="left" if title == "work" else "right")
    on_disk = median(run[BUILD][1] for run in runs)
    for name in runs[0]:
        clock, processor = (median(run[name][part] for run in runs) for part in (0, 1))
        table.add_row(name, f"{clock:.1f} s", f"{processor:.1f} s", f"{processor / on_disk:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
