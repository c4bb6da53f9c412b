"""Pools as tables for people to fill in, and what a filled-in one leaves of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from builders.decisions.records import QueryDecision
from builders.decisions.review_tables import ANSWER_COLUMNS, DIGEST_COLUMN, ReviewExport, digest_row
from builders.records import content_id
from builders.self_instruct.generation_journal import SCORE_UNIT, ReplyRow, Wave
from builders.self_instruct.object_pools import ObjectPools
from builders.self_instruct.reply_grammar import parse_element_class
from builders.self_instruct.row_rules import normalize_text
from builders.self_instruct.topic_pools import TopicPools

TOPIC_COLUMNS = ["query_id", "text", "topic", "kind", "origin", "round", "also"]
OBJECT_COLUMNS = ["query_id", "text", "topic", "origin", "round", "flag", "score", "nearest"]


def build_topic_export(set_name: str, pools: TopicPools, waves: Sequence[Wave]) -> ReviewExport:
    """A row per topic, and below it a row per object: where it comes from (people, model), from which round, and by
    which other names the model called the topic."""
    first_round = {(normalize_text(row.topic), normalize_text(row.text)): n for n, row in _accepted(waves)}
    rows: list[list[object]] = []
    for key, pool in pools.pools.items():
        first = [first_round.get((key, text)) for text in pool.objects]
        of_model = all(number is not None for number in first)
        started = min((number for number in first if number is not None), default="") if of_model else ""
        also = ", ".join(pool.aliases[name] for name in sorted(pool.aliases))
        topic_id = content_id("t", normalize_text(pool.name))
        rows.append([topic_id, pool.name, pool.name, "topic", _origin(of_model), started, also])
        for (text, shown), number in zip(pool.objects.items(), first, strict=True):
            origin = _origin(number is not None)
            round_number = "" if number is None else number
            rows.append([content_id("o", key, text), shown, pool.name, "object", origin, round_number, ""])
    return _export(set_name, "topics", pd.DataFrame(rows, columns=TOPIC_COLUMNS))


def build_object_export(
    set_name: str,
    pools: ObjectPools,
    waves: Sequence[Wave],
    language: str,
    human_objects: Mapping[str, Sequence[str]] | None = None,
) -> ReviewExport:
    """A row per object, each a query to be. `flag`: alike, where another is nearly as similar as the cut allows.
    `human_objects`: people's objects by topic, where one pool holds all; the model's are then of the class that it
    named."""
    accepted = {normalize_text(row.text): (number, row) for number, row in _accepted(waves)}
    topic_of = _TopicLookup(human_objects or {})
    rows: list[list[object]] = []
    for pool in pools.pools.values():
        for text in pool.human_objects + pool.model_objects:
            number, row = accepted.get(normalize_text(text), ("", ReplyRow("", "")))
            score = "" if row.score is None else f"{row.score / SCORE_UNIT:.4f}"
            flag = "alike" if row.nearest else ""
            origin = _origin(normalize_text(text) in accepted)
            topic = topic_of(text, row.thought) or pool.topic
            rows.append([generated_query_id(text, language), text, topic, origin, number, flag, score, row.nearest])
    rows.sort(key=lambda row: (normalize_text(str(row[2])), str(row[2])))
    return _export(set_name, "objects", pd.DataFrame(rows, columns=OBJECT_COLUMNS))


class _TopicLookup:
    """Of an object: where people have it, else the class that the model's thought names; a name is spelled as it was
    first, by people before the model. '' for neither."""

    def __init__(self, chosen: Mapping[str, Sequence[str]]) -> None:
        ordered = sorted(chosen, reverse=True)  # the first name has the last word
        self._names = {normalize_text(topic): topic for topic in ordered}
        self._of_people = {normalize_text(text): topic for topic in ordered for text in chosen[topic]}

    def __call__(self, text: str, thought: str) -> str:
        named = self._of_people.get(normalize_text(text)) or parse_element_class(thought)
        return self._names.setdefault(normalize_text(named), named) if named else ""


def generated_query_id(text: str, language: str) -> str:
    """The id of the query that a text becomes in a generated set."""
    return content_id("q", "generated", language, normalize_text(text))


def fill_in_decisions(export: ReviewExport, decisions: Iterable[QueryDecision]) -> ReviewExport:
    """The table with the last decision on each row filled in, where it was made on the same text."""
    last_decision = {(decision.query_id, decision.text): decision for decision in decisions}
    matched = [last_decision.get(key) for key in zip(export.rows["query_id"], export.rows["text"], strict=True)]
    filled = {
        "decision": [one.decision if one else "" for one in matched],
        "new_text": [one.new_text or "" if one else "" for one in matched],
        "note": [one.note if one else "" for one in matched],
    }
    return replace(export, rows=export.rows.assign(**filled).astype("str"))


def select_topics(export: ReviewExport, decisions: Iterable[QueryDecision]) -> dict[str, list[str]]:
    """The objects that people keep, by topic. What is dropped with its topic is gone; topics that bear one name after
    an edit are one."""
    decision_by_id = {decision.query_id: decision for decision in decisions}
    chosen: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for row in export.rows.itertuples(index=False):
        text = _decided_text(decision_by_id.get(row.query_id), row.text)
        if row.kind == "topic":
            if text is not None:
                names[row.topic] = text
        elif text is not None and row.topic in names:
            chosen.setdefault(normalize_text(names[row.topic]), {}).setdefault(normalize_text(text), text)
    shown: dict[str, str] = {}
    for name in names.values():
        shown.setdefault(normalize_text(name), name)
    return {shown[topic]: list(objects.values()) for topic, objects in chosen.items()}


def select_queries(export: ReviewExport, decisions: Iterable[QueryDecision], language: str) -> pd.DataFrame:
    """The queries that people keep: query_id, text, topic. Of texts that are the same after an edit the first stays."""
    decision_by_id = {decision.query_id: decision for decision in decisions}
    rows = []
    for row in export.rows.itertuples(index=False):
        text = _decided_text(decision_by_id.get(row.query_id), row.text)
        if text is not None:
            rows.append([generated_query_id(text, language), text, row.topic])
    table = pd.DataFrame(rows, columns=["query_id", "text", "topic"], dtype="str")
    return table.drop_duplicates("query_id").reset_index(drop=True)


def complete_decision_log(
    export: ReviewExport, decisions: Sequence[QueryDecision], log: Sequence[QueryDecision]
) -> list[QueryDecision]:
    """What a log of decisions lacks: the new ones, and a keep for each row whose earlier drop or edit was taken out."""
    last = {(d.query_id, d.text): d for d in log}
    new = [d for d in decisions if _decision_content(last.get((d.query_id, d.text))) != _decision_content(d)]
    decided = {d.query_id for d in decisions}
    for row in export.rows.itertuples(index=False):
        before = last.get((row.query_id, row.text))
        if before and before.decision != "keep" and row.query_id not in decided:
            new.append(QueryDecision(row.query_id, row.text, "keep", view="csv", source=export.export_id))
    return new


def _decision_content(decision: QueryDecision | None) -> tuple[Any, ...] | None:
    return None if decision is None else (decision.decision, decision.new_text, decision.note)


def _decided_text(decision: QueryDecision | None, text: str) -> str | None:
    if decision is None or decision.decision == "keep":
        return text
    return decision.new_text if decision.decision == "edit" else None


def _accepted(waves: Sequence[Wave]) -> list[tuple[int, ReplyRow]]:
    return [(reply.round, row) for wave in waves for reply in wave for row in reply.accepted]


def _origin(of_model: bool) -> str:
    return "model" if of_model else "people"


def _export(set_name: str, stage: str, rows: pd.DataFrame) -> ReviewExport:
    rows = rows.astype("str").reset_index(drop=True)
    records: list[dict[str, str]] = rows.to_dict("records")
    export_id = content_id("e", set_name, stage, json.dumps(records, sort_keys=True))
    digests = [digest_row(export_id, record) for record in records]
    whole = rows.assign(**dict.fromkeys(ANSWER_COLUMNS, ""), **{DIGEST_COLUMN: digests}).astype("str")
    return ReviewExport(export_id, f"{set_name}/v0", "queries", whole)
