"""What finding all that hangs together among a million 64-bit hashes costs, and what others take for it.

    python benchmarks/near_duplicates.py [--count 1000000] [--distances 4 6 8 10] [--runs 3]
    python benchmarks/near_duplicates.py --images 1000000

Ours finds the connected components, exactly, in one process with one thread; its memory is that process's peak. FAISS
answers a sample of the hashes as queries of a flat index on one thread, and what these took is carried on to all of
them. Seconds are the processor's, since other programs may be running. Every pair that FAISS finds must be in one of
our components, or the script fails.

Data: `spread`, anywhere, every twentieth one just within the distance of another; `alike`, of these a tenth all the
same; `crowded`, of these a fifth within four bits of one hash. `--images`: with nine random views each; every
twentieth one is a copy, up to four bits of each view away; thumbnails are compared, and every copy must be found.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from querytruth.array_types import Hashes

KINDS = ("spread", "alike", "crowded")
TARGET = 0.1  # of the flat index's time
QUERIES = 300
PICTURES, VIEWS_OF_EACH = 2000, 9  # different thumbnails, and views of an image


def make_hashes(kind: str, count: int, distance: int) -> Hashes:
    """Always the same ones."""
    rng = np.random.default_rng(7)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64)
    close = count // 20
    places = rng.random((close, 64), dtype=np.float32).argpartition(distance, axis=1)[:, :distance].astype(np.uint64)
    hashes[-close:] = hashes[-2 * close : -close] ^ np.bitwise_or.reduce(np.uint64(1) << places, axis=1)
    if kind == "alike":
        hashes[: count // 10] = hashes[0]
    if kind == "crowded":
        hashes[: count // 5] = hashes[0]
        for _ in range(4):
            hashes[: count // 5] ^= np.uint64(1) << rng.integers(0, 64, count // 5, dtype=np.uint64)
    return hashes


# ---- what is measured: each of these runs in a process of its own


def ours(hashes: Hashes, distance: int, folder: Path) -> dict[str, float]:
    from querytruth.backends.images.hash_neighbours import Components, join_near_hashes

    components = Components(len(hashes))
    seconds, _ = timed(lambda: join_near_hashes(hashes, distance, components))
    np.save(folder / "components.npy", components.names())
    return {"seconds": seconds}


def flat(hashes: Hashes, distance: int, folder: Path) -> dict[str, float]:
    """Seconds for all hashes as queries, carried on from a sample."""
    import faiss

    index = faiss.IndexBinaryFlat(64)
    index.add(hashes_as_bytes(hashes))
    faiss.omp_set_num_threads(1)
    rows = np.random.default_rng(1).choice(len(hashes), QUERIES, replace=False)
    seconds, (ends, _, others) = timed(lambda: index.range_search(hashes_as_bytes(hashes[rows]), distance + 1))
    names = np.load(folder / "components.npy")
    if (names[np.repeat(rows, np.diff(ends).astype(np.int64))] != names[others]).any():
        sys.exit("FAISS found a pair that ours has in two components")
    return {"seconds": seconds / len(rows) * len(hashes)}


def hashes_as_bytes(hashes: Hashes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ascontiguousarray(hashes).view(np.uint8).reshape(-1, 8)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


MEASURES = {m.__name__: m for m in (ours, flat)}


def find_copies(count: int) -> None:
    """Print what finding the copies among so many images costs; fails if one is missing."""
    from querytruth.backends.images.same_images import ComparableImages

    frame, originals = make_images(count, VIEWS_OF_EACH)
    before = peak_mb()
    start, clock = time.process_time(), time.monotonic()
    found = ComparableImages(frame, 8).find_same_pairs(np.arange(count))
    seconds, waited = time.process_time() - start, time.monotonic() - clock
    copies = np.stack([originals, np.arange(count - len(originals), count)], axis=1)
    if {*map(tuple, copies.tolist())} - {*map(tuple, found.tolist())}:
        sys.exit("a copy was not found")
    print(f"{count:,} images: {seconds:.1f} s, {waited:.1f} by the clock, {peak_mb():.0f} MB, {before:.0f} before")


def make_images(count: int, views: int) -> tuple[pd.DataFrame, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return views and thumbnails, and the rows of which the last ones are copies."""
    from querytruth.backends.images.image_views import BOXES, SIDE, VIEWS
    from tests.drawn_views import draw_views

    rng, copies = np.random.default_rng(7), count // 20
    originals, picture = rng.permutation(count - copies)[:copies], rng.integers(0, PICTURES, count)
    packed = np.zeros((count, 2 + 4 * BOXES + 8 * VIEWS), np.uint8)
    packed[:, 4:6] = SIDE
    hashes = rng.integers(1, 2**64, (count, views), dtype=np.uint64)
    hashes[-copies:], picture[-copies:] = hashes[originals], picture[originals]
    for _ in range(4):
        hashes[-copies:] ^= np.uint64(1) << rng.integers(0, 64, (copies, views), dtype=np.uint64)
    first = 2 + 4 * BOXES
    packed[:, first : first + 8 * views] = hashes.astype("<u8").view(np.uint8)
    thumbnails = np.array([draw_views(1, number)["thumbnail"] for number in range(PICTURES)], dtype=object)
    stored = [row.tobytes() for row in packed]
    return pd.DataFrame({"views": stored, "thumbnail": thumbnails[picture]}), originals


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


