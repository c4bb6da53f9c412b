"""What is added to an audit that has begun: systems, judgments, and the next cards of an audit until a goal.

The pool grows, and no drawn pair is lost. Cards are planned from all answers so far, kept, and only then shown; each
person has cards of their own for a while, so that several who judge at once are asked different ones."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.audit import audit_files
from querytruth.audit.answers import AuditAnswers, load_audit
from querytruth.audit.audit_files import AuditedSystem, AuditManifest, Extension
from querytruth.audit.definition import AuditSize, JudgeOptions
from querytruth.audit.judge import JUDGE_STAGE, SetQuestions, choose_form, judge_pool, load_judge
from querytruth.audit.next_cards import AnsweredPool, PooledPairs
from querytruth.audit.pool import (
    AUDIT_STAGE,
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
from querytruth.audit.steps import allocate_judgments, count_strata
from querytruth.backends.models.chat import ChatModel
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import open_candidate_judgments
from querytruth.sets.set_files import StoredSet

_OUTSIDE_CARDS = 2_000  # that an audit until a goal draws at most
_CLAIM_SECONDS = 300
_SEPARATOR = "/"  # between query and image in a claim


class CardAudit:
    """An audit until a goal: its pool, and what its cards and answers certify."""

    def __init__(self, audit: audit_files.StoredAudit, stored: StoredSet) -> None:
        self.audit, self.goal = audit, audit.manifest.get("goal", 0.0)
        self.people = int(audit.manifest.get("people", 1))
        pool = AuditPool(audit.pool, audit.ranks, audit.manifest["outside"]["pairs"])
        tables = stored.tables
        queries, images = (
            [str(name) for name in ids] for ids in (tables.queries["query_id"], tables.images["image_id"])
        )
        self.pool = PooledPairs.from_audit(pool, queries, images, audit.manifest["seed"], _OUTSIDE_CARDS)

    def answer(self, answers: AuditAnswers, cards: pd.DataFrame | None = None) -> AnsweredPool:
        """Returns the bounds by these answers. Pairs of which people cannot tell count as not relevant; those on which
        they differ wait."""
        unsure = set(answers.undetermined) - set(answers.disputed)
        known = dict.fromkeys(unsure, False) | {pair: grade > 0 for pair, grade in answers.grades.items()}
        return self.pool.find_cards(audit_files.read_cards(self.audit.path) if cards is None else cards, known)

    def hand_out(self, answers: AuditAnswers, reviewer: str, count: int) -> list[tuple[str, str]]:
        """Returns up to so many pairs for this person to judge, none once the goal is reached: cards that nobody else
        has at the moment, of rounds that are kept before. Raises UserError where they cannot be written."""
        folder, now = self.audit.path, time.time()
        with audit_files.lock_cards(folder) as append:
            cards = audit_files.read_cards(folder, lock=False)
            answered = self.answer(answers, cards)
            if answered.recall >= self.goal:
                return []
            claims = {
                pair: claim
                for pair, claim in audit_files.read_claims(folder).items()
                if now - claim[1] < _CLAIM_SECONDS
            }
            free = self._list_free(cards, answers, reviewer, claims)
            while len(free) < count:
                asked_outside = int((cards["stratum"] == OUTSIDE).sum())
                new = self.pool.name_cards(answered.plan_round(self.goal), len(cards), asked_outside)
                if not len(new):
                    break
                append(new)
                cards = pd.concat([cards, new], ignore_index=True)
                answered = self.answer(answers, cards)
                free = self._list_free(cards, answers, reviewer, claims)
            claims |= {_SEPARATOR.join(pair): [reviewer, now] for pair in free[:count]}
            audit_files.write_claims(folder, claims)
        return free[:count]

    def _list_free(
        self, cards: pd.DataFrame, answers: AuditAnswers, reviewer: str, claims: dict[str, list[Any]]
    ) -> list[tuple[str, str]]:
        pairs = cards.sort_values("order")[PAIR].itertuples(index=False, name=None)

        def is_wanted(pair: tuple[str, str]) -> bool:
            known = answers.reviewers.get(pair, [])
            return reviewer not in known and len(known) < self.people + (pair in answers.disputed)

        return [
            pair for pair in filter(is_wanted, pairs) if claims.get(_SEPARATOR.join(pair), [reviewer])[0] == reviewer
        ]


@dataclass(frozen=True, slots=True)
class AuditExtension:
    """The audit, its version, and the pairs that later systems add to its pool: `pooled` has these alone."""

    audit: audit_files.StoredAudit
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
    if audit.manifest["unit"] == audit_files.CARDS_UNIT:
        reason = "is certified for the systems that it began with"
        raise UserError(AUDIT_STAGE, name, reason, "start another audit with all of them: --name, --until")
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
    audit: audit_files.StoredAudit,
    stored: StoredSet,
    added: PooledSet,
    runs: Sequence[Path],
    judge: JudgeOptions | None,
) -> ChatModel | None:
    known = audit.manifest["judge"]
    if (known is None) != (judge is None):
        reason = "has no judge" if known is None else f"has the judge {known['name']}"
        next_step = "leave out --judge" if known is None else "give the same --judge and --judge-option"
        raise UserError(JUDGE_STAGE, audit.manifest["name"], reason, next_step)
    if judge is None or known is None:
        return None
    model = load_judge(judge, added, runs)
    if SetQuestions(stored, (), choose_form(judge), judge.samples).describe_judge(model)["digest"] != known["digest"]:
        reason = f"is not the judge of this audit, {known['name']}, or its revision, parameters or prompt are others"
        raise UserError(JUDGE_STAGE, model.identity.name, reason, "give the same judge")
    return model


@step("extend sample")
def extend_audit(extension: AuditExtension, judgments: int) -> AuditManifest:
    """Draws `judgments` of the added pairs, or, in an audit of whole queries, all of those queries; stores the audit
    and returns its manifest. What was drawn and answered stays. The added pairs are strata of their own."""
    audit, added = extension.audit, extension.pooled.pool
    record: Extension = {"systems": sorted(extension.pooled.systems), "drawn": 0}
    if extension.judge is not None and len(added.pairs):
        judged = judge_pool(extension.judge, extension.pooled)
        added = added.divide_by_judge(judged.grades, judged.reasons)
        record["replies"], record["without_grade"] = judged.record["replies"], judged.record["without_grade"]
    number = len(audit.manifest.get("extensions", ())) + 1
    drawn = _draw(audit, added, judgments)
    drawn = drawn.assign(stratum=mark_added(drawn["stratum"], number))
    pairs = pd.concat(
        [audit.pool, added.pairs.assign(stratum=mark_added(added.pairs["stratum"], number))], ignore_index=True
    ).sort_values(PAIR, ignore_index=True)
    pool = replace(extension.pool, pairs=pairs)
    sample = _join_samples(audit.sample, drawn, pool.outside_size)
    record["drawn"] = len(sample) - len(audit.sample)
    systems: list[AuditedSystem] = [
        {"name": name, "digest": digest} for name, digest in extension.pooled.systems.items()
    ]
    manifest: AuditManifest = {
        **audit.manifest,
        "systems": sorted([*audit.manifest["systems"], *systems], key=lambda system: system["name"]),
        "strata": count_strata(pool, sample),
        "outside": {"pairs": pool.outside_size, "drawn": int((sample["stratum"] == OUTSIDE).sum())},
        "extensions": [*audit.manifest.get("extensions", ()), record],
    }
    return audit_files.replace_audit(audit.path, manifest, {"pool": pairs, "ranks": pool.ranks, "sample": sample})


def _draw(audit: audit_files.StoredAudit, added: AuditPool, judgments: int) -> pd.DataFrame:
    if audit.manifest["unit"] == "queries":
        chosen = added.pairs[added.pairs["query_id"].isin(set(audit.manifest["drawn_queries"]))]
        share = len(audit.manifest["drawn_queries"]) / audit.manifest["queries"]
        return order_sample(chosen.assign(probability=share), audit.manifest["seed"])
    allocation, _ = allocate_judgments(added, AuditSize.model_construct(judgments=judgments))
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
