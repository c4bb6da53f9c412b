"""The steps of an audit: from its definition to the pool, the plan and the drawn sample."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from querytruth.audit import answers, audit_files
from querytruth.audit.definition import AuditDefinition, AuditKeys
from querytruth.audit.judge import (
    JudgeLabels,
    SetQuestions,
    choose_form,
    count_judge_calls,
    load_judge,
    open_judge_store,
)
from querytruth.audit.next_cards import NO_CARDS, PooledPairs
from querytruth.audit.pair_audit import allocate_sample, expected_width, split_by_judge
from querytruth.audit.pool import (
    AUDIT_STAGE,
    JUDGED_RELEVANT,
    AuditPool,
    JsonRecord,
    PooledSet,
    draw_outside,
    draw_pairs,
    expect_relevant,
    order_sample,
    pool_set,
)
from querytruth.backends.models.chat import ChatImage, ChatModel, ChatRequest
from querytruth.backends.steps import step
from querytruth.definitions import PriceOptions
from querytruth.errors import UserError
from querytruth.evaluation.steps import load_stored_results
from querytruth.questions import forecast_calls, guess_tokens
from querytruth.records import content_id
from querytruth.sets import decision_log, decision_records, set_files
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.published_files import RESULTS_FOLDER

ASSUMED_SECONDS = 6.0  # for a pair, where the log shows no pace
_SCHEMA_VERSION = 1
_SHARES = (0.01, 0.05, 0.2)  # of relevant pairs, for which a plan states widths
_ASSUMED_SIDE = 1024  # pixels of an image that is not rendered


def allocate_judgments(pool: AuditPool, size: AuditKeys) -> tuple[dict[str, int], int]:
    """Return the number of pairs to draw, by stratum, and from outside the pool."""
    total = size.judgments
    parts: dict[str, dict[str, int]] = {}
    for name, count in pool.count_strata().items():
        parts.setdefault(name.partition(".")[0], {})[name] = count
    sizes = {stratum: sum(counts.values()) for stratum, counts in parts.items()}
    outside = min(_share_of(total, size.strata.outside), pool.outside_size)
    judged = min(
        sizes.get(JUDGED_RELEVANT, 0), max(_share_of(total - outside, size.strata.judged_relevant), size.strata.floor)
    )
    others = [stratum for stratum in sizes if stratum != JUDGED_RELEVANT]
    expected = [expect_relevant(stratum) for stratum in others]
    rest = max(total - outside - judged, 0)
    drawn = allocate_sample([sizes[stratum] for stratum in others], expected, rest, size.strata.floor)
    wanted = {JUDGED_RELEVANT: judged} | dict(zip(others, map(int, drawn), strict=True))
    allocation: dict[str, int] = {}
    for stratum, counts in parts.items():
        split = split_by_judge(list(counts.values()), [expect_relevant(name) for name in counts], wanted[stratum])
        allocation |= dict(zip(counts, map(int, split), strict=True))
    return allocation, outside


def _share_of(total: int, share: float) -> int:
    return math.floor(total * share + 1e-9)  # 0.1 of 30 is 3


def expect_width(pool: AuditPool, allocation: dict[str, int], share: float) -> float:
    """Return the width of the missing share's interval if this share of the pairs that the set does not call relevant
    is relevant; nobody knows it before people have judged."""
    strata = pool.count_strata()
    names = [name for name in strata if allocation.get(name)]
    sizes, drawn = (np.array([by[name] for name in names], dtype=np.float64) for by in (strata, allocation))
    is_judged = np.array([name.startswith(JUDGED_RELEVANT) for name in names])
    expected = np.where(is_judged, expect_relevant(JUDGED_RELEVANT), share)
    return expected_width(sizes, drawn, expected, is_judged)


def plan_audit(path: Path, pooled: PooledSet, size: AuditKeys, judge: ChatModel | None = None) -> JsonRecord:
    """Return what an audit would judge: the strata, the width expected, a person's hours, and the calls of the
    judge. Writes nothing, asks nothing."""
    pool, strata = pooled.pool, pooled.pool.count_strata()
    decisions = decision_log.read_decisions(path.parent, decision_records.QueryDecision)
    seconds = answers.median_seconds(decisions)
    if size.goal is not None:
        whole = PooledPairs.from_audit(pool, pooled.query_ids, pooled.image_ids, 0, 0)
        to_goal = whole.find_cards(NO_CARDS, {}).certify(size.goal)["to_goal"]
        allocation, outside = dict[str, int](), 0
    else:
        allocation, outside = allocate_judgments(pool, size)
    judgments = to_goal if size.goal is not None else sum(allocation.values()) + outside
    calls = 0 if judge is None else count_judge_calls(judge, pooled)
    price = size.judge.price if isinstance(size, AuditDefinition) and size.judge is not None else None
    return {
        "set": pooled.name,
        "systems": list(pooled.systems),
        "strata": [
            {"stratum": name, "pairs": count, "to_judge": allocation.get(name, 0)} for name, count in strata.items()
        ]
        + [{"stratum": "outside", "pairs": pool.outside_size, "to_judge": outside}],
        "judgments": judgments,
        "expected_width": None
        if size.goal
        else {f"{share:.0%}": round(expect_width(pool, allocation, share), 3) for share in _SHARES},
        "seconds_per_judgment": ASSUMED_SECONDS if seconds is None else seconds,
        "judge": None if judge is None else judge.identity.name,
        "judge_calls": calls,
        "judge_cost": None if judge is None else _forecast_cost(judge, pooled, calls, price),
        "pace_is_assumed": seconds is None,
        "people": size.people,
        "hours": round(judgments * size.people * (ASSUMED_SECONDS if seconds is None else seconds) / 3600, 2),
    }


def _forecast_cost(
    judge: ChatModel, pooled: PooledSet, calls: int, price: PriceOptions | None
) -> dict[str, float | None]:
    """Return the tokens and seconds of the calls as the reply store measured them; None where nothing was measured.
    With a price its currency, too, by measured tokens or a guess at them."""
    asking = SetQuestions(pooled.stored, (), pooled.judge_form, pooled.samples)
    render = pooled.stored.manifest["notes"].get("render") or {}
    asked = asking.build(next(iter(asking.queries)), ChatImage(Path(), "")) if asking.queries else ChatRequest(())
    guess = guess_tokens(
        [message.text for message in asked.messages], asked.parameters.max_tokens, render.get("size", _ASSUMED_SIDE)
    )
    store = open_judge_store(pooled.stored)
    forecast = forecast_calls(store, judge, "judge", calls, price=price, guess=guess)
    money = {} if forecast.cost is None else {forecast.currency: round(forecast.cost, 2)}
    measured = {
        "tokens": None if forecast.tokens is None or not forecast.is_counted else float(sum(forecast.tokens)),
        "seconds": round(forecast.seconds, 1) if forecast.is_measured else None,
    }
    return measured | money


@dataclass(frozen=True, slots=True)
class PreparedAudit:
    """A planned audit: its definition, the folder of its version, the pool of its runs, and its judge."""

    definition: AuditDefinition
    path: Path
    pooled: PooledSet
    judge: ChatModel | None


def find_audited_version(definition: AuditDefinition) -> Path:
    """Return the folder of the version of an audit that has begun, whatever was published since, else of the version
    that the definition names. Raises UserError where it is not there."""
    path = set_files.find_set(definition.set, definition.out)
    if definition.name not in audit_files.list_audits(path.parent):
        return path
    known = audit_files.read_audit_manifest(audit_files.audit_folder(path.parent, definition.name))["set"]
    return set_files.find_set(str(path.parent / f"v{known['version']}"))


def prepare_audit(definition: AuditDefinition, path: Path) -> PreparedAudit:
    """Return the audit of the version at `path` with its pool: the runs of the definition or, without any, the results
    that were evaluated on this version, except baselines. Raises UserError for wrong runs or a wrong judge."""
    if not definition.runs:
        beside = [
            path.parent / RESULTS_FOLDER / path.name / name
            for name, (result, _) in load_stored_results(path).items()
            if result["system"]["kind"] != "baseline"
        ]
        definition = definition.model_copy(update={"runs": beside})
    pooled = pool_set(path, definition.runs, definition.depth)
    if definition.judge is None:
        return PreparedAudit(definition, path, pooled, None)
    pooled = replace(pooled, judge_form=choose_form(definition.judge), samples=definition.judge.samples)
    return PreparedAudit(definition, path, pooled, load_judge(definition.judge, pooled, definition.runs))


@step("draw sample")
def start_audit(
    path: Path, pooled: PooledSet, keys: AuditKeys, judged: JudgeLabels | None
) -> audit_files.AuditManifest:
    """Draw and store an audit of the set at `path`; return its manifest. The same set, runs, judge, size and seed
    give the same audit, and one that is there already is kept. Raises UserError where another audit has the name."""
    if judged is not None:
        pooled = replace(pooled, pool=pooled.pool.divide_by_judge(judged.grades, judged.reasons, judged.scores))
    name, folder, set_ = keys.name, audit_files.audit_folder(path.parent, keys.name), pooled.judged.description
    sample = _draw(pooled, keys)
    about: audit_files.DrawnAudit = {
        "schema_version": _SCHEMA_VERSION,
        "name": name,
        "set": {"name": set_["name"], "version": set_["version"], "content_digest": set_["content_digest"]},
        "systems": [{"name": system, "digest": digest} for system, digest in pooled.systems.items()],
        "judge": None if judged is None else judged.record,
        "depth": keys.depth,
        "seed": keys.seed,
        "unit": audit_files.CARDS_UNIT if keys.goal else "pairs",
        "queries": len(pooled.query_ids),
        "strata": count_strata(pooled.pool, sample),
        "outside": {"pairs": pooled.pool.outside_size, "drawn": int((sample["stratum"] == "outside").sum())},
    }
    if keys.people > 1:
        about["people"] = keys.people
    if keys.goal:
        about["goal"] = keys.goal
    audit_id = content_id("a", canonical_json(about).decode(), sample[["query_id", "image_id"]].to_csv(index=False))
    if name in audit_files.list_audits(path.parent):
        stored = audit_files.read_audit_manifest(folder)
        if stored["audit_id"] == audit_id:
            return stored
        reason = "already exists for another version, seed, size, judge or set of runs"
        raise UserError(AUDIT_STAGE, name, reason, "give another --name")
    manifest: audit_files.AuditManifest = {**about, "audit_id": audit_id, "files": {}, "manifest_digest": ""}
    return audit_files.write_audit(
        folder, manifest, {"pool": pooled.pool.pairs, "ranks": pooled.pool.ranks, "sample": sample}
    )


def _draw(pooled: PooledSet, keys: AuditKeys) -> pd.DataFrame:
    pool, seed = pooled.pool, keys.seed
    if keys.goal is not None:  # cards come as they count
        return order_sample(pool.pairs.iloc[:0].assign(probability=0.0), seed)
    allocation, outside_count = allocate_judgments(pool, keys)
    inside = draw_pairs(pool, allocation, seed)
    outside = draw_outside(pool, pooled.query_ids, pooled.image_ids, outside_count, seed)
    return order_sample(pd.concat([inside, outside], ignore_index=True), seed)


def count_strata(pool: AuditPool, sample: pd.DataFrame) -> list[audit_files.Stratum]:
    """Return the pairs and the drawn ones by stratum, for a manifest."""
    drawn = sample["stratum"].value_counts()
    return [
        {"stratum": name, "pairs": count, "drawn": int(drawn.get(name, 0))}
        for name, count in pool.count_strata().items()
    ]
