"""What it costs to tell whether an object is new, in pools of 10,000 and 100,000 objects, and what others take for it.

    python benchmarks/novelty.py [--pools 10000 100000] [--batch 100] [--runs 5]

Vectors of 512 dimensions, as bge-small-zh-v1.5 gives them, some a slip away from one in the pool. Microseconds of one
processor for an object, medians of interleaved runs. Ours is the whole judgment: the nearest of the pool and of the
batch, computed again in double precision, and the new ones added. The limit is the product with blocks of the pool and
its maxima. FAISS is asked one by one, as a loop over a model's rows does, in a batch, and with an index built anew.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from querytruth.array_types import Vectors

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import faiss
import numpy as np
from rich.console import Console
from rich.table import Table

from builders.generated.object_pools import NoveltyFilter

DIMENSIONS, CUT = 512, 0.85
TARGET = 1.5  # times the blocked product
BLOCKS = (1024, 4096, 16384)


def make_vectors(count: int, pool: Vectors | None = None, seed: int = 0) -> Vectors:
    """Always the same ones; with a pool, every fifth near one of its rows."""
    rng = np.random.default_rng([count, seed])
    rows = rng.standard_normal((count, DIMENSIONS), dtype=np.float32)
    if pool is not None:
        rows[::5] = pool[rng.integers(0, len(pool), len(rows[::5]))] + rows[::5] * 0.01
    vectors: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return vectors


def measure_call(work: Callable[[], object]) -> float:
    """Seconds of the processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


def blocked_product(pool: Vectors, batch: Vectors, block: int) -> Vectors:
    best = np.full(len(batch), -1, np.float32)
    for start in range(0, len(pool), block):
        best = np.maximum(best, (batch @ pool[start : start + block].T).max(axis=1))
    return best


def one_by_one(index: Any, batch: Vectors) -> list[float]:
    return [float(index.search(row[None], 1)[0][0, 0]) for row in batch]


def build_flat_index(pool: Vectors) -> Any:
    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(pool)
    return index


def compare(count: int, size: int, runs: int) -> dict[str, float]:
    """Microseconds for an object by way of finding out; all ways must agree on what is new."""
    pool = make_vectors(count)
    batch, few = make_vectors(size, pool), max(1, size // 20)
    index = build_flat_index(pool)
    later = [make_vectors(size, pool, seed) for seed in range(1, runs + 1)]
    rows = {str(n): row for n, row in enumerate(np.concatenate([pool, batch, *later]))}
    names = list(rows)
    novelty = NoveltyFilter(lambda texts: np.stack([rows[text] for text in texts]), CUT)
    novelty.add(names[:count])
    first = novelty.classify(names[count : count + size])  # which encodes the pool, too, and is not timed
    batches = (names[start : start + size] for start in range(count + size, len(names), size))
    expected = blocked_product(pool, batch, 4096) > CUT
    if [not verdict.is_new for verdict in first] != expected.tolist():
        raise SystemExit("ours and the product disagree on what is new")
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "ours": (lambda: novelty.classify(next(batches)), size),
        **{
            f"product, blocks of {block:,}": (lambda block=block: blocked_product(pool, batch, block), size)
            for block in BLOCKS
        },
        "FAISS, a batch": (lambda: index.search(batch, 1), size),
        "FAISS, one by one": (lambda: one_by_one(index, batch[:few]), few),
        "FAISS, built anew": (lambda: build_flat_index(pool).search(batch[:1], 1), 1),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, (work, objects) in ways.items():
            times[name].append(measure_call(work) / objects * 1e6)
    return {name: median(costs) for name, costs in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, nargs="+", default=[10_000, 100_000], help="objects")
    parser.add_argument("--batch", type=int, default=100, help="objects judged together: a wave of 20 topics x 5")
    parser.add_argument("--runs", type=int, default=5, help="of which the median is given")
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    costs = {count: compare(count, given.batch, given.runs) for count in given.pools}
    table = Table(title=f"Microseconds of one processor for an object, {given.batch} at a time")
    table.add_column("way")
    for count in given.pools:
        table.add_column(f"pool of {count:,}", justify="right")
    for name in costs[given.pools[0]]:
        table.add_row(name, *[f"{costs[count][name]:,.0f}" for count in given.pools])
    ratios = []
    for count in given.pools:
        best = min(costs[count][f"product, blocks of {block:,}"] for block in BLOCKS)
        ratio = costs[count]["ours"] / best
        ratios.append(f"{ratio:.2f} ({'reached' if ratio <= TARGET else 'MISSED'})")
    table.add_row(f"ours / the best product (at most {TARGET})", *ratios)
    Console().print(table)


if __name__ == "__main__":
    main()
