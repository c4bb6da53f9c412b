"""Evaluates systems on one set, and stores their results and pages beside it.

judged set ─► view (ground truth, one direction) ─► run ─► ranking ─► figures ─► result folder ─► page

Writes the pages of evaluations and comparisons, each one HTML file with thumbnails inside.

The systems of an evaluation by the files, names and services that they come from.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from querytruth.backends.files.durable_files import write_page
from querytruth.backends.search_systems import load_system_file
from querytruth.errors import UserError
from querytruth.evaluation import encoded_sets, evaluation_result, live_systems, result_files, steps, systems
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view
from querytruth.evaluation.live_systems import AskOptions
from querytruth.evaluation.systems import EvaluatedSystem
from querytruth.review import comparison_page, evaluation_page, query_selection
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.set_thumbnails import make_set_thumbnails

if TYPE_CHECKING:
    from querytruth.evaluation.evaluation_result import EvaluationResult, SystemComparison
    from querytruth.evaluation.judged_sets import EvaluationView

_OTHER_FOLDER = "or give another folder with --report"


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
    """The command that judges the results that nobody judged."""
    return shlex.join(
        [
            "querytruth",
            "review",
            str(set_path),
            "--run",
            str(result_folder),
            "--depth",
            str(evaluation_page.REVIEW_DEPTH),
        ]
    )


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
    """The set's tables, with the view's judgments, and its manifest; None for bare judgments."""
    stored = view.judged_set.stored
    return (None, None) if stored is None else (replace(stored.tables, qrels=view.qrels), stored.manifest)


def _thumbnails(view: EvaluationView, ids: list[str]) -> dict[str, bytes]:
    return {} if view.judged_set.stored is None else make_set_thumbnails(view.judged_set.stored, ids)


def evaluate_systems(
    judged: JudgedSet, systems: Sequence[EvaluatedSystem], directions: Sequence[str], options: steps.EvaluationOptions
) -> Iterator[steps.StoredResult]:
    """Evaluate every system in every direction; each result is stored before the next begins. `options.report` is the
    folder of a single result, or holds a folder per result. Raises UserError where a system cannot search this set,
    and, before the first evaluation, where a folder has the result of another run."""
    folders = _find_folders(judged, systems, directions, options)
    for direction in directions:
        view = build_evaluation_view(judged, direction, options.metrics, options.precisions)
        for system, folder in zip(systems, folders[direction], strict=True):
            scored = steps.score_system(view, system, options.k, options.max_unknown)
            page = None
            if folder is not None:
                steps.store_result(scored, judged.queries, folder)
                if judged.stored is not None and options.report is None and not judged.outside_queries:
                    steps.record_history(
                        steps.find_results_home(judged.stored.path) / steps.RESULTS_FOLDER,
                        system.identity,
                        scored.result,
                    )
                if options.page:
                    page = folder / result_files.PAGE_FILE
                    write_evaluation_page(scored.result, view, page)
            yield steps.StoredResult(system, scored, folder, page)


def _find_folders(
    judged: JudgedSet, systems: Sequence[EvaluatedSystem], directions: Sequence[str], options: steps.EvaluationOptions
) -> dict[str, list[Path | None]]:
    """By direction the folder of each system's result. Raises UserError where two would share one, or where one has the
    result of another run or another set: the same run on the same set may be evaluated again."""
    folders: dict[str, list[Path | None]] = {direction: [] for direction in directions}
    report = options.report
    for direction in directions:
        for system in systems:
            folder = steps.find_result_folder(judged, system, direction) if options.is_stored else None
            if report is not None:
                is_single = len(systems) * len(directions) == 1
                folder = report if is_single else report / steps.result_folder_name(system, direction)
            if folder is not None:
                if folder in folders[direction]:
                    reason = "would hold the results of two runs of this name"
                    raise UserError("evaluate", folder, reason, "evaluate them one by one, each with its own --name")
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
        reason = f"has the result of another run ({source} on {stored['set']['name']}/v{stored['set']['version']})"
        raise UserError("evaluate", folder, reason, "give this one another name (--name)")


def _what_is_evaluated(description: dict[str, Any]) -> tuple[str, dict[str, str] | None]:
    return description["content_digest"], description.get("part")


@dataclass(frozen=True, slots=True)
class SystemSources:
    """The systems of an evaluation: run files, baselines, folders of vectors, models by name or folder, and
    one matrix with its row and column ids. `index`: exact, ivf or hnsw; `texts`: of the lexical baseline. `systems`:
    files that describe search services, which are asked as `ask` states; `ids`: the column that run files name images
    by; `scores`: what the numbers of runs and of the matrix are, one of systems.SCORES, None: the highest is the best,
    unless ranks say otherwise. A folder of runs is each of them."""

    runs: Sequence[str | Path] = ()
    baselines: Sequence[str] = ()
    vectors: Sequence[str | Path] = ()
    models: Sequence[str] = ()
    similarities: tuple[Path, Path, Path] | None = None
    index: str = "exact"
    seed: int = 0
    texts: Path | None = None
    systems: Sequence[str | Path] = ()
    ask: AskOptions = field(default_factory=AskOptions)
    ids: str = "image_id"
    scores: str | None = None

    def load_systems(self, judged: JudgedSet) -> list[EvaluatedSystem]:
        """Return the systems in this order. Raises UserError for one that cannot be read."""
        runs = [one for run in self.runs for one in systems.list_runs(Path(run))]
        found = [systems.load_run_system(run, judged, self.scores) for run in runs]
        if self.ids != "image_id":
            found = [systems.name_images(one, judged, self.ids) for one in found]
        found += [systems.make_baseline(name, self.seed, self.texts) for name in self.baselines]
        found += [systems.load_similarity_system(*self.similarities, self.scores)] if self.similarities else []
        found += [live_systems.make_live_system(load_system_file(Path(one)), judged, self.ask) for one in self.systems]
        encoded = [encoded_sets.read_encoded_set(Path(folder), judged) for folder in self.vectors]
        encoded += [encoded_sets.encode_set(name, judged) for name in self.models]
        return found + [systems.make_vector_system(one, self.index) for one in encoded]


def evaluate_sources(
    judged: JudgedSet,
    sources: SystemSources,
    options: steps.EvaluationOptions,
    directions: Sequence[str] = (evaluation_result.TEXT_TO_IMAGE,),
    name: str | None = None,
) -> list[steps.StoredResult]:
    """Evaluate every system in every direction; `name` is that of a single system. Raises UserError."""
    systems.check_index(sources.index)
    evaluated = sources.load_systems(judged)
    if name is not None:
        if len(evaluated) > 1:
            reason = f"is one name for {len(evaluated)} systems"
            raise UserError("evaluate", name, reason, "evaluate them one by one, or leave --name out")
        evaluated = [systems.rename_system(one, name) for one in evaluated]
    return list(evaluate_systems(judged, evaluated, directions, options))
