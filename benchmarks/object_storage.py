"""What it costs to publish, verify and fetch a set in object storage, beside plain writes and reads of the same files.

    python -m benchmarks.object_storage [--images 2000] [--runs 3]

The service is moto's, in a process of its own on this machine: no network, no disk, and it takes processor time from
what is measured. `processor` is that of the client alone, imports apart. Every run has a bucket and a cache of its own;
the files were read before, so that they come from memory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import boto3
import numpy as np
import obstore
from obstore.store import S3Store
from PIL import Image
from rich.console import Console
from rich.table import Table

import querytruth as qt

SIDE = (256, 192)
STARTUP_SECONDS = 60


@contextmanager
def serve_objects() -> Iterator[None]:
    """Run moto's server, whose address and keys are in the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + STARTUP_SECONDS
        while not _answers(os.environ["AWS_ENDPOINT_URL"]):
            if time.monotonic() > end or server.poll() is not None:
                sys.exit('moto did not start: pip install "moto[server]"')
            time.sleep(0.2)
        yield
    finally:
        server.terminate()
        server.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def draw_images(folder: Path, count: int, side: tuple[int, int] = SIDE) -> None:
    """Draw so many JPEGs, all different."""
    folder.mkdir()
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 256, (24, 32, 3), dtype=np.uint8)
        image = Image.fromarray(noise).resize(side, Image.Resampling.BICUBIC)
        image.save(folder / f"{number:05}.jpg", quality=85)


def build_set(folder: Path, count: int) -> Path:
    """Return a gallery of so many drawn JPEGs of a few kilobytes, all different."""
    draw_images(folder / "drawn", count)
    keys = {"kind": "gallery", "name": "drawn", "images": str(folder / "drawn"), "out": str(folder / "sets")}
    return qt.build({**keys, "near_duplicates": {"distance": None}, "render": {"size": SIDE[0]}}).path


def put_by_obstore(files: list[Path], bucket: str) -> None:
    storage = S3Store(bucket, client_options={"allow_http": True})
    for number, file in enumerate(files):
        obstore.put(storage, f"obstore/{number}", file)


def put_by_boto(files: list[Path], bucket: str) -> None:
    client = boto3.client("s3")
    for number, file in enumerate(files):
        client.put_object(Bucket=bucket, Key=f"boto/{number}", Body=file.read_bytes())


def get_by_boto(files: list[Path], bucket: str, folder: Path) -> None:
    client = boto3.client("s3")
    folder.mkdir()
    for number in range(len(files)):
        answer = client.get_object(Bucket=bucket, Key=f"boto/{number}")
        (folder / str(number)).write_bytes(answer["Body"].read())


def run_once(version: Path, place: Path, number: int) -> dict[str, tuple[float, float]]:
    """Return the seconds by the clock and of the processor of each piece of work."""
    bucket = f"benchmark-{number}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    url, files = f"s3://{bucket}/sets", sorted(path for path in version.rglob("*") if path.is_file())
    target = f"{url}/{version.parent.name}"

    def with_empty_cache(work: Callable[[], Any]) -> Callable[[], Any]:
        shutil.rmtree(place / "cache", ignore_errors=True)
        return work

    return {
        "publish": measure(lambda: qt.load(version).publish(url, with_places=True)),
        "obstore, put in a loop": measure(lambda: put_by_obstore(files, bucket)),
        "boto3, put_object in a loop": measure(lambda: put_by_boto(files, bucket)),
        "publish again: nothing is sent": measure(lambda: qt.load(version).publish(url, with_places=True)),
        "verify": measure(with_empty_cache(lambda: qt.verify(target))),
        "fetch": measure(with_empty_cache(lambda: qt.fetch(target, to=place / f"fetched-{number}"))),
        "boto3, get_object in a loop": measure(lambda: get_by_boto(files, bucket, place / f"got-{number}")),
    }


def measure(work: Callable[[], Any]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serve_objects():
        place = Path(folder)
        os.environ |= {"XDG_CACHE_HOME": str(place / "cache"), "XDG_STATE_HOME": str(place / "state")}
        version = build_set(place, given.images)
        files = [path for path in version.rglob("*") if path.is_file()]
        megabytes = sum(len(path.read_bytes()) for path in files) / 1e6
        runs = [run_once(version, place, number) for number in range(given.runs)]
    table = Table(title=f"{len(files):,} files, {megabytes:.1f} MB; medians of {given.runs}")
    for title in ("work", "clock", "processor", "MB/s"):
        table.add_column(title, justify="left" if title == "work" else "right")
    for name in runs[0]:
        clock, processor = (median(run[name][part] for run in runs) for part in (0, 1))
        rate = "" if "again" in name else f"{megabytes / clock:.1f}"
        table.add_row(name, f"{clock:.1f} s", f"{processor:.1f} s", rate)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
