"""What the exact 20 nearest of 100,000 images cost for 10,000 queries, and what others take for them.

    python benchmarks/search.py [--gallery 100000 --queries 10000] [--dimensions 512] [--runs 3] [--indexes]
    python benchmarks/search.py --gallery 1000000 --queries 200 --runs 1     # memory

Each way runs in a process of its own, on one thread; queries a second are of the processor's time, since other programs
may be running, and memory is the process's peak. `product` is the limit: the product of all vectors, and nothing found
in it. numpy and torch take the same product and sort it; numpy's, which is slow, answers a twentieth of the queries.
The scores of all must be the same to 1e-5, or the script fails. `--indexes` measures ours with IVF and HNSW, too
(building included).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

TARGET, MOST_GB = 0.9, 4  # of FAISS flat's speed; a million vectors of 512 dimensions
K = 20
PRODUCT_AT_ONCE = 256  # queries

Work = Callable[[Any, Any], Any]  # of queries and gallery; returns the scores of those it answered


def make_vectors(count: int, dimensions: int, seed: int) -> Any:
    """Always the same ones, of length one; made in place, so that the peak is not theirs."""
    import numpy as np

    vectors = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    for start in range(0, count, 10_000):
        vectors[start : start + 10_000] /= np.linalg.norm(vectors[start : start + 10_000], axis=1, keepdims=True)
    return vectors


# ---- what is measured


def ours(queries: Any, gallery: Any) -> Any:
    from querytruth.evaluation.vector_search import build_vector_gallery, search_exact

    ids = [f"img_{number:07}" for number in range(len(gallery))]
    return search_exact(queries, build_vector_gallery(gallery, ids), K, threads=1).scores


def faiss_flat(queries: Any, gallery: Any) -> Any:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(gallery.shape[1])
    index.add(gallery)
    return index.search(queries, K)[0]


def numpy_argsort(queries: Any, gallery: Any) -> Any:
    import numpy as np

    result = []
    for query in queries[::20]:
        scores = gallery @ query
        result.append(scores[np.argsort(-scores)[:K]])
    return np.stack(result)


def torch_topk(queries: Any, gallery: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    query_tensor, images = torch.from_numpy(queries), torch.from_numpy(gallery)
    return torch.cat([(part @ images.T).topk(K).values for part in query_tensor.split(PRODUCT_AT_ONCE)]).numpy()


def product(queries: Any, gallery: Any) -> Any:
    for start in range(0, len(queries), PRODUCT_AT_ONCE):
        queries[start : start + PRODUCT_AT_ONCE] @ gallery.T


def search_faiss_index(index: str) -> Work:
    def work(queries: Any, gallery: Any) -> Any:
        from querytruth.evaluation.vector_search import build_vector_gallery, search_with_index

        ids = [f"img_{number:07}" for number in range(len(gallery))]
        names = [f"q_{number}" for number in range(len(queries))]
        return search_with_index(index, queries, names, build_vector_gallery(gallery, ids), K, threads=1)[
            1
        ].missed_share

    return work


MEASURES: dict[str, Work] = {m.__name__: m for m in (ours, faiss_flat, numpy_argsort, torch_topk, product)}
MEASURES |= {"ivf": search_faiss_index("ivf"), "hnsw": search_faiss_index("hnsw")}


def measure_in_process(given: argparse.Namespace) -> dict[str, Any]:
    """In this process: queries a second, peak memory, and a few scores (or, of an index, the share that it misses)."""
    import numpy as np

    gallery = make_vectors(given.gallery, given.dimensions, 1)
    queries = make_vectors(given.queries, given.dimensions, 2)
    work = MEASURES[given.measure]
    if given.measure not in ("ivf", "hnsw"):
        work(queries[:20].copy(), gallery[:1000].copy())  # imports and first calls
    start = time.process_time()
    result = work(queries, gallery)
    seconds = time.process_time() - start
    answered = -(-len(queries) // 20) if given.measure == "numpy_argsort" else len(queries)
    peak = int(Path("/proc/self/status").read_text("ascii").split("VmHWM:")[1].split()[0]) / 1e6
    scores = np.asarray(result)[:: 1 if given.measure == "numpy_argsort" else 20] if np.ndim(result) == 2 else result
    sample = scores[:20].tolist() if np.ndim(result) == 2 else result
    return {"rate": answered / seconds, "peak": peak, "found": sample}


# ---- the comparison


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own."""
    sizes = {"gallery": given.gallery, "queries": given.queries, "dimensions": given.dimensions}
    command = [sys.executable, __file__, "--measure", name]
    command += [argument for key, value in sizes.items() for argument in (f"--{key}", str(value))]
    one_thread = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, capture_output=True, text=True, env=one_thread, cwd=Path(__file__).parents[1])
    if done.returncode:
        sys.exit(f"{name} failed: {done.stderr[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def row(name: str, runs: list[dict[str, Any]], flat: float, full_memory: bool) -> list[str]:
    rate, peak = median(run["rate"] for run in runs), median(run["peak"] for run in runs)
    share = f"{rate / flat:.2f}"
    if name == "ours":
        share += ", reached" if rate / flat >= TARGET else ", MISSED"
    kept = f", {'reached' if peak <= MOST_GB else 'MISSED'}" if name == "ours" and full_memory else ""
    missed = f"{runs[0]['found']:.1%}" if name in ("ivf", "hnsw") else ""
    return [name, f"{rate:,.0f}", share, f"{peak:.2f}{kept}", missed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gallery", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3, help="of which the median is given")
    parser.add_argument("--indexes", action="store_true", help="IVF and HNSW, too")
    parser.add_argument("--measure", choices=tuple(MEASURES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        print(json.dumps(measure_in_process(given)))
        return
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    names = [name for name in MEASURES if given.indexes or name not in ("ivf", "hnsw")]
    costs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(given.runs):
        for name in names:
            costs[name].append(measure(name, given))
    for name in set(names) & {"faiss_flat", "numpy_argsort", "torch_topk"}:
        if not np.allclose(costs[name][0]["found"], costs["ours"][0]["found"], rtol=0, atol=1e-5):
            sys.exit(f"{name} finds other scores than ours")
    flat = median(run["rate"] for run in costs["faiss_flat"])
    size = f"{given.queries:,} queries, {given.gallery:,} images of {given.dimensions} dimensions"
    table = Table(title=f"the {K} nearest: {size}; one thread, median of {given.runs}")
    for column in ("way", "queries a second", f"of FAISS flat ({TARGET} wanted)", "peak GB", "missed"):
        table.add_column(column, justify="left" if column == "way" else "right")
    full_memory = given.gallery >= 1_000_000 and given.dimensions >= 512
    for name in names:
        table.add_row(*row(name, costs[name], flat, full_memory))
    Console().print(table)


if __name__ == "__main__":
    main()
