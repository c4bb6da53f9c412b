"""The first two stages of a generated set: a chat model finds topics, then objects of those that people keep.

samples ─► topics ─► people's choice ─► objects ─► people's choice ─► (pictures from the web)

Each stage ends with a table for people to fill in, and the command that goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from backends.journals import line_journal
from backends.journals.stage_summary import read_summary, write_summary
from builders.errors import UserError
from builders.generated import pool_review
from builders.generated.generator_health import Health, new_by_round
from builders.generated.pool_entries import book, read_wave, tally
from builders.generated.strategies import STRATEGIES
from builders.ledger import Ledger, turned_away
from builders.review_tables import Export
from flows.definitions.generated import GeneratedDefinition
from flows.generation.generation_rounds import Rounds, folder_of, open_store
from flows.generation.object_rounds import ObjectSetup, find_objects, set_up_objects, stops
from flows.generation.pool_review import Filling, hand_out, take_back
from flows.generation.topic_rounds import find_topics, set_up_topics
from flows.steps import current, step
from prompts import Prompt

AS_HANDED_OUT = Filling()


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage came to. `stops`: topics, or the one stage, by why they stopped; `calls`: put to the model now."""

    stage: str
    file: Path
    command: str
    stops: dict[str, int]
    rows: dict[str, int]
    health: Health
    ledger: Ledger
    calls: int
    digest: str

    @property
    def awaiting(self) -> str:
        """What the person has to do next."""
        return f"awaiting review: {self.file}, then: {self.command}"


def topics_stage(definition: GeneratedDefinition, source: str, filling: Filling = AS_HANDED_OUT) -> StageResult:
    """Find topics. `source`: the definition as the person named it, for the next command; `filling`: how a table that
    they filled in before is read, when another takes its place."""
    setup = set_up_topics(definition)
    with open_store(definition) as store:
        pools, rounds, stop = find_topics(setup, store)
    export = pool_review.topic_export(definition.name, pools, rounds.waves)
    origin = _origin("topics", [setup.prompt, setup.form], setup.rules.longest, rounds)
    origin["samples"] = setup.sha256
    return _ended("topics", definition, export, rounds, {stop: 1}, origin, f"querytruth objects {source}", filling)


def objects_stage(definition: GeneratedDefinition, source: str, filling: Filling = AS_HANDED_OUT) -> StageResult:
    """Find objects of the topics that people kept in the first stage's table; `filling`: how that table is read."""
    chosen = chosen_topics(definition, source, filling)
    setup = set_up_objects(definition, chosen)
    with open_store(definition) as store:
        pools, rounds = find_objects(setup, store)
    by_class = chosen if setup.strategy.by_thought else None
    export = pool_review.object_export(definition.name, pools, rounds.waves, definition.language, by_class)
    origin = _origin("objects", setup.prompts, setup.rules.longest, rounds)
    origin["models"].append(_embedder(setup))
    origin["thresholds"].append(_cut("objects.novelty", setup.cut))
    origin["under_two_topics"] = [f"{row.text} ({row.topic})" for row in pools.twice]
    if pools.twice:
        first = ", ".join(origin["under_two_topics"][:5])
        current().reporter.say(f"{len(pools.twice)} objects stand under an earlier topic, too, and stay there: {first}")
    ended = stops(pools, rounds, definition)
    return _ended("objects", definition, export, rounds, ended, origin, f"querytruth collect {source}", filling)


@step("read reviewed topics")
def chosen_topics(definition: GeneratedDefinition, source: str, filling: Filling) -> dict[str, list[str]]:
    """People's objects by topic."""
    export, decisions = take_back(definition, "topics", f"run querytruth topics {source}", filling)
    chosen = pool_review.chosen_topics(export, decisions)
    if not chosen:
        reason = "keeps no topic with an object"
        raise UserError("read reviewed topics", definition.name, reason, "keep some in the column decision")
    return chosen


