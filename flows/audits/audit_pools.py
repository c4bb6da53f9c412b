"""Reads a set and the runs of systems into the pool of an audit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from backends.run_files.result_files import find_run_file
from backends.run_files.run_reader import read_run
from backends.sets.set_files import StoredSet
from builders.audit.pool import AuditPool, build_audit_pool
from builders.benchmark_set import open_candidate_judgments
from builders.errors import UserError
from builders.records import content_id
from evaluation.duplicate_folding import fold_run
from evaluation.result_pool import rank_first_results
from flows.scoring.judged_sets import JudgedSet, load_judged_set
from flows.steps import step

AUDIT_STAGE = "audit"
_NO_RUN = "give --run RUN, or runs in the definition"


@dataclass(frozen=True, slots=True)
class PooledSet:
    """A set, the pool of an audit of it, and a digest of each system's pooled results by its name."""

    judged: JudgedSet
    stored: StoredSet
    pool: AuditPool
    systems: dict[str, str]

    @property
    def query_ids(self) -> list[str]:
        """The ids of all queries of the set."""
        return [str(name) for name in self.stored.tables.queries["query_id"]]

    @property
    def image_ids(self) -> list[str]:
        """The ids of all images, one per duplicate group."""
        return [str(name) for name in self.stored.tables.images["image_id"]]

    @property
    def name(self) -> str:
        """The set's name and version."""
        return f"{self.judged.description['name']}/v{self.judged.description['version']}"


@step("pool results")
def pool_set(path: Path, runs: Sequence[Path], depth: int) -> PooledSet:
    """Loads the set at `path` and pools the first `depth` results of each run. Raises UserError for a run that is not
    of this set, for two of one name, and where no run is that deep."""
    if not runs:
        raise UserError(AUDIT_STAGE, path, "has no system whose results could be judged", _NO_RUN)
    judged = load_judged_set(path)
    if judged.stored is None:  # only judgments from a file
        raise UserError(AUDIT_STAGE, path, "is no published set", "name a set")
    tables = judged.stored.tables
    ranked: dict[str, pd.DataFrame] = {}
    for run in runs:
        name = name_system(run)
        if name in ranked:
            raise UserError(AUDIT_STAGE, run, f"is the second system named {name}", "rename the file or folder")
        ranked[name] = _rank_results(run, judged, depth)
    deepest = max(int(table["rank"].max()) for table in ranked.values())
    if deepest < depth:
        reason = f"no system returns {depth} results, the deepest has {deepest}"
        raise UserError(AUDIT_STAGE, path.parent.name, reason, f"give deeper runs, or --depth {deepest}")
    candidates = open_candidate_judgments(tables)
    pool = build_audit_pool(tables.qrels, candidates, ranked, len(tables.queries), len(tables.images))
    systems = {name: content_id("run", table.to_csv(index=False)) for name, table in sorted(ranked.items())}
    return PooledSet(judged, judged.stored, pool, systems)


def name_system(run: Path) -> str:
    """Returns the name of a result's folder, else of the file without its suffix."""
    resolved = run.resolve()
    return resolved.name if resolved.is_dir() else resolved.stem


def _rank_results(path: Path, judged: JudgedSet, depth: int) -> pd.DataFrame:
    run, _ = fold_run(read_run(find_run_file(path)), judged.representatives)
    queries, images = judged.queries, judged.images
    assert queries is not None and images is not None
    known = run["query_id"].isin(queries["query_id"]) & run["image_id"].isin(images["image_id"])
    if not known.all():
        reason = f"{int((~known).sum()):,} of {len(run):,} results are not of {judged.description['name']}"
        next_step = f"give a run of {judged.description['name']}/v{judged.description['version']}"
        raise UserError(AUDIT_STAGE, path, reason, next_step)
    return rank_first_results(run, depth)
