"""The unjudged results of searches, for people to judge.

It loads what evaluates: imported where there are runs alone, since a page opens in half the time without.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from querytruth.backends.search_systems import load_system_file
from querytruth.errors import UserError
from querytruth.evaluation import result_files, run_files, run_matching
from querytruth.evaluation.ground_truth import factorize_ids, find_representatives, fold_run, fold_tables
from querytruth.evaluation.judged_sets import read_named_images
from querytruth.evaluation.live_systems import ask_texts
from querytruth.evaluation.published_names import add_aliases, match_names, rename_ids
from querytruth.evaluation.system_answers import AskOptions
from querytruth.sets import query_texts
from querytruth.sets.set_files import StoredSet, read_set


@dataclass(frozen=True, slots=True)
class ResultPool:
    """Unjudged pairs (query_id, image_id) by best rank, and lines for the reviewer: how many, and what is unknown."""

    pairs: list[tuple[str, str]]
    notes: list[str]


def read_result_pool(stored: StoredSet, paths: Sequence[Path], depth: int, systems: Sequence[Path] = ()) -> ResultPool:
    """Read the runs, asks the services that the files `systems` describe, and pools their first `depth` results.
    A near-duplicate counts as the representative of its group, once, as in an evaluation; unknown images and
    queries are left out. Raises UserError for a run that cannot be read or that knows nothing of the set."""
    representatives = find_representatives(stored.tables.duplicates, stored.tables.images["image_id"])
    tables = fold_tables(stored.tables, representatives)
    ranked_runs, notes = [], []
    runs = [(path, _read_named_run(path, stored, representatives)) for path in paths]
    runs += [(path, ask_texts(load_system_file(path), stored, depth, AskOptions()).run) for path in systems]
    for path, named in runs:
        run, _ = fold_run(named, representatives)
        known = run["query_id"].isin(tables.queries["query_id"])
        known &= run["image_id"].isin(tables.images["image_id"])
        if not known.any():
            raise UserError("review", path, "contains no query and no image of the set", "give a run on this set")
        if not known.all():
            notes.append(
                f"{path}: {int((~known).sum()):,} of {len(run):,} results are not in this set and were left out"
            )
        ranked_runs.append(run_matching.rank_first_results(run[known], depth))
    pool = run_matching.pool_unjudged_pairs(
        ranked_runs, tables.qrels, query_texts.group_equivalent_queries(tables.queries)
    )
    waiting = f"{len(pool):,} pairs" if len(pool) else "nothing"
    notes.append(f"{waiting} of the first {depth} results wait for a judgment")
    return ResultPool(list(zip(pool["query_id"], pool["image_id"], strict=True)), notes)


def _read_named_run(path: Path, stored: StoredSet, representatives: pd.Series) -> pd.DataFrame:
    """Return a run in our ids, whichever of the set's ids and names it has."""
    run, same = run_files.read_run(result_files.find_run_file(path)), representatives.to_dict()
    named_queries = add_aliases(read_set(stored.path, ("queries", "query_aliases")).tables)
    for key, table in (("query_id", named_queries), ("image_id", read_named_images(stored.path))):
        names = factorize_ids(run[key])[1].to_pylist()
        run = rename_ids(run, key, match_names(names, set(table[key].astype("str")), table, key, same))
    return run
