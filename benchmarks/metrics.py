"""What five metrics of 10,000 queries with 100 results each cost, and what others take for them.

    python benchmarks/metrics.py [--queries 10000 --results 100] [--runs 5] [--peers-python .peers/bin/python]

From tables to figures: ids are texts, as files hold them, and whatever a library wants of them first is its time, too;
what it takes once it has its own form stands beside. `coded`: tables whose ids are categories, as our own search,
readers and sets hand them on. `shuffled`: the rows of each query in any order. Each way runs in a process of its own
(the peers that the environment lacks by `--peers-python`); seconds are the processor's, since other programs may be
running. All must come to the same figures, or the script fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

TARGET = 4  # times pytrec_eval
GALLERY, JUDGED = 100_000, 10  # images; judged ones per query
CALLS = 3  # of which a process gives the median, after one to warm up

Data = tuple[Any, Any]  # data frames


def make_data(queries: int, results: int, shuffled: bool) -> Data:
    """Always the same run and judgments: half of the judged images come back, every third is relevant."""
    import pandas as pd

    rng = np.random.default_rng(7)
    images = [f"img_{number:020x}" for number in rng.permutation(GALLERY) * 7919]
    names = [f"q_{number:020x}" for number in rng.permutation(queries) * 104_729]
    run: dict[str, list[Any]] = {"query_id": [], "image_id": [], "score": []}
    qrels: dict[str, list[Any]] = {"query_id": [], "image_id": [], "relevance": []}
    for name in names:
        drawn = rng.choice(GALLERY, results + JUDGED // 2, replace=False)
        scores = rng.choice(50 * results, results, replace=False).astype(float)  # no ties: ranx breaks them otherwise
        run["query_id"] += [name] * results
        run["image_id"] += [images[place] for place in drawn[:results]]
        run["score"] += (scores if shuffled else np.sort(scores)[::-1]).tolist()
        qrels["query_id"] += [name] * JUDGED
        qrels["image_id"] += [images[place] for place in drawn[results - JUDGED // 2 :]]
        qrels["relevance"] += [int(number % 3 == 0) for number in range(JUDGED)]
    return pd.DataFrame(run), pd.DataFrame(qrels)


# ---- what is measured: each makes its tables, and gives the work from these to figures, by parts that have a name


def ours(data: Data, kind: str = "str") -> Callable[[], dict[str, Any]]:
    from querytruth.evaluation.ground_truth import index_qrels
    from querytruth.evaluation.metrics import compute_metric, parse_metric
    from querytruth.evaluation.ranking import rank_run

    run, qrels = (table.astype({"query_id": kind, "image_id": kind}) for table in data)
    names = [parse_metric(name) for name in ("p@10", "r@10", "rr", "ap", "ndcg@10(gain=linear)")]

    def work() -> dict[str, Any]:
        ranked = rank_run(run, index_qrels(qrels))
        return {"figures": [float(compute_metric(ranked, name).mean()) for name in names]}

    return work


def coded(data: Data) -> Callable[[], dict[str, Any]]:
    return ours(data, "category")


def pytrec_eval(data: Data) -> Callable[[], dict[str, Any]]:
    import pytrec_eval as library

    names = ["P_10", "recall_10", "recip_rank", "map", "ndcg_cut_10"]

    def work() -> dict[str, Any]:
        run, qrels = (to_nested_dict(table) for table in data)
        start = time.process_time()
        evaluator = library.RelevanceEvaluator(qrels, {"P.10", "recall.10", "recip_rank", "map", "ndcg_cut.10"})
        scores = evaluator.evaluate(run).values()
        figures = [sum(of[name] for of in scores) / len(scores) for name in names]
        return {"figures": figures, "own form": time.process_time() - start}

    return work


def ir_measures(data: Data) -> Callable[[], dict[str, Any]]:
    import ir_measures as library

    names = [library.parse_measure(name) for name in ("P@10", "R@10", "RR", "AP", "nDCG@10")]

    def work() -> dict[str, Any]:
        run, qrels = (to_nested_dict(table) for table in data)
        start = time.process_time()
        scores = library.calc_aggregate(names, qrels, run)
        return {"figures": [scores[name] for name in names], "own form": time.process_time() - start}

    return work


def ranx(data: Data) -> Callable[[], dict[str, Any]]:
    import ranx as library

    names = ["precision@10", "recall@10", "mrr", "map", "ndcg@10"]

    def work() -> dict[str, Any]:
        run, qrels = (to_nested_dict(table) for table in data)
        judged, ranking = library.Qrels(qrels), library.Run(run)
        start = time.process_time()
        scores = library.evaluate(judged, ranking, names)
        return {"figures": [float(scores[name]) for name in names], "own form": time.process_time() - start}

    return work


def to_nested_dict(table: Any) -> dict[str, dict[str, Any]]:
    """{query: {image: number}}, which is what the other libraries read."""
    result: dict[str, dict[str, Any]] = {}
    for query, image, number in zip(*(table[name].tolist() for name in table), strict=True):
        result.setdefault(query, {})[image] = number
    return result


MEASURES: dict[str, Callable[[Data], Callable[[], dict[str, Any]]]] = {
    m.__name__: m for m in (ours, coded, pytrec_eval, ir_measures, ranx)
}


def measure_in_process(name: str, queries: int, results: int, shuffled: bool) -> dict[str, Any]:
    """In this process: seconds, those of them in the library's own form, figures."""
    work = MEASURES[name](make_data(queries, results, shuffled))
    work()
    seconds_of_calls = []
    for _ in range(CALLS):
        start = time.process_time()
        done = work()
        seconds_of_calls.append(done | {"seconds": time.process_time() - start})
    times = {
        key: median(done[key] for done in seconds_of_calls)
        for key in ("seconds", "own form")
        if key in seconds_of_calls[0]
    }
    return times | {"figures": seconds_of_calls[0]["figures"]}


