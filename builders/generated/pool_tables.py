"""Pools as CSV tables for people to fill in, and what a filled-in one leaves of them.

Each table is stored as it was exported, so that a filled-in file is checked cell by cell however the pools have changed
since. Decisions go to a log of their own; a newer table starts with those that still apply.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from builders.generated import generation_journal, object_pools, reply_grammar, topic_pools
from builders.generated.definition import GeneratedDefinition
from builders.generated.generation_rounds import generation_folder
from builders.generated.row_rules import normalize_text
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.steps import current_run
from querytruth.errors import UserError, translate_write_errors
from querytruth.records import content_id
from querytruth.review.pool_views import exported_table_path, read_exported_table
from querytruth.sets import review_csv, review_tables
from querytruth.sets.decision_log import append_decisions, read_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_csv import ReviewTableOptions

TOPIC_COLUMNS = ["query_id", "text", "topic", "kind", "origin", "round", "also"]
OBJECT_COLUMNS = ["query_id", "text", "topic", "origin", "round", "flag", "score", "nearest"]
_SHOWN_PROBLEMS = 20


def build_topic_export(
    set_name: str, pools: topic_pools.TopicPools, waves: Sequence[generation_journal.Wave]
) -> review_tables.ReviewExport:
    """Return a row per topic, followed by a row per object: its origin (people, model), its round, and the other names
    that the model used for the topic."""
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
    pools: object_pools.ObjectPools,
    waves: Sequence[generation_journal.Wave],
    language: str,
    human_objects: Mapping[str, Sequence[str]] | None = None,
) -> review_tables.ReviewExport:
    """Return a row per object, each a future query. `flag`: alike, if another one is nearly as similar as the threshold
    allows. `human_objects`: people's objects by topic, if one pool holds all; the model's then have the class that it
    named."""
    accepted = {normalize_text(row.text): (number, row) for number, row in _accepted(waves)}
    topic_of = _TopicLookup(human_objects or {})
    rows: list[list[object]] = []
    for pool in pools.pools.values():
        for text in pool.human_objects + pool.model_objects:
            number, row = accepted.get(normalize_text(text), ("", generation_journal.ReplyRow("", "")))
            score = "" if row.score is None else f"{row.score / generation_journal.SCORE_UNIT:.4f}"
            flag = "alike" if row.nearest else ""
            origin = _origin(normalize_text(text) in accepted)
            topic = topic_of(text, row.thought) or pool.topic
            rows.append([generated_query_id(text, language), text, topic, origin, number, flag, score, row.nearest])
    rows.sort(key=lambda row: (normalize_text(str(row[2])), str(row[2])))
    return _export(set_name, "objects", pd.DataFrame(rows, columns=OBJECT_COLUMNS))


class _TopicLookup:
    """Return the class of an object: the one that people gave it, else the one that the model's thought names, else ''.
    A name keeps its first spelling, by people before the model."""

    def __init__(self, chosen: Mapping[str, Sequence[str]]) -> None:
        ordered = sorted(chosen, reverse=True)  # the first name has the last word
        self._names = {normalize_text(topic): topic for topic in ordered}
        self._of_people = {normalize_text(text): topic for topic in ordered for text in chosen[topic]}

    def __call__(self, text: str, thought: str) -> str:
        named = self._of_people.get(normalize_text(text)) or reply_grammar.parse_element_class(thought)
        return self._names.setdefault(normalize_text(named), named) if named else ""


def generated_query_id(text: str, language: str) -> str:
    """Return the id of the query that a text becomes in a generated set."""
    return content_id("q", "generated", language, normalize_text(text))


def fill_in_decisions(
    export: review_tables.ReviewExport, decisions: Iterable[QueryDecision]
) -> review_tables.ReviewExport:
    """Return the table with the last decision on each row filled in, where it was made on the same text."""
    last_decision = {(decision.query_id, decision.text): decision for decision in decisions}
    matched = [last_decision.get(key) for key in zip(export.rows["query_id"], export.rows["text"], strict=True)]
    filled = {
        "decision": [one.decision if one else "" for one in matched],
        "new_text": [one.new_text or "" if one else "" for one in matched],
        "note": [one.note if one else "" for one in matched],
    }
    return replace(export, rows=export.rows.assign(**filled).astype("str"))


def select_topics(export: review_tables.ReviewExport, decisions: Iterable[QueryDecision]) -> dict[str, list[str]]:
    """Return the objects that people keep, by topic. Objects of a dropped topic are dropped too; topics with the same
    name after an edit are merged."""
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


def select_queries(
    export: review_tables.ReviewExport, decisions: Iterable[QueryDecision], language: str
) -> pd.DataFrame:
    """Return the queries that people keep: query_id, text, topic. Of texts that are the same after an edit the first
    stays."""
    decision_by_id = {decision.query_id: decision for decision in decisions}
    rows = []
    for row in export.rows.itertuples(index=False):
        text = _decided_text(decision_by_id.get(row.query_id), row.text)
        if text is not None:
            rows.append([generated_query_id(text, language), text, row.topic])
    table = pd.DataFrame(rows, columns=["query_id", "text", "topic"], dtype="str")
    return table.drop_duplicates("query_id").reset_index(drop=True)


def complete_decision_log(
    export: review_tables.ReviewExport, decisions: Sequence[QueryDecision], log: Sequence[QueryDecision]
) -> list[QueryDecision]:
    """Return the decisions missing from a log: new ones, and a keep for each row whose drop or edit was removed."""
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


def _accepted(waves: Sequence[generation_journal.Wave]) -> list[tuple[int, generation_journal.ReplyRow]]:
    return [(reply.round, row) for wave in waves for reply in wave for row in reply.accepted]


def _origin(of_model: bool) -> str:
    return "model" if of_model else "people"


def _export(set_name: str, stage: str, rows: pd.DataFrame) -> review_tables.ReviewExport:
    rows = rows.astype("str").reset_index(drop=True)
    records: list[dict[str, str]] = rows.to_dict("records")
    export_id = content_id("e", set_name, stage, json.dumps(records, sort_keys=True))
    digests = [review_tables.digest_row(export_id, record) for record in records]
    whole = rows.assign(
        **dict.fromkeys(review_tables.ANSWER_COLUMNS, ""), **{review_tables.DIGEST_COLUMN: digests}
    ).astype("str")
    return review_tables.ReviewExport(export_id, f"{set_name}/v0", "queries", whole)


def review_table_path(definition: GeneratedDefinition, stage: str) -> Path:
    """Return the path of a stage's table."""
    return definition.out / definition.name / "review" / f"{stage}.csv"


