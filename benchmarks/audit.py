"""Audits beside other estimators, on drawn worlds and at 100,000 pairs.

    python benchmarks/audit.py                # coverage and width; `pip install ppi-python judgy` for the peers
    python benchmarks/audit.py --judges FILE  # the same on real judges: data of LLMJudge (pair, human, a column each)
    python benchmarks/audit.py --pairs 100000 # time and memory of plan, start and report

Coverage: the share of 95% intervals of the number of relevant pairs that hold the truth, over drawn worlds
(tests/audit/planted_worlds.py: 400 queries of unequal difficulty, 200 pairs judged by people). Width: of the
intervals. The peers get a random sample of the pool with people's and the judge's labels, and the judge's labels of
the rest. ppi-python: PPI++ of the mean. judgy: Rogan and Gladen's estimate with a bootstrap. Lee: the interval of Lee
et al. ("How to correctly report LLM-as-a-judge evaluations", 2025), which is that of Lang and Reiczigel (Preventive
Veterinary Medicine 113, 2014). The two last ones refuse samples without a relevant pair and judges that look worse than
chance: these samples have no interval, and their share is shown.
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

from querytruth.audit.definition import AuditKeys  # noqa: E402
from querytruth.audit.pair_audit import estimate_total  # noqa: E402
from querytruth.sets.decision_agreement import AUDIT_VIEW  # noqa: E402
from querytruth.sets.decision_records import QueryDecision  # noqa: E402
from tests.audit.planted_worlds import (  # noqa: E402
    JUDGES,
    PREVALENCES,
    PlantedWorld,
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
try:
    import judgy
except ImportError:
    judgy = None
DRAWN, WORLDS, SAMPLES, PEER_SAMPLES, BOOTSTRAPS = 200, 10, 500, 40, 300
Z = 1.959963984540054
Interval = tuple[float, float] | None  # shares of relevant pairs; None where the estimator refuses the sample


def compare_estimators() -> None:
    """Print coverage and width by world, judge and estimator."""
    _print_names("relevant, judge")
    for prevalence in PREVALENCES:
        for judge in JUDGES:
            rng = np.random.default_rng(7)
            worlds = [plant_world(prevalence, judge, rng) for _ in range(WORLDS)]
            rows = [_measure(world, rng, SAMPLES, PEER_SAMPLES) for world in worlds]
            _print_row(f"{prevalence:.0%} {judge}", rows)


def compare_real_judges(file: Path) -> None:
    """Print the same for the pool that real judges graded, relevant from grade 2 on."""
    graded = pd.read_csv(file)
    _print_names("judge")
    for name in graded.columns[3:]:
        pairs = graded[graded[name].notna()]
        world = PlantedWorld((pairs["human"] >= 2).to_numpy(), (pairs[name] >= 2).to_numpy())
        _print_row(str(name), [_measure(world, np.random.default_rng(7), 10 * SAMPLES, 10 * PEER_SAMPLES)])


def _print_names(first: str) -> None:
    names = ("people alone", "with the judge", *PEERS)
    print(f"{first:<20}" + "".join(f"{name:>28}" for name in names))


def _print_row(name: str, rows: list[list[tuple[float, float, float]]]) -> None:
    means = np.nanmean(np.array(rows), axis=0)
    cells = [
        f"{held:.3f} width {width:5.0f}" + (f" ({refused:.0%} none)" if refused > 0.005 else "")
        for held, width, refused in means
    ]
    print(f"{name:<20}" + "".join(f"{text:>28}" for text in cells), flush=True)


def _measure(
    world: PlantedWorld, rng: np.random.Generator, samples: int, peer_samples: int
) -> list[tuple[float, float, float]]:
    """Returns by estimator the share of intervals that hold the truth, their width, and the share of samples without
    one."""
    ours = [estimate_total(draw(world, DRAWN, samples, rng)) for draw in (sample_alone, sample_with_judge)]
    found = [(coverage(one, world.total), mean_width(one), 0.0) for one in ours]
    relevant, label = world.relevant.ravel().astype(int), world.label.ravel().astype(int)
    intervals: dict[str, list[Interval]] = {name: [] for name in PEERS}
    for _ in range(peer_samples):
        drawn = rng.choice(relevant.size, DRAWN, replace=False)
        rest = np.setdiff1d(np.arange(relevant.size), drawn)
        for name, estimate in PEERS.items():
            intervals[name].append(estimate(relevant[drawn], label[drawn], label[rest]))
    return found + [_summarize(given, relevant.size, world.total) for given in intervals.values()]


def _summarize(intervals: list[Interval], size: int, total: int) -> tuple[float, float, float]:
    ends = np.array([one for one in intervals if one is not None]).reshape(-1, 2) * size
    if not len(ends):
        return float("nan"), float("nan"), 1.0
    low, high = ends.T
    held = float(((low <= total) & (total <= high)).mean())
    return held, float((high - low).mean()), 1 - len(ends) / len(intervals)


def _estimate_ppi(people: np.ndarray, judge: np.ndarray, rest: np.ndarray) -> Interval:
    if ppi_py is None:
        return None
    ends = ppi_py.ppi_mean_ci(people.astype(float), judge.astype(float), rest.astype(float), alpha=0.05)
    return float(np.squeeze(ends[0])), float(np.squeeze(ends[1]))


def _estimate_judgy(people: np.ndarray, judge: np.ndarray, rest: np.ndarray) -> Interval:
    if judgy is None:
        return None
    np.random.seed(int(people.sum()))  # judgy draws from the global generator
    try:
        _, low, high = judgy.estimate_success_rate(people, judge, rest, bootstrap_iterations=BOOTSTRAPS)
    except (ValueError, RuntimeError):
        return None
    return low, high


def _estimate_lee(people: np.ndarray, judge: np.ndarray, rest: np.ndarray) -> Interval:
    positives, negatives, count = people.sum() + 2, len(people) - people.sum() + 2, len(rest) + Z**2
    sensitivity = (judge[people == 1].sum() + 1) / positives
    specificity = ((1 - judge[people == 0]).sum() + 1) / negatives
    gain = sensitivity + specificity - 1
    if positives == 2 or negatives == 2 or gain <= 0:
        return None
    says = (rest.sum() + Z**2 / 2) / count
    share = (says + specificity - 1) / gain
    of_positives = sensitivity * (1 - sensitivity) / positives
    of_negatives = specificity * (1 - specificity) / negatives
    shift = 2 * Z**2 * (share * of_positives - (1 - share) * of_negatives)
    variance = says * (1 - says) / count + share**2 * of_positives + (1 - share) ** 2 * of_negatives
    distance = Z * float(np.sqrt(variance)) / gain
    low, high = np.clip([share + shift - distance, share + shift + distance], 0, 1)
    return float(low), float(high)


PEERS = {"ppi-python": _estimate_ppi, "judgy": _estimate_judgy, "Lee et al.": _estimate_lee}


def measure_large_audit(pairs: int) -> None:
    """Print the seconds of plan, start and report of a pool of so many pairs, and the memory of all."""
    from querytruth.audit.answers import load_audit, take_answers
    from querytruth.audit.pool import pool_set
    from querytruth.audit.report import report_audit
    from querytruth.audit.steps import plan_audit, start_audit

    with tempfile.TemporaryDirectory() as folder:
        path, run = _publish_large_set(Path(folder), pairs // 50)
        start = time.perf_counter()
        pooled = pool_set(path, [run], 50)
        plan_audit(path, pooled, AuditKeys())
        planned = time.perf_counter()
        start_audit(path, pooled, AuditKeys(depth=50), None)
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
    from querytruth.records import IMAGES_SCHEMA, QUERIES_SCHEMA
    from querytruth.sets.benchmark_set import Tables
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
    parser.add_argument("--judges", type=Path)
    arguments = parser.parse_args()
    if arguments.pairs:
        measure_large_audit(arguments.pairs)
    elif arguments.judges:
        compare_real_judges(arguments.judges)
    else:
        compare_estimators()
