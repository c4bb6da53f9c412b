"""Audits beside other estimators, on drawn worlds and at 100,000 pairs.

    python benchmarks/audit.py                # coverage and width; with ppi-python (`pip install ppi-python`) beside
    python benchmarks/audit.py --pairs 100000 # time and memory of plan, start and report

Coverage: the share of 95% intervals of the number of relevant pairs that hold the truth, over drawn worlds
(tests/evaluation/audit/planted_worlds.py: 400 queries of unequal difficulty, 200 pairs judged by people). Width: of the
intervals, beside that of people alone. ppi-python: PPI++ of the mean with the judge's labels as predictions.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from builders.audit.answers import AUDIT_VIEW  # noqa: E402
from builders.decisions.records import QueryDecision  # noqa: E402
from evaluation.audit.clustered import estimate_mean  # noqa: E402
from evaluation.audit.stratified import estimate_total  # noqa: E402
from tests.evaluation.audit.planted_worlds import (  # noqa: E402
    JUDGES,
    PREVALENCES,
    coverage,
    mean_width,
    plant_world,
    sample_alone,
    sample_with_judge,
)

try:
    import ppi_py
except ImportError:
    ppi_py = None
DRAWN, WORLDS, SAMPLES, PEER_SAMPLES = 200, 10, 500, 40


def compare_estimators() -> None:
    """Prints coverage and width by world, judge and estimator."""
    print(f"{'relevant':>8} {'judge':<12} {'people alone':>20} {'with the judge':>20} {'ppi-python':>20}")
    for prevalence in PREVALENCES:
        for judge in JUDGES:
            rng = np.random.default_rng(7)
            rows = [_measure_world(prevalence, judge, rng) for _ in range(WORLDS)]
            means = np.nanmean(np.array(rows), axis=0)
            shown = [f"{held:.3f} width {width:5.0f}" for held, width in means]
            print(f"{prevalence:>8.0%} {judge:<12} " + " ".join(f"{text:>20}" for text in shown))


def _measure_world(prevalence: float, judge: str, rng: np.random.Generator) -> list[tuple[float, float]]:
    world = plant_world(prevalence, judge, rng)
    alone = estimate_total(sample_alone(world, DRAWN, SAMPLES, rng))
    judged = estimate_total(sample_with_judge(world, DRAWN, SAMPLES, rng))
    found = [(coverage(one, world.total), mean_width(one)) for one in (alone, judged)]
    return [*found, _measure_ppi(world.relevant.ravel(), world.label.ravel(), rng)]


def _measure_ppi(relevant: np.ndarray, label: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    if ppi_py is None:
        return float("nan"), float("nan")
    ends = []
    for _ in range(PEER_SAMPLES):
        drawn = rng.choice(relevant.size, DRAWN, replace=False)
        rest = np.setdiff1d(np.arange(relevant.size), drawn)
        truth, says = relevant.astype(float), label.astype(float)
        ends.append(ppi_py.ppi_mean_ci(truth[drawn], says[drawn], says[rest], alpha=0.05))
    low, high = (np.array([float(np.squeeze(end[side])) for end in ends]) * relevant.size for side in (0, 1))
    total = relevant.sum()
    return float(((low <= total) & (total <= high)).mean()), float((high - low).mean())


def compare_means() -> float | None:
    """Returns the largest difference between our mean with a known figure and ppi-python's, for the same factor."""
    if ppi_py is None:
        return None
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(100):
        known = rng.random(5000)
        judged = np.clip(0.3 + 0.6 * known + rng.normal(0, 0.1, 5000), 0, 1)
        drawn = rng.choice(5000, 200, replace=False)
        centred = known[drawn] - known[drawn].mean()
        factor = float(np.clip((centred * judged[drawn]).sum() / (centred**2).sum(), 0, 1))
        ours = estimate_mean(judged[drawn], known[drawn], known.mean(), 5000).value
        theirs = ppi_py.ppi_mean_pointestimate(judged[drawn], known[drawn], known, lam=factor)
        worst = max(worst, abs(float(ours) - float(np.squeeze(theirs))))
    return worst


def measure_large_audit(pairs: int) -> None:
    """Prints the seconds of plan, start and report of a pool of so many pairs, and the memory of all."""
    from flows.audits.audit_answers import load_audit, take_answers
    from flows.audits.audit_plan import AuditSize, plan_audit
    from flows.audits.audit_pools import pool_set
    from flows.audits.audit_report import report_audit
    from flows.audits.audit_start import start_audit

    with tempfile.TemporaryDirectory() as folder:
        path, run = _publish_large_set(Path(folder), pairs // 50)
        start = time.perf_counter()
        pooled = pool_set(path, [run], 50)
        plan_audit(path, pooled, AuditSize())
        planned = time.perf_counter()
        start_audit(path, pooled, "audit", AuditSize(), depth=50, seed=0, judged=None)
        started = time.perf_counter()
        audit = load_audit(path, "audit")[0]
        drawn = zip(audit.sample["query_id"], audit.sample["image_id"], strict=True)
        answers = [
            QueryDecision(query, query, "grade", image, relevance=int(place % 5 == 0), view=AUDIT_VIEW,
                          source=audit.manifest["audit_id"], at="2026-01-01T00:00:00+00:00")
            for place, (query, image) in enumerate(drawn)
        ]  # fmt: skip
        take_answers(path, answers, [])
        answered = time.perf_counter()
        report_audit(path, "audit", "en")
        ended = time.perf_counter()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = {"plan": planned - start, "start": started - planned, "report": ended - answered}
    print(f"{len(pooled.pool.pairs):,} pairs:", ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items()))
    print(f"memory {memory:,.0f} MB")


def _publish_large_set(folder: Path, queries: int) -> tuple[Path, Path]:
    from builders.benchmark_set import Tables
    from builders.records import IMAGES_SCHEMA, QUERIES_SCHEMA
    from tests.small_sets import publish_small_set

    ids, images = ([f"{kind}_{n:020}" for n in range(number)] for kind, number in (("q", queries), ("img", 5000)))
    rng = np.random.default_rng(0)
    tables = Tables(
        pd.DataFrame({"query_id": ids, "text": ids, "language": "en", "style": "word", "level": 1})
        .reindex(columns=QUERIES_SCHEMA.names)
        .assign(labels=None),
        pd.DataFrame({"image_id": images, "width": 4, "height": 3}).reindex(columns=IMAGES_SCHEMA.names),
        pd.DataFrame(
            {"query_id": ids, "image_id": rng.choice(images, queries), "relevance": 1, "judged_by": "web"}
        ).astype({"query_id": "category", "image_id": "category", "relevance": "int8", "judged_by": "category"}),
    )
    stored = publish_small_set(folder, tables, images=False)
    run = folder / "drawn.trec"
    with run.open("w") as file:
        for query in ids:
            for rank, place in enumerate(rng.choice(len(images), 50, replace=False)):
                file.write(f"{query} Q0 {images[place]} {rank} {-rank} drawn\n")
    return stored.path, run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int)
    arguments = parser.parse_args()
    if arguments.pairs:
        measure_large_audit(arguments.pairs)
    else:
        compare_estimators()
        print("largest difference from ppi-python, same factor:", compare_means())
