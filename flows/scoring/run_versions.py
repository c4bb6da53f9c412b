"""Finds the version of a set that a run was made for."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from backends.run_files.result_files import read_per_query, read_result
from backends.sets import set_files
from builders.errors import UserError
from evaluation.evaluation_result import IMAGE_TO_TEXT
from evaluation.metric_scores import transpose_qrels
from evaluation.run_matching import RunVersion
from flows.scoring.judged_sets import EvaluationView


def find_run_version(run: pd.DataFrame, view: EvaluationView, result_folder: Path | None) -> RunVersion | None:
    """Returns the version of the set that a run was made for, None for this one or for none that is known.

    The result in `result_folder`, where the run is from one, states it. Otherwise it is the version that has more of
    the run's queries than this one, or more of its results, or whose queries the run answers all where it leaves out
    queries of this one; of several such versions the one that fits best, the newest first."""
    if (stored := view.judged_set.stored) is None:
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
    """Yields the set's readable other versions, the newest first, each with the queries that have a relevant result."""
    siblings = {int(one.name[1:]): one for one in path.parent.glob("v*") if one.name[1:].isdigit() and one != path}
    representatives = view.judged_set.representatives.to_dict()
    for number in sorted(siblings, reverse=True):
        try:
            tables = set_files.read_set(siblings[number], ("queries", "images", "qrels")).tables
        except UserError:
            continue  # a version that is damaged or was not finished
        ids = frozenset(tables.queries["query_id"]), frozenset(tables.images["image_id"])
        is_image_to_text = view.spec.direction == IMAGE_TO_TEXT
        qrels = transpose_qrels(tables.qrels) if is_image_to_text else tables.qrels
        relevant = qrels.loc[qrels["relevance"] > 0, "query_id"].astype("str").unique()
        version = RunVersion(f"v{number}", *(ids[::-1] if is_image_to_text else ids))
        yield version, frozenset(representatives.get(name, name) for name in relevant)
