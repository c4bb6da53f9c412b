"""Evaluates systems on one set, and stores their results and pages beside it.

judged set ─► view (ground truth, one direction) ─► run ─► ranking ─► figures ─► result folder ─► page
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from backends.run_files import result_files
from builders.ledger import Ledger
from evaluation.evaluation_result import TEXT_TO_IMAGE, EvaluationResult
from evaluation.metric_scores import DEFAULT_METRICS
from evaluation.ranking import rank_run
from evaluation.result_json import result_to_json
from evaluation.run_evaluation import build_ranked_table, choose_search_depth, evaluate_run
from flows.pages.result_pages import write_evaluation_page
from flows.scoring.judged_sets import EvaluationView, JudgedSet, build_evaluation_view
from flows.scoring.systems import EvaluatedSystem
from flows.steps import describe_environment, step

_UNSAFE = re.compile(r"[^\w.@-]+")
_PACKAGES = ("querytruth", "numpy", "pandas", "pyarrow", "faiss-cpu", "torch", "transformers")
RESULTS_FOLDER = "evaluations"  # the folder beside a set's versions


@dataclass(frozen=True, slots=True)
class ScoredSystem:
    """An evaluation result, the run by query and rank, and the ledger of what the system could not read."""

    result: EvaluationResult
    run: pd.DataFrame
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What is measured, and where it is stored. `k`: number of results per query, None: as many as the metrics need;
    `report`: a folder in place of the one beside the set."""

    metrics: Sequence[str] = DEFAULT_METRICS
    k: int | None = None
    precisions: Sequence[float] = (0.9,)
    report: Path | None = None
    page: bool = True


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The result of a system and its folder, None for bare judgments without a report folder."""

    system: EvaluatedSystem
    scored: ScoredSystem
    folder: Path | None
    page: Path | None


def evaluate_systems(
    judged: JudgedSet, systems: Sequence[EvaluatedSystem], directions: Sequence[str], options: EvaluationOptions
) -> Iterator[StoredResult]:
    """Evaluate every system in every direction; each result is stored before the next begins. `options.report` is the
    folder of a single result, or holds a folder per result. Raises UserError where a system cannot search this set."""
    for direction in directions:
        view = build_evaluation_view(judged, direction, options.metrics, options.precisions)
        for system in systems:
            scored = score_system(view, system, options.k)
            folder = find_result_folder(judged, system, direction)
            if options.report is not None:
                is_single = len(systems) * len(directions) == 1
                folder = options.report if is_single else options.report / result_folder_name(system, direction)
            page = None
            if folder is not None:
                store_result(scored, judged.queries, folder)
                if options.page:
                    page = folder / result_files.PAGE_FILE
                    write_evaluation_page(scored.result, view, page)
            yield StoredResult(system, scored, folder, page)


@step("evaluate")
def score_system(view: EvaluationView, system: EvaluatedSystem, k: int | None = None) -> ScoredSystem:
    """All figures of a system. `k`: number of results per query (None: as many as the metrics need)."""
    answer = system.produce_run(view, choose_search_depth(view.spec.metrics, view.spec.truth, k))
    ranked = rank_run(answer.run, view.spec.truth)
    result = evaluate_run(ranked, view.spec, system.description, warnings=answer.warnings, counts=answer.counts)
    return ScoredSystem(result, build_ranked_table(ranked), system.ledger)


def find_result_folder(judged: JudgedSet, system: EvaluatedSystem, direction: str = TEXT_TO_IMAGE) -> Path | None:
    """The folder of a system's result beside the set, <name>/evaluations/v<N>/<system>; None for bare judgments."""
    if judged.stored is None:
        return None
    version = judged.stored.path
    return version.parent / RESULTS_FOLDER / version.name / result_folder_name(system, direction)


def result_folder_name(system: EvaluatedSystem, direction: str) -> str:
    """A folder name for a system's result; it has the direction unless that is text to image."""
    name = _UNSAFE.sub("-", system.identity).strip("-.") or "system"
    return name if direction == TEXT_TO_IMAGE else f"{name}.{direction}"


@step("write result")
def store_result(result: ScoredSystem, queries: pd.DataFrame | None, folder: Path) -> None:
    """Replace the result in the folder (backends/run_files/result_files.py says what it holds)."""
    tables = {result_files.RUN_FILE: result.run}
    per_query = result.result.per_query.reset_index()
    if queries is not None and result.result.direction == TEXT_TO_IMAGE:
        texts = dict(zip(queries["query_id"], queries["text"], strict=True))
        per_query.insert(1, "text", per_query["query_id"].map(texts))
    tables |= {result_files.PER_QUERY_FILE: per_query, result_files.PER_QUERY_CSV_FILE: per_query}
    if len(ledger_rows := result.ledger.rows()):
        tables[result_files.LEDGER_FILE] = ledger_rows
    result_data = result_to_json(result.result) | {"funnel": result.ledger.funnel()}
    result_files.write_result(folder, result_data, tables, describe_environment(_PACKAGES))


def load_stored_results(path: Path, direction: str = TEXT_TO_IMAGE) -> dict[str, tuple[dict[str, Any], pd.DataFrame]]:
    """By the name of the system its result.json and its figures by query, of all results beside the version at
    `path`."""
    results_by_system = {}
    for folder in sorted((path.parent / RESULTS_FOLDER / path.name).glob("*/")):
        if (folder / result_files.RESULT_FILE).is_file():
            result_data = result_files.read_result(folder)
            if result_data["direction"] == direction:
                name = folder.name.removesuffix(f".{direction}")
                results_by_system[name] = result_data, result_files.read_per_query(folder)
    return results_by_system