# ---- the comparison


def measure(name: str, kind: str, count: int, distance: int, folder: Path) -> dict[str, float]:
    """Run one measure in a process of its own."""
    what = ["--measure", name, "--kind", kind, "--count", str(count), "--distances", str(distance)]
    done = subprocess.run([sys.executable, __file__, *what, "--folder", str(folder)], stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{name} failed on {kind} at distance {distance}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure_all(kind: str, count: int, distance: int, runs: int) -> dict[str, dict[str, float]]:
    """All measures in turn, so often; the median of each figure."""
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in MEASURES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name in MEASURES:
                costs[name].append(measure(name, kind, count, distance, Path(folder)))
    return {
        name: {key: median(run[key] for run in measured) for key in measured[0]} for name, measured in costs.items()
    }


def row(kind: str, distance: int, costs: dict[str, dict[str, float]], full_size: bool) -> list[str]:
    mine, exact = costs["ours"], costs["flat"]
    share = mine["seconds"] / exact["seconds"]
    cells = [kind, str(distance), f"{mine['seconds']:.1f}", f"{mine['memory']:.0f}", f"{exact['seconds']:.0f}"]
    return [*cells, f"{share:.3f}" + (f", {'reached' if share < TARGET else 'MISSED'}" if full_size else "")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="hashes")
    parser.add_argument("--distances", type=int, nargs="+", default=[4, 6, 8, 10], help="bits")
    parser.add_argument("--runs", type=int, default=1, help="of which the median is given")
    for hidden, choices in (("--measure", tuple(MEASURES)), ("--kind", KINDS)):
        parser.add_argument(hidden, choices=choices, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--images", type=int, help="measure images with views in place of hashes")
    given = parser.parse_args()
    if given.images:
        find_copies(given.images)
        return
    if given.measure:
        hashes = make_hashes(given.kind, given.count, given.distances[0])
        figures = MEASURES[given.measure](hashes, given.distances[0], given.folder)
        print(json.dumps(figures | {"memory": peak_mb()}))
        return
    console = Console()
    table = Table(title=f"{given.count:,} hashes of 64 bits, seconds of a processor, median of {given.runs}")
    for column in ("data", "bits", "ours", "peak MB", "FAISS flat", f"ours / flat (under {TARGET})"):
        table.add_column(column, justify="left" if column == "data" else "right")
    for kind in KINDS:
        for distance in given.distances:
            costs = measure_all(kind, given.count, distance, given.runs)
            table.add_row(*row(kind, distance, costs, given.count >= 1_000_000))
            console.print(f"{kind}, {distance} bits: ours {costs['ours']['seconds']:.1f} s", style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
