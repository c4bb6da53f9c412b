"""Draws the sample of an audit and stores it beside the set's versions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from backends.sets.audit_files import audit_folder, list_audits, read_audit_manifest, write_audit
from builders.audit.pool import AuditPool
from builders.audit.sample import draw_outside, draw_pairs, draw_queries, order_sample
from builders.benchmark_set import canonical_json
from builders.errors import UserError
from builders.records import content_id
from flows.audits.audit_judge import JudgeLabels
from flows.audits.audit_plan import AuditSize, allocate_judgments
from flows.audits.audit_pools import AUDIT_STAGE, PooledSet
from flows.steps import step

_SCHEMA_VERSION = 1


@step("draw sample")
def start_audit(
    path: Path, pooled: PooledSet, name: str, size: AuditSize, *, depth: int, seed: int, judged: JudgeLabels | None
) -> dict[str, Any]:
    """Draws and stores an audit of the set at `path`; returns its manifest. The same set, runs, judge, size and seed
    give the same audit, and one that is there already is kept. Raises UserError where another audit has the name."""
    if judged is not None:
        pooled = replace(pooled, pool=pooled.pool.divide_by_judge(judged.grades, judged.reasons))
    folder = audit_folder(path.parent, name)
    sample, drawn_queries = _draw(pooled, size, seed)
    manifest: dict[str, Any] = {
        "schema_version": _SCHEMA_VERSION,
        "name": name,
        "set": {key: pooled.judged.description[key] for key in ("name", "version", "content_digest")},
        "systems": [{"name": system, "digest": digest} for system, digest in pooled.systems.items()],
        "judge": None if judged is None else judged.record,
        "depth": depth,
        "seed": seed,
        "unit": "pairs" if size.queries is None else "queries",
        "queries": len(pooled.query_ids),
        "drawn_queries": drawn_queries,
        "strata": count_strata(pooled.pool, sample),
        "outside": {"pairs": pooled.pool.outside_size, "drawn": int((sample["stratum"] == "outside").sum())},
    }
    if size.people > 1:
        manifest["people"] = size.people
    pairs = sample[["query_id", "image_id"]].to_csv(index=False)
    manifest["audit_id"] = content_id("a", canonical_json(manifest).decode(), pairs)
    if name in list_audits(path.parent):
        stored = read_audit_manifest(folder)
        if stored["audit_id"] == manifest["audit_id"]:
            return stored
        reason = "is an audit of another version, with another seed, size or judge, or other runs"
        raise UserError(AUDIT_STAGE, name, reason, "give another --name, or add systems: audit extend")
    return write_audit(folder, manifest, {"pool": pooled.pool.pairs, "ranks": pooled.pool.ranks, "sample": sample})


def _draw(pooled: PooledSet, size: AuditSize, seed: int) -> tuple[pd.DataFrame, list[str]]:
    pool = pooled.pool
    if size.queries is not None:
        return draw_queries(pool, pooled.query_ids, size.queries, seed)
    allocation, outside_count = allocate_judgments(pool, size)
    inside = draw_pairs(pool, allocation, seed)
    outside = draw_outside(pool, pooled.query_ids, pooled.image_ids, outside_count, seed)
    return order_sample(pd.concat([inside, outside], ignore_index=True), seed), []


def count_strata(pool: AuditPool, sample: pd.DataFrame) -> list[dict[str, Any]]:
    """Returns the pairs and the drawn ones by stratum, for a manifest."""
    drawn = sample["stratum"].value_counts()
    return [
        {"stratum": name, "pairs": count, "drawn": int(drawn.get(name, 0))}
        for name, count in pool.count_strata().items()
    ]
