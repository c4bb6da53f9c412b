"""The steps around an evaluation: the version that a run was made for, the figures of a system, the stored result."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from querytruth.backends.files.bucket_urls import is_fetched_copy
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.id_patterns import find_pattern, match_column
from querytruth.backends.steps import describe_environment, step
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UserError
from querytruth.evaluation import ground_truth, metric_scores, open_set, ranking, result_files
from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, TEXT_TO_IMAGE, EvaluationResult
from querytruth.evaluation.judged_sets import EvaluationView, JudgedSet, exclude_queries, read_named_images
from querytruth.evaluation.published_names import translate_run
from querytruth.evaluation.result_files import read_per_query, read_result, result_to_json
from querytruth.evaluation.result_types import ResultFile
from querytruth.evaluation.run_evaluation import build_ranked_table, choose_search_depth, evaluate_run, find_thresholds
from querytruth.evaluation.run_matching import LISTED, MatchedRun, RunVersion, match_run
from querytruth.evaluation.systems import UNMAPPED, EvaluatedSystem, SystemRun
from querytruth.sets import set_files
from querytruth.sets.ledger import Ledger
from querytruth.sets.published_files import RESULTS_FOLDER

_PADDING = "-1"  # FAISS and hnswlib fill up with it, at a score of ±3.4e38
_UNSAFE = re.compile(r"[^\w.@-]+")
_PACKAGES = ("querytruth", "numpy", "pandas", "pyarrow", "faiss-cpu", "torch", "transformers")


def find_run_version(run: pd.DataFrame, view: EvaluationView, result_folder: Path | None) -> RunVersion | None:
    """Return the version of the set that a run was made for, None for this one or for none that is known.

    The result in `result_folder`, where the run is from one, states it. Otherwise it is the version that has more of
    the run's queries than this one, or more of its results, or whose queries the run answers all where it leaves out
    queries of this one; of several such versions the one that fits best, the newest first."""
    if (stored := view.judged_set.stored) is None or not len(run):
        return None
    if result_folder is not None:
        return _read_result_version(view, result_folder)
    asked, found = (frozenset(run[column].unique().astype("str")) for column in ("query_id", "image_id"))
    gallery = frozenset([] if view.gallery_ids is None else view.gallery_ids.to_pylist())
    unknown = len(asked.difference(view.all_query_ids.to_pylist())), len(found - gallery)
    left_out = len(frozenset(view.query_ids.to_pylist()) - asked)
    if not any(unknown) and not left_out:
        return None
    best, best_misfit = None, (*unknown, left_out)
    for version, answered in _read_other_versions(stored.path, view):
        misfit = len(asked - version.query_ids), len(found - version.result_ids), len(answered - asked)
        if misfit < best_misfit and (misfit[:2] < best_misfit[:2] or not misfit[2]):
            best, best_misfit = version, misfit
    return best


def _read_result_version(view: EvaluationView, folder: Path) -> RunVersion | None:
    result, current = read_result(folder), view.judged_set.description
    described = result["set"]
    is_other = described["name"] == current["name"] and described["content_digest"] != current["content_digest"]
    if not is_other:
        return None
    name = f"v{described['version']}"
    results = next((one.result_ids for one, _ in _read_other_versions(_path(view), view) if one.name == name), None)
    return RunVersion(name, frozenset(read_per_query(folder, result).index.astype("str")), results or frozenset())


def _path(view: EvaluationView) -> Path:
    assert view.judged_set.stored is not None
    return view.judged_set.stored.path


def _read_other_versions(path: Path, view: EvaluationView) -> Iterator[tuple[RunVersion, frozenset[str]]]:
    """Yield the set's readable other versions, the newest first, each with the queries that have a relevant result."""
    siblings = {int(one.name[1:]): one for one in path.parent.glob("v*") if one.name[1:].isdigit() and one != path}
    representatives = view.judged_set.representatives.to_dict()
    for number in sorted(siblings, reverse=True):
        try:
            tables = set_files.read_set(siblings[number], ("queries", "images", "qrels")).tables
        except UserError:
            continue  # a version that is damaged or was not finished
        ids = frozenset(tables.queries["query_id"]), frozenset(tables.images["image_id"])
        is_image_to_text = view.spec.direction == IMAGE_TO_TEXT
        qrels = metric_scores.transpose_qrels(tables.qrels) if is_image_to_text else tables.qrels
        relevant = qrels.loc[qrels["relevance"] > 0, "query_id"].astype("str").unique()
        version = RunVersion(f"v{number}", *(ids[::-1] if is_image_to_text else ids))
        yield version, frozenset(representatives.get(name, name) for name in relevant)


