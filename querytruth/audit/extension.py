"""Adds systems to an audit that has begun: the pool grows, and no drawn pair is lost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from querytruth.audit.answers import load_audit, read_answers
from querytruth.audit.audit_files import StoredAudit, replace_audit
from querytruth.audit.definition import JudgeOptions
from querytruth.audit.judge import JUDGE_STAGE, JudgeQuestions, judge_pool, load_judge
from querytruth.audit.pair_audit import PairAudit, allocate_more, find_further
from querytruth.audit.pool import (
    AUDIT_STAGE,
    JUDGED_RELEVANT,
    OUTSIDE,
    PAIR,
    AuditPool,
    PooledSet,
    build_audit_pool,
    draw_added_pairs,
    find_added_pairs,
    mark_added,
    name_system,
    order_sample,
    pool_set,
)
from querytruth.audit.steps import AuditSize, allocate_judgments, count_strata
from querytruth.backends.models.chat import ChatModel
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import open_candidate_judgments
from querytruth.sets.set_files import StoredSet


@dataclass(frozen=True, slots=True)
class AuditExtension:
    """The audit, its version, and the pairs that later systems add to its pool: `pooled` has these alone."""

    audit: StoredAudit
    stored: StoredSet
    pooled: PooledSet
    pool: AuditPool  # the whole one
    judge: ChatModel | None


def find_new_runs(path: Path, name: str, runs: Sequence[Path]) -> list[Path]:
    """Returns those of the runs whose system is not in the audit yet. Raises UserError for a run that cannot be read
    or is not of the audit's version."""
    if not runs:
        return []
    audit, stored = load_audit(path, name)
    known = {system["digest"] for system in audit.manifest["systems"]}
    pooled = pool_set(stored.path, runs, audit.manifest["depth"])
    return [run for run in runs if pooled.systems[name_system(run)] not in known]


def read_extension(path: Path, name: str, runs: Sequence[Path], judge: JudgeOptions | None) -> AuditExtension:
    """Returns what the runs add to an audit of the set at `path`. Raises UserError for a system that is there already
    or whose name is, and for another judge than that of the audit."""
    audit, stored = load_audit(path, name)
    pooled = pool_set(stored.path, runs, audit.manifest["depth"])
    known = {system["name"]: system["digest"] for system in audit.manifest["systems"]}
    for system, digest in pooled.systems.items():
        if system in known or digest in known.values():
            reason = (
                "is a system of this audit already" if digest in known.values() else "is the name of another system"
            )
            raise UserError(AUDIT_STAGE, system, reason, "leave it out, or rename the file or folder")
    ranked = {str(system): rows for system, rows in audit.ranks.groupby("system")}
    ranked |= {str(system): rows for system, rows in pooled.pool.ranks.groupby("system")}
    tables = stored.tables
    candidates = open_candidate_judgments(tables)
    pool = build_audit_pool(tables.qrels, candidates, ranked, len(tables.queries), len(tables.images))
    added = replace(pooled, pool=find_added_pairs(audit.pool, pool))
    return AuditExtension(audit, stored, added, pool, _load_same_judge(audit, stored, added, runs, judge))


def _load_same_judge(
    audit: StoredAudit, stored: StoredSet, added: PooledSet, runs: Sequence[Path], judge: JudgeOptions | None
) -> ChatModel | None:
    known = audit.manifest["judge"]
    if (known is None) != (judge is None):
        reason = "has no judge" if known is None else f"has the judge {known['name']}"
        next_step = "leave out --judge" if known is None else "give the same --judge and --judge-option"
        raise UserError(JUDGE_STAGE, audit.manifest["name"], reason, next_step)
    if judge is None:
        return None
    model = load_judge(judge, added, runs)
    if JudgeQuestions(stored, ()).describe_judge(model)["digest"] != known["digest"]:
        reason = f"is not the judge of this audit, {known['name']}, or its revision, parameters or prompt are others"
        raise UserError(JUDGE_STAGE, model.identity.name, reason, "give the same judge")
    return model


