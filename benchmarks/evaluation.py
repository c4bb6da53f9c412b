"""What the whole command costs: from a set and files on disk to figures, intervals, bounds, slices and a result folder.

    python benchmarks/evaluation.py [--gallery 100000 --queries 10000] [--dimensions 512] [--runs 3]
    python benchmarks/evaluation.py --gallery 1000000 --queries 1000 --runs 1 --only vectors     # memory

`vectors` searches a folder of Parquet parts exactly; `run` reads 100 results of every query from Parquet; `trec` reads
the same as TREC's text without a set, `ir_measures` too, which computes five means and nothing beside them. Each runs
in a process of its own; memory is its peak. The search's own part is benchmarks/search.py, the metrics' metrics.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

COMPILED = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}  # as installed peers are
ROOT = Path(__file__).parents[1]
MAX_GB = 4  # for a million vectors of 512 dimensions
RESULTS = 100
METRICS = "p@10,r@10,rr,ap,ndcg@10"
PEER_METRICS = "P@10 R@10 RR AP nDCG@10"
_PART = 50_000  # rows of a Parquet part


def make_set(folder: Path, gallery: int, queries: int, dimensions: int) -> None:
    """A recall set without image files, vectors of both sides in parts, and a run: always the same."""
    import numpy as np
    import pandas as pd

    from builders.publication import BuiltTables, publish_built
    from querytruth.definitions import SetDefinition
    from querytruth.records import empty_frame
    from querytruth.sets.benchmark_set import Tables
    from querytruth.sets.ledger import Ledger

    images = [f"img_{hashlib.sha256(str(n).encode()).hexdigest()[:20]}" for n in range(gallery)]
    names = [f"q_{hashlib.sha256(str(n).encode()).hexdigest()[:20]}" for n in range(queries)]
    table = empty_frame("images").reindex(range(gallery)).assign(image_id=images, width=512, height=512)
    queries_table = pd.DataFrame({"query_id": names, "text": [f"image {n}" for n in range(queries)], "language": "en"})
    queries_table = queries_table.assign(
        style="caption", level=1, labels=None, topic=None, source_image_id=images[:queries]
    )
    qrels = pd.DataFrame({"query_id": names, "image_id": images[:queries], "relevance": 1, "judged_by": "caption"})
    qrels = qrels.astype({"query_id": "category", "image_id": "category", "judged_by": "category"})
    built = BuiltTables(Tables(queries_table, table, qrels), Ledger(), {"1": "right"})
    publish_built(SetDefinition(kind="recall", name="large", out=folder / "sets"), built)
    rng = np.random.default_rng(7)
    write_parts(folder / "vectors" / "images", "image_id", images, rng, dimensions)
    write_parts(folder / "vectors" / "queries", "query_id", names, rng, dimensions)
    places = rng.integers(0, gallery - RESULTS, queries)[:, None] + np.arange(RESULTS)
    places[::2, 5] = np.arange(queries)[::2]  # half of the queries find their image, sixth
    run = pd.DataFrame(
        {
            "query_id": np.repeat(names, RESULTS),
            "image_id": np.array(images)[places.ravel()],
            "score": np.tile(np.linspace(1, 0.01, RESULTS), queries),
        }
    ).drop_duplicates(["query_id", "image_id"])
    run.to_parquet(folder / "run.parquet")
    lines = run.assign(a="Q0", rank=1, tag="x")[["query_id", "a", "image_id", "rank", "score", "tag"]]
    lines.to_csv(folder / "run.trec", sep=" ", header=False, index=False)
    qrels.assign(a=0)[["query_id", "a", "image_id", "relevance"]].to_csv(
        folder / "set.qrels", sep=" ", header=False, index=False
    )


def write_parts(folder: Path, id_name: str, ids: list[str], rng: Any, dimensions: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for start in range(0, len(ids), _PART):
        part = ids[start : start + _PART]
        vectors = rng.standard_normal((len(part), dimensions), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimensions)
        pq.write_table(pa.table({id_name: part, "vector": column}), folder / f"{start:08}.parquet")


def commands(folder: Path) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "querytruth", "evaluate"]
    quiet = ["--no-page", "--json", "--metrics", METRICS]
    return {
        "vectors": [*ours, str(folder / "sets/large"), "--vectors", str(folder / "vectors"), *quiet],
        "run": [*ours, str(folder / "sets/large"), "--run", str(folder / "run.parquet"), *quiet],
        "trec": [*ours, "--qrels", str(folder / "set.qrels"), "--run", str(folder / "run.trec"), *quiet],
        "ir_measures": [
            sys.executable,
            "-m",
            "ir_measures",
            str(folder / "set.qrels"),
            str(folder / "run.trec"),
            PEER_METRICS,
        ],
    }


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds by the clock and of the processor, and peak memory in GB."""
    start = time.monotonic()
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=ROOT, env=COMPILED, **silent)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    return time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gallery", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3, help="of which the median is given")
    parser.add_argument("--only", choices=("vectors", "run", "trec", "ir_measures"))
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from rich.console import Console
    from rich.table import Table

    with tempfile.TemporaryDirectory() as place:
        maker = f"from benchmarks.evaluation import *; make_set(Path({place!r}), {given.gallery}, {given.queries}, "
        subprocess.run([sys.executable, "-c", f"{maker}{given.dimensions})"], cwd=ROOT, check=True)
        ways = {name: command for name, command in commands(Path(place)).items() if given.only in (None, name)}
        costs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
        for _ in range(given.runs):
            for name, command in ways.items():
                costs[name].append(measure(command))
    size = f"{given.queries:,} queries, {given.gallery:,} images of {given.dimensions} dimensions"
    table = Table(title=f"evaluate, whole: {size}; median of {given.runs}")
    for column in ("way", "seconds", "of the processor", "peak GB"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for name, measured in costs.items():
        clock, used, peak = (median(column) for column in zip(*measured, strict=True))
        full = name == "vectors" and given.gallery >= 1_000_000 and given.dimensions >= 512
        kept = f", {'reached' if peak <= MAX_GB else 'MISSED'}" if full else ""
        table.add_row(name, f"{clock:.1f}", f"{used:.1f}", f"{peak:.2f}{kept}")
    Console().print(table)


if __name__ == "__main__":
    main()