@dataclass(frozen=True, slots=True)
class ScoredSystem:
    """An evaluation result, the run by query and rank, and the ledger of what the system could not read."""

    result: EvaluationResult
    run: pd.DataFrame
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The result of a system and its folder, None for bare judgments without a report folder."""

    system: EvaluatedSystem
    scored: ScoredSystem
    folder: Path | None
    page: Path | None


@step("evaluate")
def score_system(
    view: EvaluationView,
    system: EvaluatedSystem,
    k: int | None = None,
    max_unknown: float | None = None,
    outside: str | None = None,
) -> ScoredSystem:
    """Return all figures of a system. `k`: number of results per query (None: as many as the metrics need). `outside`:
    keep or condense, what happens to results that the set listed and left out (None: keep for imported sets, else
    condense)."""
    answer, matched = _produce_run(view, system, k, max_unknown, outside)
    return _score(exclude_queries(view, matched.new_queries), system, answer, matched)


def score_on_common_queries(
    view: EvaluationView,
    systems: Sequence[EvaluatedSystem],
    excluded: frozenset[str] = frozenset(),
    *,
    one_gallery: bool = False,
) -> list[ScoredSystem]:
    """Return all figures of several systems on the queries that the versions of all their runs have, without
    `excluded`. `one_gallery`: raises UserError for a run of a version that has other images."""
    produced = [_produce_run(view, system) for system in systems]
    for system, (_, matched) in zip(systems, produced, strict=True):
        if one_gallery and matched.other_gallery:
            about = view.judged_set.description
            reason = f"was made on {matched.other_gallery}, whose images differ from those of v{about['version']}"
            next_step = (
                f"evaluate the search on {about['name']}/v{about['version']}, or gate on {matched.other_gallery}"
            )
            raise UserError("gate", str(system.description["name"]), reason, next_step)
    common = exclude_queries(view, excluded.union(*(matched.new_queries for _, matched in produced)))
    return [_score(common, system, *parts) for system, parts in zip(systems, produced, strict=True)]


def _produce_run(
    view: EvaluationView,
    system: EvaluatedSystem,
    k: int | None = None,
    max_unknown: float | None = None,
    outside: str | None = None,
) -> tuple[SystemRun, MatchedRun]:
    """Return the run of a system, and the part of it that counts, with one image per duplicate group; all of it for
    bare judgments."""
    answer = system.produce_run(view, choose_search_depth(view.spec.metrics, view.spec.truth, k))
    answer = _leave_out_padding(answer)
    if view.gallery_ids is None:
        return answer, MatchedRun(answer.run)
    column = "query_id" if view.is_image_to_text else "image_id"
    named, named_counts, warnings = translate_run(answer.run, view)
    inside = named[~named["query_id"].isin(view.judged_set.outside_queries)]
    run, folded = ground_truth.fold_run(inside, view.judged_set.representatives, column)
    version = None if system.is_of_this_version else find_run_version(run, view, system.result_folder)
    known = [RunVersion(LISTED, frozenset(), _find_listed(view, run, outside)), *([version] if version else [])]
    suggest = partial(_suggest_ids, view)
    matched = match_run(run, view.all_query_ids, view.gallery_ids, known, max_unknown, suggest)
    counts = named_counts | ({"results_counted_as_their_representative": folded} if folded else {})
    return answer, replace(matched, counts=counts | matched.counts, warnings=[*warnings, *matched.warnings])


def _leave_out_padding(answer: SystemRun) -> SystemRun:
    codes, ids = ground_truth.factorize_ids(answer.run["image_id"])
    is_padding = np.isin(codes, np.flatnonzero(pc.equal(ids, _PADDING).to_numpy(zero_copy_only=False)))
    if not is_padding.any():
        return answer
    detail = f"{is_padding.sum():,} results of the run are -1, the padding of an index without further results"
    warnings = [*answer.warnings, EvaluationWarning("padding", "", detail)]
    return replace(answer, run=answer.run[~is_padding].reset_index(drop=True), warnings=warnings)


def _find_listed(view: EvaluationView, run: pd.DataFrame, outside: str | None) -> frozenset[str]:
    """Return the results of a run that the set's build listed and left out, where these do not count."""
    stored, gallery = view.judged_set.stored, view.gallery_ids
    usual = "keep" if view.judged_set.description["kind"] == "imported" else "condense"
    if stored is None or gallery is None or view.is_image_to_text or (outside or usual) == "keep":
        return frozenset()
    names = ground_truth.factorize_ids(run["image_id"])[1]
    unknown = names.filter(pa.array(ground_truth.find_positions(gallery, names) < 0)).to_pylist()
    if not unknown:
        return frozenset()
    ledger = set_files.read_set(stored.path, ("ledger",)).tables.ledger
    listed = ledger.loc[ledger["kind"] == "image", ["item", "item_id"]].fillna("").astype("str")
    by_name = {name.removeprefix(UNMAPPED): name for name in unknown}
    found = match_column([*by_name], [(item, item) for item in listed["item"]], True)
    return frozenset(by_name[name] for name in {*found, *listed["item_id"]} & by_name.keys())


