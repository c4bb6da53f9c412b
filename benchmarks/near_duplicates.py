"""What finding all that hangs together among a million 64-bit hashes costs, and what others take for it.

    python benchmarks/near_duplicates.py [--count 1000000] [--distances 4 6 8 10] [--runs 3]

Ours finds the connected components, exactly, in one process with one thread; its memory is that process's peak. FAISS
answers a sample of the hashes as queries on one thread, and what these took is carried on to all of them: exactly
(flat, multi-hash) or by cells (IVF; recall is the share of the flat index's pairs). imagededup's tree, where it is
installed, holds the first few thousand hashes only, and its seconds are for these. Seconds are the processor's, since
other programs may be running. Every pair that FAISS finds must be in one of our components, or the script fails.

Data: `spread`, anywhere, every twentieth one just within the distance of another; `alike`, of these a tenth all the
same; `crowded`, of these a fifth within four bits of one hash.
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
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from querytruth.array_types import Hashes

KINDS = ("spread", "alike", "crowded")
TARGET = 0.1  # of the flat index's time
QUERIES = {"flat": 300, "ivf": 300, "multihash": 30}
CELLS, PROBED = 1024, 16
TREE = 3000  # hashes


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
    import faiss

    index = faiss.IndexBinaryFlat(64)
    index.add(hashes_as_bytes(hashes))
    return measure_sampled("flat", index, 0.0, hashes, distance, folder)


def ivf(hashes: Hashes, distance: int, folder: Path) -> dict[str, float]:
    import faiss

    index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(64), 64, CELLS)
    index.nprobe = PROBED

    def build() -> None:
        index.train(hashes_as_bytes(hashes[:: max(1, len(hashes) // 50_000)]))
        index.add(hashes_as_bytes(hashes))

    return measure_sampled("ivf", index, timed(build)[0], hashes, distance, folder)


def multihash(hashes: Hashes, distance: int, folder: Path) -> dict[str, float]:
    """Exact: of four parts of 16 bits one differs in at most a quarter of the bits."""
    import faiss

    index = faiss.IndexBinaryMultiHash(64, 4, 16)
    index.nflip = distance // 4
    return measure_sampled(
        "multihash", index, timed(lambda: index.add(hashes_as_bytes(hashes)))[0], hashes, distance, folder
    )


def imagededup(hashes: Hashes, distance: int, folder: Path) -> dict[str, float]:
    from imagededup.handlers.search.bktree import BKTree

    few = {str(number): int(value) for number, value in enumerate(hashes[:TREE])}

    def find() -> None:
        tree = BKTree(few, lambda one, other: (one ^ other).bit_count())
        for value in few.values():
            tree.search(value, distance)

    try:
        return {"seconds": timed(find)[0]}
    except RecursionError:  # a branch of the tree as long as there are equal hashes
        return {"seconds": float("nan")}


def measure_sampled(
    name: str, index: Any, built: float, hashes: Hashes, distance: int, folder: Path
) -> dict[str, float]:
    """Seconds for building and for all hashes as queries, carried on from a sample; how many pairs that found."""
    import faiss

    faiss.omp_set_num_threads(1)
    rows = np.random.default_rng(1).choice(len(hashes), QUERIES[name], replace=False)
    seconds, (ends, _, others) = timed(lambda: index.range_search(hashes_as_bytes(hashes[rows]), distance + 1))
    names = np.load(folder / "components.npy")
    ones = np.repeat(rows, np.diff(ends).astype(np.int64))
    if (names[ones] != names[others]).any():
        sys.exit(f"{name} found a pair that ours has in two components")
    return {"seconds": built + seconds / len(rows) * len(hashes), "pairs": len(others) / len(rows)}


def hashes_as_bytes(hashes: Hashes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ascontiguousarray(hashes).view(np.uint8).reshape(-1, 8)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


MEASURES = {m.__name__: m for m in (ours, flat, ivf, multihash, imagededup)}


# ---- the comparison


def measure(name: str, kind: str, count: int, distance: int, folder: Path) -> dict[str, float]:
    """Run one measure in a process of its own."""
    what = ["--measure", name, "--kind", kind, "--count", str(count), "--distances", str(distance)]
    done = subprocess.run([sys.executable, __file__, *what, "--folder", str(folder)], stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{name} failed on {kind} at distance {distance}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure_all(kind: str, count: int, distance: int, runs: int, names: list[str]) -> dict[str, dict[str, float]]:
    """All measures in turn, so often; the median of each figure."""
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name in names:
                costs[name].append(measure(name, kind, count, distance, Path(folder)))
    return {
        name: {key: median(run[key] for run in measured) for key in measured[0]} for name, measured in costs.items()
    }


def row(kind: str, distance: int, costs: dict[str, dict[str, float]], full_size: bool) -> list[str]:
    mine, exact = costs["ours"], costs["flat"]
    share = mine["seconds"] / exact["seconds"]
    cells = [kind, str(distance), f"{mine['seconds']:.1f}", f"{mine['memory']:.0f}", f"{exact['seconds']:.0f}"]
    cells.append(f"{share:.3f}" + (f", {'reached' if share < TARGET else 'MISSED'}" if full_size else ""))
    cells.append(f"{costs['ivf']['seconds']:.0f}, {costs['ivf']['pairs'] / exact['pairs']:.1%}")
    cells.append(f"{costs['multihash']['seconds']:,.0f}")
    tree = costs.get("imagededup", {"seconds": None})["seconds"]
    return [*cells, "not here" if tree is None else "gives up" if tree != tree else f"{tree:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="hashes")
    parser.add_argument("--distances", type=int, nargs="+", default=[4, 6, 8, 10], help="bits")
    parser.add_argument("--runs", type=int, default=1, help="of which the median is given")
    for hidden, choices in (("--measure", tuple(MEASURES)), ("--kind", KINDS)):
        parser.add_argument(hidden, choices=choices, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        hashes = make_hashes(given.kind, given.count, given.distances[0])
        figures = MEASURES[given.measure](hashes, given.distances[0], given.folder)
        print(json.dumps(figures | {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
        return
    console = Console()
    names = [name for name in MEASURES if name != "imagededup" or find_spec("imagededup")]
    table = Table(title=f"{given.count:,} hashes of 64 bits, seconds of a processor, median of {given.runs}")
    columns = ["data", "bits", "ours", "peak MB", "FAISS flat", f"ours / flat (under {TARGET})", "IVF, recall"]
    for column in [*columns, "multi-hash", f"imagededup, {TREE:,} hashes"]:
        table.add_column(column, justify="left" if column == "data" else "right")
    for kind in KINDS:
        for distance in given.distances:
            costs = measure_all(kind, given.count, distance, given.runs, names)
            table.add_row(*row(kind, distance, costs, given.count >= 1_000_000))
            console.print(f"{kind}, {distance} bits: ours {costs['ours']['seconds']:.1f} s", style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
