"""Evaluates the systems that a request names on one set, and stores their results and pages beside it.

judged set ─► view (ground truth, one direction) ─► run ─► ranking ─► figures ─► result folder ─► page
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from querytruth.backends.files.durable_files import write_page
from querytruth.backends.search_systems import load_system_file
from querytruth.errors import UserError
from querytruth.evaluation import encoded_sets, judged_sets, live_systems, result_files, steps, systems
from querytruth.evaluation.evaluation_result import TEXT_TO_IMAGE
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view
from querytruth.evaluation.query_changes import measure_changes
from querytruth.evaluation.result_types import EvaluatedSet
from querytruth.evaluation.system_answers import AskOptions
from querytruth.evaluation.systems import EvaluatedSystem
from querytruth.review import comparison_page, evaluation_page, query_selection
from querytruth.review.page_parts import pages_in
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.set_thumbnails import make_set_thumbnails

if TYPE_CHECKING:
    import pandas as pd

    from querytruth.evaluation.evaluation_result import EvaluationResult, SystemComparison
    from querytruth.evaluation.judged_sets import EvaluationView
    from querytruth.evaluation.requests import EvaluationOptions, EvaluationRequest, JudgedRequest

_OTHER_FOLDER = "or give another report folder"


def write_evaluation_page(result: EvaluationResult, view: EvaluationView, page: Path) -> None:
    """Write the page of one system on one set. Raises UserError where it cannot be written."""
    tables, manifest = _tables_and_manifest(view)
    shown = query_selection.select_report_queries(result.per_query.index.tolist(), result.ranked, view.qrels)
    command = "" if view.judged_set.stored is None else _review_command(view.judged_set.stored.path, page.parent)
    html = evaluation_page.render_evaluation_page(
        result, tables, manifest, _thumbnails(view, shown.ids), shown, command
    )
    write_page(page, html, _OTHER_FOLDER)


def _review_command(set_path: Path, result_folder: Path) -> str:
    """Return the command that judges the results that nobody judged."""
    words = ["querytruth", "review", set_path, "--run", result_folder, "--depth", evaluation_page.REVIEW_DEPTH]
    return shlex.join(map(str, words))


def write_comparison_page(comparison: SystemComparison, view: EvaluationView, page: Path) -> None:
    """Write the page of two systems on one set. Raises UserError where it cannot be written."""
    tables, manifest = _tables_and_manifest(view)
    ranked = comparison.first.ranked, comparison.second.ranked
    shown = comparison_page.select_largest_differences(
        comparison.most_different_queries, comparison.differences, *ranked, view.qrels
    )
    html = comparison_page.render_comparison_page(comparison, tables, manifest, _thumbnails(view, shown.ids), shown)
    write_page(page, html, _OTHER_FOLDER)


def _tables_and_manifest(view: EvaluationView) -> tuple[Any, Any]:
    """Return the set's tables, with the view's judgments, and its manifest; None for bare judgments."""
    stored = view.judged_set.stored
    return (None, None) if stored is None else (replace(stored.tables, qrels=view.qrels), stored.manifest)


def _thumbnails(view: EvaluationView, ids: list[str]) -> dict[str, bytes]:
    return {} if view.judged_set.stored is None else make_set_thumbnails(view.judged_set.stored, ids)


def evaluate_systems(
    judged: JudgedSet, systems: Sequence[EvaluatedSystem], directions: Sequence[str], options: EvaluationOptions
) -> Iterator[steps.StoredResult]:
    """Evaluate every system in every direction; each result is stored before the next begins. `options.report` is the
    folder of a single result, or holds a folder per result. Raises UserError where a system cannot search this set,
    and, before the first evaluation, where a folder has the result of another run."""
    folders = _find_folders(judged, systems, directions, options)
    for direction in directions:
        view = build_evaluation_view(judged, direction, options.chosen_metrics, options.precision)
        for system, folder in zip(systems, folders[direction], strict=True):
            scored = steps.score_system(view, system, options.k, options.max_unknown, options.outside)
            page = None
            if folder is not None:
                steps.store_result(scored, judged.queries, folder)
                if options.page:
                    page = folder / result_files.PAGE_FILE
                    with pages_in(options.page_language):
                        write_evaluation_page(scored.result, view, page)
            yield steps.StoredResult(system, scored, folder, page)


def _find_folders(
    judged: JudgedSet, systems: Sequence[EvaluatedSystem], directions: Sequence[str], options: EvaluationOptions
) -> dict[str, list[Path | None]]:
    """Return, by direction, the folder of each system's result. Raises UserError if two would share one, or if one has
    the result of another run or another set: the same run on the same set may be evaluated again."""
    folders: dict[str, list[Path | None]] = {direction: [] for direction in directions}
    report = options.report
    for direction in directions:
        for system in systems:
            folder = steps.find_result_folder(judged, system, direction) if options.store else None
            if report is not None:
                is_single = len(systems) * len(directions) == 1
                folder = report if is_single else report / steps.result_folder_name(system, direction)
            if folder is not None:
                if folder in folders[direction]:
                    reason = "would hold the results of two runs with this name"
                    raise UserError("evaluate", folder, reason, "evaluate them separately, each with its own name")
                _refuse_other_result(folder, judged, system, direction)
            folders[direction].append(folder)
    return folders


def _refuse_other_result(folder: Path, judged: JudgedSet, system: EvaluatedSystem, direction: str) -> None:
    if not (folder / result_files.RESULT_FILE).is_file():
        return
    stored = result_files.read_result(folder)
    held = stored["system"], *_what_is_evaluated(stored["set"]), stored["direction"]
    wanted = json.loads(canonical_json(system.description)), *_what_is_evaluated(judged.description), direction
    if held != wanted:
        source = stored["system"].get("file") or stored["system"]["name"]
        reason = f"holds the result of another run ({source} on {stored['set']['name']}/v{stored['set']['version']})"
        raise UserError("evaluate", folder, reason, "give this run another name")


def _what_is_evaluated(description: EvaluatedSet) -> tuple[str, dict[str, str] | None]:
    return description["content_digest"], description.get("part")


def load_judgments(request: JudgedRequest) -> JudgedSet:
    """Return the set of a request, or the part of it that is asked for, or its bare judgments. Raises UserError."""
    if request.qrels is not None:
        judged = judged_sets.load_judged_qrels(request.qrels)
    else:
        judged = judged_sets.load_judged_set(set_files.find_set(str(request.of), request.out, remote="whole"))
    return judged_sets.select_part(judged, request.part)


def load_systems(request: EvaluationRequest, judged: JudgedSet, image_change: str = "") -> list[EvaluatedSystem]:
    """Return the systems that a request names: runs, baselines, a matrix, services, vectors and, last, models, which
    encode the images after a change. Raises UserError if one cannot be read."""
    runs = [one for run in request.run for one in systems.list_runs(Path(run))]
    found = [systems.load_run_system(run, judged, request.scores) for run in runs]
    if request.ids != "image_id":
        found = [systems.name_images(one, judged, request.ids) for one in found]
    found += [systems.make_baseline(name, request.seed, request.texts) for name in request.baseline]
    found += [systems.load_similarity_system(*request.matrix, request.scores)] if request.matrix else []
    asked = AskOptions(request.offline, request.refresh)
    found += [live_systems.make_live_system(load_system_file(one), judged, asked) for one in request.system]
    encoded = [encoded_sets.read_encoded_set(folder, judged) for folder in request.vectors]
    encoded += [encoded_sets.encode_set(name, judged, image_change) for name in request.model]
    return found + [systems.make_vector_system(one, request.index) for one in encoded]


def evaluate_request(request: EvaluationRequest, judged: JudgedSet) -> list[steps.StoredResult]:
    """Evaluate every system of a request in every direction of it. Raises UserError."""
    evaluated = load_systems(request, judged)
    if request.name is not None:
        if len(evaluated) > 1:
            reason = f"cannot be the name of {len(evaluated)} systems"
            raise UserError("evaluate", request.name, reason, "evaluate them separately, or remove the name")
        evaluated = [systems.rename_system(one, request.name) for one in evaluated]
    return list(evaluate_systems(judged, evaluated, request.directions, request))


def check_typing(request: EvaluationRequest) -> None:
    """Raise UserError for a system that cannot answer new texts."""
    if request.run or request.vectors or request.matrix or request.qrels or request.directions != (TEXT_TO_IMAGE,):
        reason, next_step = "needs a system that accepts new texts", "give only --system, --model or --baseline lexical"
        raise UserError("evaluate", "--perturb", reason, next_step)


def measure_typing(
    request: EvaluationRequest, judged: JudgedSet, results: Sequence[steps.StoredResult]
) -> list[pd.DataFrame]:
    """Return per result how much the system loses when its queries are typed differently (`measure_changes`)."""
    metric = "ndcg@10" if "ndcg@10" in request.chosen_metrics else request.chosen_metrics[0]

    def measure(at: int) -> pd.DataFrame:
        encodes = at >= len(results) - len(request.model)
        return measure_changes(
            judged,
            lambda *changed: load_systems(request, *changed)[at],
            results[at].scored,
            metric,
            encodes_images=encodes,
        )

    return [measure(at) for at in range(len(results))]
