"""What a gallery build costs after the scan, up to ten million images: on drawn scan records, without an image.

    python benchmarks/scan_records.py [--count 1000000] [--keep 20000] [--folder FOLDER]

Writes the records of the scan, as the scan stores them: names, digests, hashes, sizes, times, places and quality
scores. One in a hundred images is a copy of another one in another size, one in a hundred has the bytes of another, one
in a thousand cannot be read, and one in twenty is rejected by a filter. Then a process of its own runs the steps of the
build from there: filter, duplicates, selection, summary, ledger, publish. Each line has the seconds of the step and the
peak memory of the process up to its end. --keep 0 keeps all images as the set.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from builders.gallery.definition import GalleryDefinition
from builders.gallery.image_scan import ScannedImages, find_overridden_images
from builders.gallery.steps import (
    describe_selected,
    filter_images,
    list_gallery_thresholds,
    remove_duplicates,
    render_gallery,
    select_images,
    split_readable,
    summarize_scan,
)
from builders.publication import BuiltTables, publish_built
from querytruth.array_types import Hashes
from querytruth.backends.files.parquet_files import write_checked
from querytruth.backends.images import scan_parts
from querytruth.backends.images.image_sources import ImageSource
from querytruth.records import SCANNED_IMAGES_SCHEMA, empty_frame
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Input, Provenance

_HOST = "https://photos.example"  # a URL is a place that nobody looks for before it is read
_AT_ONCE = 100_000


def list_names(count: int) -> pa.Array:
    """The names of the images, sorted."""
    parts = [
        pa.array([f"{number // 1000:05}/{number:08}.jpg" for number in range(start, min(start + _AT_ONCE, count))])
        for start in range(0, count, _AT_ONCE)
    ]
    return pa.concat_arrays(parts)


def mix(numbers: Hashes, salt: int) -> Hashes:
    """A random 64-bit number for each number (splitmix64)."""
    mixed = numbers + np.array([salt + 1], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def draw_records(items: pa.Array) -> pa.Table:
    """The records of some images; what an image is depends on its number alone."""
    number = np.array([int(item[6:14]) for item in items.to_pylist()], dtype=np.uint64)
    is_copy, is_same = number % 100 == 1, number % 100 == 2
    shown = np.where(is_copy | is_same, number // 100 * 100, number)  # whose image it is
    file = np.where(is_same, shown, number)
    words = {name: np.stack([mix(of, salt + n) for n in range(4)], axis=1) for name, of, salt in (
        ("sha256", file, 100), ("pixels", file, 200))}  # fmt: skip
    uniform = [mix(shown, 300 + n).astype(np.float64) / 2**64 for n in range(6)]
    side = np.where(is_copy, 1024, 2048).astype(np.int32)
    broken, plain = uniform[0] < 0.001, uniform[1] < 0.2
    taken = np.datetime64("2015-01-01T00:00:00") + (uniform[2] * 3e8).astype("timedelta64[s]")
    columns: dict[str, Any] = {
        "item": items,
        "size": pa.array(number.astype(np.int64) + 1000),
        "modified": pa.array(number.astype(np.int64)),
        "width": pa.array(side, mask=broken),
        "height": pa.array(side * 3 // 4, mask=broken),
        "format": pa.array(np.full(len(number), "JPEG", dtype=object), mask=broken),
        "taken_at": pa.array(np.datetime_as_string(taken).astype(object), mask=broken | plain),
        "latitude": pa.array(uniform[3] * 180 - 90, mask=broken | (uniform[4] < 0.4)),
        "longitude": pa.array(uniform[5] * 360 - 180, mask=broken | (uniform[4] < 0.4)),
        "brightness": pa.array(np.where(uniform[4] < 0.05, 0.0, 0.5).astype(np.float32), mask=broken),
        "contrast": pa.array(np.full(len(number), 0.5, np.float32), mask=broken),
        "sharpness": pa.array(np.full(len(number), 0.5, np.float32), mask=broken),
        "flatness": pa.array(np.full(len(number), 0.1, np.float32), mask=broken),
        "reason": pa.array(np.where(broken, "cannot_be_decoded", None), pa.string()),
    }
    for name, of in words.items():
        digits = of.tobytes().hex()
        columns[name] = pa.array([digits[at : at + 64] for at in range(0, len(digits), 64)], pa.string(), mask=broken)
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(len(number), field.type)
        for field in SCANNED_IMAGES_SCHEMA
    ]
    return pa.table(arrays, schema=SCANNED_IMAGES_SCHEMA)


def define(folder: Path, keep: int) -> GalleryDefinition:
    """The definition of the set."""
    keys: dict[str, Any] = {"select": {"count": keep or None}, "near_duplicates": {"distance": None}, "render": None}
    return GalleryDefinition(name=f"records-{keep}", lose_at_most=None, images=str(folder), out=folder, **keys)


def plan(count: int, folder: Path) -> tuple[ImageSource, list[scan_parts.ScanPartJob]]:
    """The source, and the jobs of its scan."""
    source = ImageSource(_HOST, "folder", _HOST)
    store = folder / f"scan-{count}"
    return source, scan_parts.plan_scan_parts(source, list_names(count), store)


def write_records(count: int, folder: Path) -> None:
    """Write the records as the scan would, where they are not there."""
    for job in plan(count, folder)[1]:
        if not job.path.exists():
            job.folder.mkdir(parents=True, exist_ok=True)
            write_checked(job.path, draw_records(job.items))


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Print what a step took."""
    start, used = time.perf_counter(), time.process_time()
    yield
    status = Path("/proc/self/status").read_text()  # getrusage would count what the parent had before this process
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    seconds, processor = time.perf_counter() - start, time.process_time() - used
    print(f"{step:<28}{seconds:8.1f} s {processor:8.1f} s of CPU {peak:8.0f} MB at most so far", flush=True)


