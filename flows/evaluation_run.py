"""Evaluates systems on one set, and stores their results and pages beside it.

judged set ─► view (ground truth, one direction) ─► run ─► ranking ─► figures ─► result folder ─► page
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from backends.contained_paths import contained_path
from backends.object_storage.object_cache import is_fetched_copy
from backends.run_files import result_files
from builders.benchmark_set import canonical_json
from builders.errors import UserError
from builders.ledger import Ledger
from evaluation.duplicate_folding import fold_run
from evaluation.evaluation_result import TEXT_TO_IMAGE, EvaluationResult
from evaluation.metric_scores import DEFAULT_METRICS
from evaluation.ranking import rank_run
from evaluation.result_json import result_to_json
from evaluation.run_evaluation import build_ranked_table, choose_search_depth, evaluate_run
from evaluation.run_matching import DEFAULT_MAX_UNKNOWN, MatchedRun, match_run
from evaluation.score_direction import ReversedScores
from flows.pages.result_pages import write_evaluation_page
from flows.scoring.evaluation_history import record_history
from flows.scoring.judged_sets import EvaluationView, JudgedSet, build_evaluation_view, exclude_queries
from flows.scoring.run_versions import find_run_version
from flows.scoring.systems import EvaluatedSystem, SystemRun
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
    `report`: a folder in place of the one beside the set; `is_stored`: whether a result without `report` is stored
    beside the set; `max_unknown`: the share of a run's queries, and of its results, that the set need not know, None:
    DEFAULT_MAX_UNKNOWN."""

    metrics: Sequence[str] = DEFAULT_METRICS
    k: int | None = None
    precisions: Sequence[float] = (0.9,)
    report: Path | None = None
    page: bool = True
    max_unknown: float | None = None
    is_stored: bool = True


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
    folder of a single result, or holds a folder per result. Raises UserError where a system cannot search this set,
    and, before the first evaluation, where a folder has the result of another run."""
    folders = _find_folders(judged, systems, directions, options)
    for direction in directions:
        view = build_evaluation_view(judged, direction, options.metrics, options.precisions)
        for system, folder in zip(systems, folders[direction], strict=True):
            scored = score_system(view, system, options.k, options.max_unknown)
            page = None
            if folder is not None:
                store_result(scored, judged.queries, folder)
                if judged.stored is not None and options.report is None and not judged.outside_queries:
                    record_history(
                        find_results_home(judged.stored.path) / RESULTS_FOLDER, system.identity, scored.result
                    )
                if options.page:
                    page = folder / result_files.PAGE_FILE
                    write_evaluation_page(scored.result, view, page)
            yield StoredResult(system, scored, folder, page)


def _find_folders(
    judged: JudgedSet, systems: Sequence[EvaluatedSystem], directions: Sequence[str], options: EvaluationOptions
) -> dict[str, list[Path | None]]:
    """By direction the folder of each system's result. Raises UserError where two would share one, or where one has the
    result of another run or another set: the same run on the same set may be evaluated again."""
    folders: dict[str, list[Path | None]] = {direction: [] for direction in directions}
    report = options.report
    for direction in directions:
        for system in systems:
            folder = find_result_folder(judged, system, direction) if options.is_stored else None
            if report is not None:
                is_single = len(systems) * len(directions) == 1
                folder = report if is_single else report / result_folder_name(system, direction)
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
        raise UserError("evaluate", folder, reason, "give this one another name (--name), or delete the folder")


def _what_is_evaluated(description: dict[str, Any]) -> tuple[str, dict[str, str] | None]:
    return description["content_digest"], description.get("part")


@step("evaluate")
def score_system(
    view: EvaluationView, system: EvaluatedSystem, k: int | None = None, max_unknown: float | None = None
) -> ScoredSystem:
    """All figures of a system. `k`: number of results per query (None: as many as the metrics need)."""
    unknown_share = DEFAULT_MAX_UNKNOWN if max_unknown is None else max_unknown
    answer, matched = _produce_run(view, system, k, unknown_share)
    return _score(exclude_queries(view, matched.new_queries), system, answer, matched)


def score_on_common_queries(
    view: EvaluationView, systems: Sequence[EvaluatedSystem], excluded: frozenset[str] = frozenset()
) -> list[ScoredSystem]:
    """All figures of several systems on the queries that the versions of all their runs have, without `excluded`."""
    produced = [_produce_run(view, system, None, DEFAULT_MAX_UNKNOWN) for system in systems]
    common = exclude_queries(view, excluded.union(*(matched.new_queries for _, matched in produced)))
    return [_score(common, system, *parts) for system, parts in zip(systems, produced, strict=True)]


def _produce_run(
    view: EvaluationView, system: EvaluatedSystem, k: int | None, max_unknown: float
) -> tuple[SystemRun, MatchedRun]:
    """The run of a system, and the part of it that the set knows, an image per duplicate group; all of it for bare
    judgments."""
    answer = system.produce_run(view, choose_search_depth(view.spec.metrics, view.spec.truth, k))
    if view.gallery_ids is None:
        return answer, MatchedRun(answer.run)
    column = "query_id" if view.is_image_to_text else "image_id"
    inside = answer.run[~answer.run["query_id"].isin(view.judged_set.outside_queries)]
    run, folded = fold_run(inside, view.judged_set.representatives, column)
    version = None if system.is_of_this_version else find_run_version(run, view, system.result_folder)
    matched = match_run(run, view.all_query_ids, view.gallery_ids, version, max_unknown)
    counts = {"results_counted_as_their_representative": folded} if folded else {}
    return answer, replace(matched, counts=counts | matched.counts)


def _score(view: EvaluationView, system: EvaluatedSystem, answer: SystemRun, matched: MatchedRun) -> ScoredSystem:
    run = matched.run
    if view.gallery_ids is not None:  # a run of another version may have queries that this view excludes
        run = run[run["query_id"].isin(view.all_query_ids.to_pylist())]
    ranked = rank_run(run, view.spec.truth)
    if answer.find_reversal is not None and (found := answer.find_reversal(ranked)) is not None:
        raise _reversed_scores(found, system)
    result = evaluate_run(
        ranked,
        view.spec,
        system.description,
        warnings=[*matched.warnings, *answer.warnings],
        counts={**matched.counts, **answer.counts},
        left_out=matched.left_out,
    )
    return ScoredSystem(result, build_ranked_table(ranked), system.ledger)


def _reversed_scores(found: ReversedScores, system: EvaluatedSystem) -> UserError:
    reason = (
        f"puts relevant images last: in {found.queries:,} queries they stand before {found.auc:.0%} of the others, as "
        f"where scores are distances"
    )
    next_step = "give --scores distance to read the lowest as the best, or --scores likeness to keep this order"
    return UserError("read run", system.description["name"], reason, next_step)


def find_results_home(version: Path) -> Path:
    """The folder beside whose versions results are stored: the set's; for a copy of a set in object storage, the folder
    that the set would have here."""
    return Path("datasets") / version.parent.name if is_fetched_copy(version) else version.parent


def find_result_folder(judged: JudgedSet, system: EvaluatedSystem, direction: str = TEXT_TO_IMAGE) -> Path | None:
    """The folder of a system's result beside the set, <name>/evaluations/v<N>/<system>, with parts/<values> before the
    system's for a part of a set; None for bare judgments. Raises UserError where a folder on the way is a link: a set
    from a stranger would have the result written elsewhere."""
    if judged.stored is None:
        return None
    version = judged.stored.path
    below = f"{RESULTS_FOLDER}/{version.name}"
    if part := judged.description.get("part"):  # apart: leaderboards and the like are of whole sets
        below += "/parts/" + _UNSAFE.sub("-", "_".join(f"{column}-{value}" for column, value in part.items()))
    return contained_path(
        find_results_home(version), f"{below}/{result_folder_name(system, direction)}", "write result"
    )


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
    if len(result.result.left_out):
        tables[result_files.LEFT_OUT_FILE] = result.result.left_out
    result_data = result_to_json(result.result) | {"funnel": result.ledger.funnel()}
    result_files.write_result(folder, result_data, tables, describe_environment(_PACKAGES))


def load_stored_results(path: Path, direction: str = TEXT_TO_IMAGE) -> dict[str, tuple[dict[str, Any], pd.DataFrame]]:
    """By the name of the system its result.json and its figures by query, of all results beside the version at
    `path`."""
    results_by_system = {}
    results = contained_path(path.parent, f"{RESULTS_FOLDER}/{path.name}", "read result")
    for folder in sorted(contained_path(results, found.name, "read result") for found in results.glob("*/")):
        if (folder / result_files.RESULT_FILE).is_file():
            result_data = result_files.read_result(folder)
            if result_data["direction"] == direction:
                name = folder.name.removesuffix(f".{direction}")
                results_by_system[name] = result_data, result_files.read_per_query(folder, result_data)
    return results_by_system