def _suggest_ids(view: EvaluationView, ids: list[str]) -> tuple[str, bool]:
    """Return the next step for results with these ids, and whether they are ids of the set in another form."""
    stored = view.judged_set.stored
    if stored is None or view.is_image_to_text:
        return "remove them, or count unknown results as unjudged with --max-unknown 1", False
    images = read_named_images(stored.path)
    found = find_pattern([one.removeprefix(UNMAPPED) for one in ids], images)
    if found is None or "{" not in found[0]:
        example = next(iter(images["file_name"].dropna()), images["image_id"].iloc[0])
        return (f"use image ids of the set (such as {example}), or count others as unjudged: --max-unknown 1"), False
    if ids[0].startswith(UNMAPPED):
        return f'write ids: "{found[0]}" into the file of the search', True
    return f"describe the ids with --ids '{found[0]}'", True


def _score(view: EvaluationView, system: EvaluatedSystem, answer: SystemRun, matched: MatchedRun) -> ScoredSystem:
    run = matched.run
    if view.gallery_ids is not None:  # a run of another version may have queries that this view excludes
        run = run[run["query_id"].isin(view.all_query_ids.to_pylist())]
    ranked = ranking.rank_run(run, view.spec.truth)
    if answer.find_reversal is not None and (found := answer.find_reversal(ranked)) is not None:
        raise _reversed_scores(found, system, by_rank=any(one.code == "order_by_rank" for one in answer.warnings))
    waiting, absent = view.list_waiting(), view.list_absent()
    result = evaluate_run(
        ranked,
        view.spec,
        system.description,
        warnings=[*matched.warnings, *answer.warnings],
        counts={**matched.counts, **answer.counts},
        waiting=metric_scores.bound_waiting(run, view.qrels, waiting, view.spec.metrics),
    )
    result = replace(result, left_out=matched.left_out)
    result.counts["queries_of_set"] = {
        "all": len(view.all_query_ids),
        "count": len(view.query_ids),
        "wait": len(waiting),
        "absent": len(absent),
    }
    if absent:
        shown = run[run["query_id"].isin(absent)]
        scores = shown.set_index(shown["query_id"].astype("str"))["score"]
        result = replace(result, **find_thresholds(ranked, view.spec, scores))
        result.counts["absent"] = {"queries": len(absent)}
        if not open_set.is_order_alone(ranked):
            result.counts["absent"] |= open_set.measure_absent(run, ranked, absent, result.thresholds)
    return ScoredSystem(result, build_ranked_table(ranked), system.ledger)


def _reversed_scores(found: open_set.ReversedScores, system: EvaluatedSystem, *, by_rank: bool) -> UserError:
    auc, queries = found
    reason = (
        f"ranks relevant images last: in {queries:,} queries they come before {auc:.0%} of the others, "
        f"as if {'rank 1 were the worst' if by_rank else 'scores were distances'}"
    )
    next_step = "give --scores distance to treat the lowest score as the best, or --scores likeness to keep this order"
    if by_rank:
        next_step = "give --scores likeness to order by the scores, or --scores distance to keep this order"
    if system.description["kind"] in ("system", "search"):
        next_step = "make it return the best result first, with the highest score or the smallest distance"
    return UserError("read run", system.description["name"], reason, next_step)


def find_results_home(version: Path) -> Path:
    """Return the folder beside whose versions results are stored: the set's; for a copy of a set in object storage, the
    folder that the set would have here."""
    return DATASETS_FOLDER / version.parent.name if is_fetched_copy(version) else version.parent


def find_result_folder(judged: JudgedSet, system: EvaluatedSystem, direction: str = TEXT_TO_IMAGE) -> Path | None:
    """Return the folder of a system's result beside the set, <name>/evaluations/v<N>/<system>, with parts/<values>
    before the system's for a part of a set; None for bare judgments. Raises UserError where a folder on the way is a
    link: a set from a stranger would have the result written elsewhere."""
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
    """Return a folder name for a system's result; it has the direction unless that is text to image."""
    name = _UNSAFE.sub("-", system.identity).strip("-.") or "system"
    return name if direction == TEXT_TO_IMAGE else f"{name}.{direction}"


@step("write result")
def store_result(result: ScoredSystem, queries: pd.DataFrame | None, folder: Path) -> None:
    """Replace the result in the folder (its files: querytruth/evaluation/result_files.py)."""
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


def load_stored_results(path: Path) -> dict[str, tuple[ResultFile, pd.DataFrame]]:
    """Return result.json and the figures by query, by system name, of all text-to-image results next to the version at
    `path`."""
    results_by_system = {}
    results = contained_path(path.parent, f"{RESULTS_FOLDER}/{path.name}", "read result")
    for folder in sorted(contained_path(results, found.name, "read result") for found in results.glob("*/")):
        if (folder / result_files.RESULT_FILE).is_file():
            result_data = result_files.read_result(folder)
            if result_data["direction"] == TEXT_TO_IMAGE:
                results_by_system[folder.name] = result_data, result_files.read_per_query(folder, result_data)
    return results_by_system
