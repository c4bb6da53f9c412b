"""The three baselines on the sample sets: what a figure is worth there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flows.evaluation_run import EvaluationOptions, StoredResult, evaluate_systems
from flows.scoring.judged_sets import load_judged_set
from flows.scoring.systems import BASELINES, make_baseline
from querytruth.result_tables import show_metric_by_set

_PAGE = "lexical"  # the one that gets some right and some wrong


def evaluate_sample_baselines(sets: Mapping[Path, Path | None], metric: str = "ndcg@10") -> list[Path]:
    """Evaluate random, oracle and lexical on these versions of sets and print one table; the pages that were written,
    one a set. With each set goes a CSV of words about its pictures, None where the set itself has them. Results lie
    beside the sets."""
    stored_results: list[StoredResult] = []
    for path, texts in sets.items():
        loaded_set = load_judged_set(path)
        for name in BASELINES:
            evaluation_options = EvaluationOptions(page=name == _PAGE)
            stored_results += evaluate_systems(
                loaded_set, [make_baseline(name, texts=texts)], ("text_to_image",), evaluation_options
            )
    show_metric_by_set([result.scored.result for result in stored_results], metric)
    return [result.page for result in stored_results if result.page is not None]