@step("read reviewed objects")
def chosen_objects(
    definition: GeneratedDefinition, source: str, filling: Filling = AS_HANDED_OUT, ledger: Ledger | None = None
) -> pd.DataFrame:
    """The queries that people kept in the second stage's table: query_id, text, topic. The `ledger` is told of those
    that they did not keep."""
    export, decisions = take_back(definition, "objects", f"run querytruth objects {source}", filling)
    chosen = pool_review.chosen_objects(export, decisions, definition.language)
    if ledger is not None:
        dropped = {decision.query_id: decision.text for decision in decisions if decision.decision == "drop"}
        twins = len(export.rows) - len(dropped) - len(chosen)  # that an edit made the same as another
        reasons = ["dropped_by_person"] * len(dropped) + ["repeated"] * twins
        texts = list(dropped.values()) + ["edited to the same as another"] * twins
        ledger.close("choice", "object", len(export.rows), len(chosen), turned_away(texts, "rejected", reasons))
    return chosen


def stage_summary(definition: GeneratedDefinition, stage: str, source: str) -> dict[str, Any]:
    """What an ended stage came to, with what a manifest says of it: funnel, inputs, models, prompts, thresholds."""
    return read_summary(folder_of(definition) / f"{stage}.json", f"run querytruth {stage} {source}")


def ended_runs(definition: GeneratedDefinition, stage: str) -> list[dict[str, Any]]:
    """The summaries of all runs of a stage that ended, whatever strategy, model and keys they had, by strategy and
    journal; `is_current`: the one that the handed-out table is of."""
    folder = folder_of(definition)
    found = [read_summary(path, "remove it") for path in sorted(folder.glob(f"{stage}-*.json"))]
    newest = folder / f"{stage}.json"
    journal = read_summary(newest, "remove it")["journal"] if newest.exists() else ""
    found.sort(key=lambda summary: (list(STRATEGIES).index(summary["strategy"]), summary["journal"]))
    return [{**summary, "is_current": summary["journal"] == journal} for summary in found]


def book_stage(definition: GeneratedDefinition, stage: str, source: str, ledger: Ledger) -> None:
    """Enter every reply and every row of an ended stage into a build's ledger."""
    journal = folder_of(definition) / stage_summary(definition, stage, source)["journal"]
    book(ledger, stage, [read_wave(line) for line in line_journal.read_lines(journal)[1:]])


@step("hand out for review")
def _ended(
    stage: str,
    definition: GeneratedDefinition,
    export: Export,
    rounds: Rounds,
    ended: dict[str, int],
    origin: dict[str, Any],
    command: str,
    filling: Filling,
) -> StageResult:
    """Table and summary written; the same whatever was known before, but for the calls."""
    ledger, health = Ledger(), rounds.health
    book(ledger, stage, rounds.waves)
    summary = {
        **origin,
        "stage": stage,
        "strategy": definition.strategy,
        "language": definition.language,
        "journal": rounds.journal.path.name,
        "inputs": [{"file": f"replies: {stage}", "sha256": rounds.digest, "counts": {"replies": rounds.asked}}],
        "funnel": ledger.funnel(),
        "rows": tally(rounds.waves),
        "stops": ended,
        "tokens": rounds.tokens,
        "health": health.as_dict(),
        "course": rounds.course(),
        "new_by_round": new_by_round(rounds.waves),
        "export": export.export_id,
    }
    path = hand_out(definition, stage, export, filling if stage == "topics" else AS_HANDED_OUT)
    write_summary(rounds.journal.path.with_suffix(".json"), summary)
    write_summary(folder_of(definition) / f"{stage}.json", summary)
    current().reporter.say(health.line)
    return StageResult(stage, path, command, ended, summary["rows"], health, ledger, rounds.calls, rounds.digest)


def _origin(stage: str, prompts: Sequence[Prompt], longest: int, rounds: Rounds) -> dict[str, Any]:
    return {
        "models": [{"role": stage, **rounds.model.identity.described()}],
        "prompts": [{"name": prompt.name, "sha256": prompt.sha256} for prompt in prompts],
        "thresholds": [_cut(f"{stage}.longest", longest)],
    }


def _embedder(setup: ObjectSetup) -> dict[str, Any]:
    name, _, revision = setup.embedder.fingerprint.partition("@")
    return {"role": "novelty", "name": name, "revision": revision, "parameters": {}}


def _cut(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "passes": "at most", "value": value, "inclusive": True}
