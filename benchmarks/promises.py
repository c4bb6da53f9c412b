"""The full tables of what the statistics promise (`tests/evaluation/promises.py`), as Markdown.

    python benchmarks/promises.py [--draws 1000] [gates clusters …]

prints a row per cell of the named checks, and a summary per promise.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.evaluation import promises
from tests.evaluation.promises import Cell

CHECKS: dict[str, Callable[[np.random.Generator, int], Iterable[Cell]]] = {
    "gates": promises.check_gates,
    "use": promises.check_use,
    "gains": promises.check_gains,
    "intervals": promises.check_intervals,
    "compact": promises.check_compact,
    "clusters": promises.check_clustered_intervals,
    "unseen": promises.check_unseen_topics,
    "comparisons": promises.check_comparisons,
    "plans": promises.check_plans,
    "clustered_plans": promises.check_clustered_plans,
    "pairs": promises.check_pair_audits,
    "people": promises.check_people,
    "certificate": promises.check_certificate,
    "cost": promises.check_cost,
}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checks", nargs="*", choices=[*CHECKS, []], help="all without")
    parser.add_argument("--draws", type=int, default=1000)
    asked = parser.parse_args()
    print("| promise | world | rate | promised | decided, width or size | kept |\n|---|---|---:|---|---:|---|")
    found: list[Cell] = []
    for name in asked.checks or CHECKS:
        for cell in CHECKS[name](np.random.default_rng(7), asked.draws):
            found.append(cell)
            limits, kept = f"{cell.low:.2f} to {cell.high:.2f}", "yes" if cell.is_kept() else "NO"
            row = f"| {cell.promise} | {cell.world} | {cell.rate:.3f} | {limits} | {cell.gain:.3f} | {kept} |"
            print(row, flush=True)
    print("\n| promise | cells | lowest | mean | highest | not kept |\n|---|---:|---:|---:|---:|---:|")
    for name in sorted({cell.promise for cell in found}):
        rates = [cell.rate for cell in found if cell.promise == name]
        lost = sum(not cell.is_kept() for cell in found if cell.promise == name)
        print(f"| {name} | {len(rates)} | {min(rates):.3f} | {np.mean(rates):.3f} | {max(rates):.3f} | {lost} |")


if __name__ == "__main__":
    main()