def export_review_table(
    definition: GeneratedDefinition, stage: str, export: review_tables.ReviewExport, table_options: ReviewTableOptions
) -> Path:
    """Write the table for people to fill in. An exported table that is still current stays; decisions in an older one
    are imported first."""
    path = review_table_path(definition, stage)
    if path.exists():
        effective_options = _effective_options(definition, stage, table_options)
        filled = review_csv.read_review_csv(path, effective_options.encoding)
        if filled.export_id == export.export_id:
            return path
        _import_decisions(definition, stage, filled, path, effective_options.allow)
    _write(export, exported_table_path(generation_folder(definition), stage, export.export_id))
    _write(fill_in_decisions(export, read_decisions(generation_folder(definition) / stage, QueryDecision)), path)
    return path


def import_review_table(
    definition: GeneratedDefinition, stage: str, next_step: str, table_options: ReviewTableOptions
) -> tuple[review_tables.ReviewExport, list[QueryDecision]]:
    """Return the table as it was exported, and the decisions in the filled-in file. The tolerances that a reading used
    hold for all later readings of the same bytes: a build accepts what the stage before it accepted."""
    path = review_table_path(definition, stage)
    if not path.exists():
        raise UserError(review_csv.REVIEW_CSV_STAGE, path, "does not exist yet", next_step)
    effective_options = _effective_options(definition, stage, table_options)
    filled = review_csv.read_review_csv(path, effective_options.encoding)
    export_and_decisions = _import_decisions(definition, stage, filled, path, effective_options.allow)
    if table_options.is_lenient:
        stored_options = {"allow": table_options.allowed, "encoding": table_options.encoding}
        generation_journal.write_summary(
            _allowed_file(definition, stage), {**stored_options, "sha256": file_sha256(path)[0]}
        )
    return export_and_decisions


def _import_decisions(
    definition: GeneratedDefinition,
    stage: str,
    filled_table: review_tables.ReviewExport,
    path: Path,
    allow: review_tables.ImportTolerances,
) -> tuple[review_tables.ReviewExport, list[QueryDecision]]:
    export = read_exported_table(generation_folder(definition), stage, filled_table)
    if export is None:
        reason = f"is the export {filled_table.export_id} of {filled_table.set_name}, which this stage did not write"
        next_step = f"give the table of {stage} of {definition.name}, or move this file away"
        raise UserError(review_csv.REVIEW_CSV_STAGE, path, reason, next_step)
    reading = review_tables.read_filled_table(export, filled_table.rows, allow)
    if reading.problems:
        raise _rejected_table_error(path, reading)
    folder = generation_folder(definition) / stage
    append_decisions(folder, complete_decision_log(export, reading.decisions, read_decisions(folder, QueryDecision)))
    return export, reading.decisions


def _effective_options(
    definition: GeneratedDefinition, stage: str, table_options: ReviewTableOptions
) -> ReviewTableOptions:
    """Return how the file is read: as the user requests, else as when the same bytes were read before."""
    path, note = review_table_path(definition, stage), _allowed_file(definition, stage)
    if table_options.is_lenient or not path.is_file() or not note.exists():
        return table_options
    stored_options = generation_journal.read_summary(note, f"remove it, and repeat the --allow options for {path.name}")
    if stored_options["sha256"] != file_sha256(path)[0]:
        return table_options
    allow = review_tables.ImportTolerances(**dict.fromkeys(stored_options["allow"], True))
    as_before = ReviewTableOptions(allow, stored_options["encoding"])
    options = [f"--allow-{name}" for name in as_before.allowed]
    options += [f"--encoding {as_before.encoding}"] if as_before.encoding else []
    current_run().reporter.log(f"{path} is read with the same options as before: {' '.join(options)}")
    return as_before


def _allowed_file(definition: GeneratedDefinition, stage: str) -> Path:
    return generation_folder(definition) / stage / "allowed.json"


def _write(export: review_tables.ReviewExport, path: Path) -> None:
    with translate_write_errors("write review CSV", path):
        review_csv.write_review_csv(export, path)


def _rejected_table_error(path: Path, reading: review_tables.ReviewImportResult) -> UserError:
    for problem in reading.problems[:_SHOWN_PROBLEMS]:
        current_run().reporter.log(f"{path} {problem}")
    count = len(reading.problems)
    reason = f"{count} problems, the first: {reading.problems[0]}; no decisions were imported"
    return UserError(review_csv.REVIEW_CSV_STAGE, path, reason, review_tables.suggest_tolerances(reading.problems))
