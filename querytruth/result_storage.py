"""Systems evaluated one after the other, each result put into its folder with its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.run_files.result_files import PAGE_FILE
from evaluation.evaluation_result import DIRECTIONS, EvaluationResult
from evaluation.metric_scores import DEFAULT_METRICS, average_directions
from evaluation.result_json import result_to_json
from flows.pages.result_pages import write_evaluation_page
from flows.scoring.judged_sets import EvaluationView, JudgedSet, build_evaluation_view
from flows.scoring.systems import EvaluatedSystem
from flows.system_scoring import ScoredSystem, find_result_folder, result_folder_name, score_system, store_result


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What is measured, and where it is kept. `report`: a folder in place of the one beside the set."""

    metrics: Sequence[str] = DEFAULT_METRICS
    k: int | None = None
    precisions: Sequence[float] = (0.9,)
    report: Path | None = None
    page: bool = True


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result, and where it lies: None for bare judgments without --report."""

    scored: ScoredSystem
    folder: Path | None
    page: Path | None


def evaluate_systems(
    judged_set: JudgedSet,
    systems: Sequence[EvaluatedSystem],
    search_directions: Sequence[str],
    evaluation_options: EvaluationOptions,
) -> list[StoredResult]:
    """Every system, every way round. With one result alone `report` is its folder, else it holds a folder each."""
    is_one = len(systems) * len(search_directions) == 1
    stored_results = []
    for search_direction in search_directions:
        view = build_evaluation_view(
            judged_set, search_direction, evaluation_options.metrics, evaluation_options.precisions
        )
        for system in systems:
            result = score_system(view, system, evaluation_options.k)
            folder = find_result_folder(judged_set, system, search_direction)
            if evaluation_options.report is not None:
                folder = (
                    evaluation_options.report
                    if is_one
                    else evaluation_options.report / result_folder_name(system, search_direction)
                )
            stored_results.append(_store_result(result, view, folder, evaluation_options.page))
    return stored_results


def _store_result(result: ScoredSystem, view: EvaluationView, folder: Path | None, page: bool) -> StoredResult:
    if folder is None:
        return StoredResult(result, None, None)
    store_result(result, view.judged_set.queries, folder)
    written = folder / PAGE_FILE if page else None
    if written is not None:
        write_evaluation_page(result.result, view, written)
    return StoredResult(result, folder, written)


def results_to_json(results: Sequence[StoredResult]) -> dict[str, Any]:
    """For machines: every result, and where a system was evaluated both ways, the mean of the two."""
    plain = [
        {"folder": result.folder and str(result.folder), **result_to_json(result.scored.result)} for result in results
    ]
    return {"results": plain, "mean_of_directions": average_results([result.scored.result for result in results])}


def average_results(results: Sequence[EvaluationResult]) -> dict[str, dict[str, float]]:
    """By system the mean of both directions, per metric; empty where only one was evaluated."""
    by_direction = {
        direction: [result for result in results if result.direction == direction] for direction in DIRECTIONS
    }
    return {
        str(one.system["name"]): average_directions(_metric_values(one), _metric_values(other))
        for one, other in zip(*by_direction.values(), strict=False)
    }


def _metric_values(result: EvaluationResult) -> dict[str, float]:
    return dict(zip(result.metrics, result.figures["value"].tolist(), strict=True))
