"""Pools as tables for people to fill in, and what a filled-in one leaves of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from builders.decisions import Decision
from builders.generated.object_pools import ObjectPools
from builders.generated.phrase_grammar import class_of
from builders.generated.pool_entries import SCORE_UNIT, Row, Wave
from builders.generated.row_rules import same
from builders.generated.topic_pools import TopicPools
from builders.records import content_id
from builders.review_tables import ANSWERS, DIGEST, Export

TOPIC_COLUMNS = ["query_id", "text", "topic", "kind", "origin", "round", "also"]
OBJECT_COLUMNS = ["query_id", "text", "topic", "origin", "round", "flag", "score", "nearest"]


def topic_export(set_name: str, pools: TopicPools, waves: Sequence[Wave]) -> Export:
    """A row per topic, and below it a row per object: where it comes from (people, model), from which round, and by
    which other names the model called the topic."""
    born = {(same(row.topic), same(row.text)): n for n, row in _accepted(waves)}
    rows: list[list[object]] = []
    for key, pool in pools.pools.items():
        first = [born.get((key, text)) for text in pool.objects]
        of_model = all(number is not None for number in first)
        started = min((number for number in first if number is not None), default="") if of_model else ""
        also = ", ".join(pool.also[name] for name in sorted(pool.also))
        rows.append([_topic_id(pool.name), pool.name, pool.name, "topic", _origin(of_model), started, also])
        for (text, shown), number in zip(pool.objects.items(), first, strict=True):
            origin = _origin(number is not None)
            told = "" if number is None else number
            rows.append([content_id("o", key, text), shown, pool.name, "object", origin, told, ""])
    return _export(set_name, "topics", pd.DataFrame(rows, columns=TOPIC_COLUMNS))


def object_export(
    set_name: str,
    pools: ObjectPools,
    waves: Sequence[Wave],
    language: str,
    chosen: Mapping[str, Sequence[str]] | None = None,
) -> Export:
    """A row per object, each a query to be. `flag`: alike, where another is nearly as similar as the cut allows.
    `chosen`: people's objects by topic, where one pool holds all; the model's are then of the class that it named."""
    told = {same(row.text): (number, row) for number, row in _accepted(waves)}
    topic_of = _Topics(chosen or {})
    rows: list[list[object]] = []
    for pool in pools.pools.values():
        for text in pool.of_people + pool.of_model:
            number, row = told.get(same(text), ("", Row("", "")))
            score = "" if row.score is None else f"{row.score / SCORE_UNIT:.4f}"
            flag = "alike" if row.nearest else ""
            origin = _origin(same(text) in told)
            topic = topic_of(text, row.thought) or pool.topic
            rows.append([query_id(text, language), text, topic, origin, number, flag, score, row.nearest])
    rows.sort(key=lambda row: (same(str(row[2])), str(row[2])))
    return _export(set_name, "objects", pd.DataFrame(rows, columns=OBJECT_COLUMNS))


class _Topics:
    """Of an object: where people have it, else the class that the model's thought names; a name is spelled as it was
    first, by people before the model. '' for neither."""

    def __init__(self, chosen: Mapping[str, Sequence[str]]) -> None:
        ordered = sorted(chosen, reverse=True)  # the first name has the last word
        self._names = {same(topic): topic for topic in ordered}
        self._of_people = {same(text): topic for topic in ordered for text in chosen[topic]}

    def __call__(self, text: str, thought: str) -> str:
        named = self._of_people.get(same(text)) or class_of(thought)
        return self._names.setdefault(same(named), named) if named else ""


def query_id(text: str, language: str) -> str:
    """The id of the query that a text becomes in a generated set."""
    return content_id("q", "generated", language, same(text))


def with_answers(export: Export, decisions: Iterable[Decision]) -> Export:
    """The table with the last decision on each row filled in, where it was made on the same text."""
    last = {(decision.query_id, decision.text): decision for decision in decisions}
    found = [last.get(key) for key in zip(export.rows["query_id"], export.rows["text"], strict=True)]
    filled = {
        "decision": [one.decision if one else "" for one in found],
        "new_text": [one.new_text or "" if one else "" for one in found],
        "note": [one.note if one else "" for one in found],
    }
    return replace(export, rows=export.rows.assign(**filled).astype("str"))


def chosen_topics(export: Export, decisions: Iterable[Decision]) -> dict[str, list[str]]:
    """The objects that people keep, by topic. What is dropped with its topic is gone; topics that bear one name after
    an edit are one."""
    said = {decision.query_id: decision for decision in decisions}
    chosen: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for row in export.rows.itertuples(index=False):
        text = _kept(said.get(row.query_id), row.text)
        if row.kind == "topic":
            if text is not None:
                names[row.topic] = text
        elif text is not None and row.topic in names:
            chosen.setdefault(same(names[row.topic]), {}).setdefault(same(text), text)
    shown: dict[str, str] = {}
    for name in names.values():
        shown.setdefault(same(name), name)
    return {shown[topic]: list(objects.values()) for topic, objects in chosen.items()}


def chosen_objects(export: Export, decisions: Iterable[Decision], language: str) -> pd.DataFrame:
    """The queries that people keep: query_id, text, topic. Of texts that are the same after an edit the first stays."""
    said = {decision.query_id: decision for decision in decisions}
    rows = []
    for row in export.rows.itertuples(index=False):
        text = _kept(said.get(row.query_id), row.text)
        if text is not None:
            rows.append([query_id(text, language), text, row.topic])
    table = pd.DataFrame(rows, columns=["query_id", "text", "topic"], dtype="str")
    return table.drop_duplicates("query_id").reset_index(drop=True)


def unsaid_again(export: Export, decisions: Sequence[Decision], log: Sequence[Decision]) -> list[Decision]:
    """What a log of decisions lacks: the new ones, and a keep for each row whose earlier drop or edit was taken out."""
    last = {(d.query_id, d.text): d for d in log}
    new = [d for d in decisions if _gist(last.get((d.query_id, d.text))) != _gist(d)]
    decided = {d.query_id for d in decisions}
    for row in export.rows.itertuples(index=False):
        before = last.get((row.query_id, row.text))
        if before and before.decision != "keep" and row.query_id not in decided:
            new.append(Decision(row.query_id, row.text, "keep", view="csv", source=export.export_id))
    return new


def _gist(decision: Decision | None) -> tuple[Any, ...] | None:
    return None if decision is None else (decision.decision, decision.new_text, decision.note)


def _kept(decision: Decision | None, text: str) -> str | None:
    if decision is None or decision.decision == "keep":
        return text
    return decision.new_text if decision.decision == "edit" else None


def _accepted(waves: Sequence[Wave]) -> list[tuple[int, Row]]:
    return [(heard.round, row) for wave in waves for heard in wave for row in heard.accepted]


def _origin(of_model: bool) -> str:
    return "model" if of_model else "people"


def _topic_id(topic: str) -> str:
    return content_id("t", same(topic))


def _export(set_name: str, stage: str, rows: pd.DataFrame) -> Export:
    rows = rows.astype("str").reset_index(drop=True)
    records: list[dict[str, str]] = rows.to_dict("records")
    export_id = content_id("e", set_name, stage, json.dumps(records, sort_keys=True))
    digests = [_digest(export_id, record) for record in records]
    whole = rows.assign(**dict.fromkeys(ANSWERS, ""), **{DIGEST: digests}).astype("str")
    return Export(export_id, f"{set_name}/v0", "queries", whole)


def _digest(export_id: str, record: Mapping[str, str]) -> str:
    text = json.dumps([export_id, *record.values()], ensure_ascii=False)
    return "r_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