@step("extend sample")
def extend_audit(extension: AuditExtension, judgments: int) -> dict[str, Any]:
    """Draws `judgments` of the added pairs, or, in an audit of whole queries, all of those queries; stores the audit
    and returns its manifest. What was drawn and answered stays. The added pairs are strata of their own."""
    audit, added = extension.audit, extension.pooled.pool
    record: dict[str, Any] = {"systems": sorted(extension.pooled.systems)}
    if extension.judge is not None and len(added.pairs):
        judged = judge_pool(extension.judge, extension.pooled)
        added = added.divide_by_judge(judged.grades, judged.reasons)
        record |= {key: judged.record[key] for key in ("replies", "without_grade")}
    number = len(audit.manifest.get("extensions", ())) + 1
    drawn = _draw(audit, added, judgments)
    drawn = drawn.assign(stratum=mark_added(drawn["stratum"], number))
    pairs = pd.concat(
        [audit.pool, added.pairs.assign(stratum=mark_added(added.pairs["stratum"], number))], ignore_index=True
    ).sort_values(PAIR, ignore_index=True)
    pool = replace(extension.pool, pairs=pairs)
    sample = _join_samples(audit.sample, drawn, pool.outside_size)
    record["drawn"] = len(sample) - len(audit.sample)
    systems = [{"name": name, "digest": digest} for name, digest in extension.pooled.systems.items()]
    manifest = {key: value for key, value in audit.manifest.items() if key not in ("files", "manifest_digest")} | {
        "systems": sorted([*audit.manifest["systems"], *systems], key=lambda system: str(system["name"])),
        "strata": count_strata(pool, sample),
        "outside": {"pairs": pool.outside_size, "drawn": int((sample["stratum"] == OUTSIDE).sum())},
        "extensions": [*audit.manifest.get("extensions", ()), record],
    }
    return replace_audit(audit.path, manifest, {"pool": pairs, "ranks": pool.ranks, "sample": sample})


@step("narrow sample")
def narrow_audit(path: Path, name: str, width: float) -> dict[str, Any]:
    """Draws as many further pairs as an interval of the missing share of this width lacks, by the shares of relevant
    pairs among the answers so far; stores the audit and returns its manifest. To be repeated, once they are answered,
    until the width is reached. Raises UserError for whole queries, and while drawn pairs wait for answers."""
    audit, _ = load_audit(path, name)
    inside = audit.sample[audit.sample["stratum"] != OUTSIDE]
    answers = read_answers(path, audit)
    known = set(answers.grades) | set(answers.undetermined)
    waiting = sum(pair not in known for pair in inside[PAIR].itertuples(index=False, name=None))
    if audit.manifest["unit"] == "queries" or waiting:
        reason = f"{waiting} drawn pairs wait for an answer" if waiting else "is of whole queries"
        raise UserError(AUDIT_STAGE, name, reason, "answer them first" if waiting else "start another with --queries")
    relevant = answers.relevant()
    relevant = relevant[relevant.index.isin(pd.MultiIndex.from_frame(inside[PAIR]))]
    estimates = PairAudit.from_answers(audit.pool, relevant)
    counts, is_judged = estimates.count(), np.array([one.startswith(JUDGED_RELEVANT) for one in estimates.strata])
    more = allocate_more(counts, find_further(counts, is_judged, width))
    drawn_before = inside["stratum"].value_counts()
    allocation = {
        one: int(drawn_before.get(one, 0) + count) for one, count in zip(estimates.strata, more.tolist(), strict=True)
    }
    pool = AuditPool(audit.pool, audit.ranks, audit.manifest["outside"]["pairs"])
    drawn = draw_added_pairs(pool, allocation, audit.sample, audit.manifest["seed"])
    sample = _join_samples(audit.sample, drawn, pool.outside_size)
    record = {"systems": [], "width": width, "drawn": len(sample) - len(audit.sample)}
    manifest = {key: value for key, value in audit.manifest.items() if key not in ("files", "manifest_digest")} | {
        "strata": count_strata(pool, sample),
        "extensions": [*audit.manifest.get("extensions", ()), record],
    }
    return replace_audit(audit.path, manifest, {"pool": audit.pool, "ranks": audit.ranks, "sample": sample})


def _draw(audit: StoredAudit, added: AuditPool, judgments: int) -> pd.DataFrame:
    if audit.manifest["unit"] == "queries":
        chosen = added.pairs[added.pairs["query_id"].isin(set(audit.manifest["drawn_queries"]))]
        share = len(audit.manifest["drawn_queries"]) / audit.manifest["queries"]
        return order_sample(chosen.assign(probability=share), audit.manifest["seed"])
    allocation, _ = allocate_judgments(added, AuditSize(judgments))
    return draw_added_pairs(added, allocation, audit.sample, audit.manifest["seed"])


def _join_samples(before: pd.DataFrame, drawn: pd.DataFrame, outside_size: int) -> pd.DataFrame:
    """The sample with the pairs that were added after it. A pair that was drawn outside the pool, and is in it now,
    keeps its place and has its new stratum."""
    strata = drawn.set_index(PAIR)[["stratum", "probability"]]
    keys = pd.MultiIndex.from_frame(before[PAIR])
    now = strata.reindex(keys)
    known = now["stratum"].notna().to_numpy()
    kept = before.assign(
        stratum=now["stratum"].where(known, before["stratum"].to_numpy()).to_numpy(),
        probability=now["probability"].where(known, before["probability"].to_numpy()).to_numpy(),
    )
    is_outside = kept["stratum"] == OUTSIDE
    share = int(is_outside.sum()) / max(outside_size, 1)
    kept["probability"] = kept["probability"].where(~is_outside, share)
    new = drawn[~pd.MultiIndex.from_frame(drawn[PAIR]).isin(keys)].reset_index(drop=True)
    new = new.assign(order=len(before) + 1 + new.index)
    return pd.concat([kept, new], ignore_index=True)