def build(count: int, keep: int, folder: Path) -> None:
    """The steps of a build after the scan."""
    definition, ledger = define(folder, keep), Ledger()
    with timed("list, divide into parts"):
        source, jobs = plan(count, folder)
    scanned = ScannedImages(jobs)
    del jobs
    with timed("split readable"):
        readable = split_readable(scanned, count, ledger)
    overridden = find_overridden_images(scanned, readable, {})
    with timed("filter"):
        filtered = filter_images(scanned, readable, overridden, definition, ledger)
    with timed("duplicates"):
        groups, found_by = remove_duplicates(source, scanned, filtered, definition, ledger)
    with timed("select"):
        unique = filtered[groups.is_kept]
        rows = select_images(scanned, unique, overridden, definition, ledger)
    with timed("images table"):
        images = describe_selected(scanned, groups, unique, rows)
        images, _ = render_gallery(source, images, definition, ledger)
    with timed("formats, scores and digest"):
        figures = summarize_scan(scanned, readable, rows)
        inputs = [Input(file="records", sha256=scanned.digest(), counts={"images": count})]
    with timed("publish"):
        built = BuiltTables(
            tables=Tables(empty_frame("queries"), images, empty_frame("qrels"), duplicates=groups.table),
            ledger=ledger,
            grades={},
            provenance=Provenance(inputs=inputs, thresholds=list_gallery_thresholds(definition, found_by.thresholds)),
            notes={"scan": figures},
        )
        del scanned, groups
        result = publish_built(definition, built)
    counts = result.manifest["counts"]
    print(f"published {counts['images']:,} images; ledger of {len(ledger.rows()):,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--keep", type=int, default=20_000, help="images of the set; 0: all")
    parser.add_argument("--folder", type=Path, help="where the records are kept for the next run")
    parser.add_argument("--build-only", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.build_only:
        build(given.count, given.keep, given.folder)
        return
    with tempfile.TemporaryDirectory() as home:
        folder = (given.folder or Path(home)).absolute()
        with timed("write records"):
            write_records(given.count, folder)
        command = [sys.executable, __file__, "--build-only", f"--folder={folder}", f"--count={given.count}"]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        subprocess.run([*command, f"--keep={given.keep}"], env=environment, check=True)


if __name__ == "__main__":
    main()
