"""The unjudged results of searches, from run files or the folders of evaluation results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backends.run_files.result_files import find_run_file
from backends.run_files.run_reader import read_run
from backends.sets.set_files import StoredSet
from builders.equivalent_queries import group_equivalent_queries
from builders.errors import UserError
from evaluation.duplicate_folding import find_representatives, fold_run, fold_tables
from evaluation.result_pool import pool_unjudged_pairs, rank_first_results


@dataclass(frozen=True, slots=True)
class ResultPool:
    """Unjudged pairs (query_id, image_id) by best rank, and lines for the reviewer: how many, and what is unknown."""

    pairs: list[tuple[str, str]]
    notes: list[str]


def read_result_pool(stored: StoredSet, paths: Sequence[Path], depth: int) -> ResultPool:
    """Reads the runs and pools their first `depth` results. A near-duplicate counts as the representative of its group,
    once, as in an evaluation; unknown images and queries are left out. Raises UserError for a run that cannot be read
    or that knows nothing of the set."""
    representatives = find_representatives(stored.tables.duplicates, stored.tables.images["image_id"])
    tables = fold_tables(stored.tables, representatives)
    ranked_runs, notes = [], []
    for path in paths:
        run, _ = fold_run(read_run(find_run_file(path)), representatives)
        known = run["query_id"].isin(tables.queries["query_id"])
        known &= run["image_id"].isin(tables.images["image_id"])
        if not known.any():
            reason = "names no query and no picture of the set"
            raise UserError("review", path, reason, "give a run of this set")
        if not known.all():
            notes.append(f"{path}: {int((~known).sum()):,} of {len(run):,} results are not of this set, and left out")
        ranked_runs.append(rank_first_results(run[known], depth))
    pool = pool_unjudged_pairs(ranked_runs, tables.qrels, group_equivalent_queries(tables.queries))
    waiting = f"{len(pool):,} pairs" if len(pool) else "nothing"
    notes.append(f"{waiting} among the first {depth} results to judge that nobody judged")
    return ResultPool(list(zip(pool["query_id"], pool["image_id"], strict=True)), notes)