# ---- the comparison


def measure(name: str, given: argparse.Namespace, shuffled: bool) -> dict[str, Any] | None:
    """In a process of its own; None where the library is not there."""
    python = given.peers_python if name == "ranx" else sys.executable
    if not python:
        return None
    what = ["--measure", name, "--queries", str(given.queries), "--results", str(given.results)]
    command = [python, __file__, *what, *(["--shuffled"] if shuffled else [])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        sys.exit(f"{name} failed: {done.stderr[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(given: argparse.Namespace, shuffled: bool) -> list[list[str]]:
    """A row per way, after so many rounds in turn."""
    costs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(given.runs):
        for name in MEASURES:
            if measured := measure(name, given, shuffled):
                costs.setdefault(name, []).append(measured)
    expected = costs["ours"][0]["figures"]
    for name, runs in costs.items():
        if not np.allclose(runs[0]["figures"], expected, rtol=0, atol=1e-9):
            sys.exit(f"{name} comes to {runs[0]['figures']}, ours to {expected}")
    medians = {
        name: {key: median(run[key] for run in runs) for key in runs[0] if key != "figures"}
        for name, runs in costs.items()
    }
    peer = medians["pytrec_eval"]
    rows = []
    for name in MEASURES:
        if name not in medians:
            rows.append([name, "not here", "", "", ""])
            continue
        each = {key: f"{1e6 * value / given.queries:.1f}" for key, value in medians[name].items()}
        ratio = peer["seconds"] / medians[name]["seconds"]
        verdict = f", {'reached' if ratio >= TARGET else 'MISSED'}" if name in ("ours", "coded") else ""
        alone = f"{peer['own form'] / medians[name]['seconds']:.1f}"
        rows.append([name, each["seconds"], each.get("own form", ""), f"{ratio:.1f}{verdict}", alone])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--results", type=int, default=100, help="per query")
    parser.add_argument("--runs", type=int, default=3, help="of which the median is given")
    parser.add_argument("--peers-python", help="of an environment that has ranx")
    parser.add_argument("--measure", choices=tuple(MEASURES), help=argparse.SUPPRESS)
    parser.add_argument("--shuffled", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        print(json.dumps(measure_in_process(given.measure, given.queries, given.results, given.shuffled)))
        return
    from rich.console import Console
    from rich.table import Table as Shown

    for shuffled in (False, True):
        order = "rows shuffled within the query" if shuffled else "rows in rank order"
        title = f"P, R, RR, AP, nDCG of {given.queries:,} queries x {given.results}, {order}; microseconds a query"
        table = Shown(title=f"{title} (processor), median of {given.runs}")
        for column in ("way", "from tables", "once in its own form"):
            table.add_column(column, justify="left" if column == "way" else "right")
        for column in (f"pytrec_eval's by this (at least {TARGET})", "its own form's by this"):
            table.add_column(column, justify="right")
        for row in compare(given, shuffled):
            table.add_row(*row)
        Console().print(table)


if __name__ == "__main__":
    main()
