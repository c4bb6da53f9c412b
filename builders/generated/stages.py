"""The first two stages of a generated set, and their plans: a model proposes topics, then objects of those people keep.

samples ─► topics ─► people's choice ─► objects ─► people's choice ─► (images from the web)

Each stage ends with a review table for people to fill in, and the next command. A plan states the questions that a run
would still ask at most, and their cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from builders.generated import generation_journal, pool_tables
from builders.generated.definition import GeneratedDefinition
from builders.generated.generation_rounds import GenerationRounds, generation_folder, read_journal
from builders.generated.generator_health import GeneratorHealth, count_new_by_round, render_health_page
from builders.generated.object_rounds import ObjectStage, count_stop_reasons, find_objects, prepare_object_stage
from builders.generated.topic_pools import STRATEGIES
from builders.generated.topic_rounds import TopicStage, find_topics, prepare_topic_stage
from builders.publication import check_set_name
from prompts import PromptTemplate
from querytruth.backends.files.durable_files import read_journal_lines, write_page
from querytruth.backends.steps import current_run, step
from querytruth.errors import UserError
from querytruth.questions import forecast_calls, guess_tokens, open_definition_replies, summarize_forecasts
from querytruth.review.page_parts import pages_in
from querytruth.sets import decision_log, decision_records, review_tables
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Input, Model, Prompt, Provenance, describe_model, describe_threshold
from querytruth.sets.review_csv import ReviewTableOptions

CHOICE_STAGE = "read reviewed topics"
DEFAULT_FILLING = ReviewTableOptions()

_SAMPLES_SHOWN = 10  # in a question, for a guess at its tokens


@dataclass(frozen=True, slots=True)
class StageResult:
    """The result of a stage. `file`: the review table; `command`: the next one; `page`: the generator's health;
    `stop_counts`: number of topics, or 1 for the stage, by stop reason; `calls`: calls of the model by this run."""

    stage: str
    file: Path
    command: str
    stop_counts: dict[str, int]
    rows: dict[str, int]
    health: GeneratorHealth
    ledger: Ledger
    calls: int
    digest: str
    page: Path

    @property
    def next_step_text(self) -> str:
        """Return the next action of the person."""
        return f"awaiting review: {self.file}, then: {self.command}"


def run_topics_stage(
    definition: GeneratedDefinition, source: str, filling: ReviewTableOptions = DEFAULT_FILLING
) -> StageResult:
    """Find topics. `source`: the definition's path, for the next command; `filling`: how an earlier, filled-in table is
    read before it is replaced. Raises UserError where the stage cannot go on."""
    check_set_name(definition)
    setup = prepare_topic_stage(definition)
    with open_definition_replies(definition) as store:
        pools, rounds, stop = find_topics(setup, store)
    export = pool_tables.build_topic_export(definition.name, pools, rounds.waves)
    provenance = _stage_provenance("topics", [setup.prompt, setup.sample_template], setup.rules.max_length, rounds)
    origin, command = {**provenance.as_dict(), "samples": setup.samples_sha256}, f"querytruth objects {source}"
    return _finish_stage("topics", definition, export, rounds, {stop: 1}, origin, command, filling)


def run_objects_stage(
    definition: GeneratedDefinition, source: str, filling: ReviewTableOptions = DEFAULT_FILLING
) -> StageResult:
    """Find objects of the topics that people kept; `filling`: how the table of topics is read. Raises UserError where
    the stage cannot go on."""
    check_set_name(definition)
    chosen = load_chosen_topics(definition, source, filling)
    setup = prepare_object_stage(definition, chosen)
    with open_definition_replies(definition) as store:
        pools, rounds = find_objects(setup, store)
    by_class = chosen if setup.strategy.asks_for_thoughts else None
    export = pool_tables.build_object_export(definition.name, pools, rounds.waves, definition.language, by_class)
    provenance = _stage_provenance("objects", setup.prompts, setup.rules.max_length, rounds) + Provenance(
        models=[Model(role="novelty", name=setup.embedder.name, revision=setup.embedder.revision, parameters={})],
        thresholds=[
            *(setup.background.as_thresholds("objects.novelty") if setup.background else []),
            describe_threshold("objects.novelty", "at most", setup.similarity_threshold),
        ],
    )
    under_two_topics = [f"{row.text} ({row.topic})" for row in pools.duplicate_rows]
    if under_two_topics:
        line = f"{len(under_two_topics)} objects already belong to an earlier topic and stay there: "
        current_run().reporter.log(line + ", ".join(under_two_topics[:5]))
    origin, command = {**provenance.as_dict(), "under_two_topics": under_two_topics}, f"querytruth collect {source}"
    stop_counts = count_stop_reasons(pools, rounds, definition)
    return _finish_stage("objects", definition, export, rounds, stop_counts, origin, command, filling)


@step("read reviewed topics")
def load_chosen_topics(
    definition: GeneratedDefinition, source: str, filling: ReviewTableOptions
) -> dict[str, list[str]]:
    """Return the topics that people kept, with their objects. Raises UserError if there are none."""
    export, decisions = pool_tables.import_review_table(
        definition, "topics", f"run querytruth topics {source}", filling
    )
    chosen = pool_tables.select_topics(export, decisions)
    if not chosen:
        reason = "has no accepted topic with objects"
        raise UserError(CHOICE_STAGE, definition.name, reason, "keep some rows in the column decision")
    return chosen


@step("read reviewed objects")
def load_chosen_objects(
    definition: GeneratedDefinition,
    source: str,
    filling: ReviewTableOptions = DEFAULT_FILLING,
    ledger: Ledger | None = None,
) -> pd.DataFrame:
    """Return the queries that people kept: query_id, text, topic. The `ledger` gets those that they did not keep.
    Raises UserError where the table of objects cannot be read."""
    export, decisions = pool_tables.import_review_table(
        definition, "objects", f"run querytruth objects {source}", filling
    )
    chosen = pool_tables.select_queries(export, decisions, definition.language)
    if ledger is not None:
        dropped = {decision.query_id: decision.text for decision in decisions if decision.decision == "drop"}
        merged_count = len(export.rows) - len(dropped) - len(chosen)  # edits that give the same query
        reasons = ["dropped_by_person"] * len(dropped) + ["repeated"] * merged_count
        texts = list(dropped.values()) + ["edited to the same text as another"] * merged_count
        rejections = rejection_rows(texts, "rejected", reasons)
        ledger.record_stage("choice", "object", len(export.rows), len(chosen), rejections)
    return chosen


def count_choices(definition: GeneratedDefinition) -> int:
    """Return the number of topics and objects that people decided on; what they left undecided is kept."""
    folders = [generation_folder(definition) / stage for stage in ("topics", "objects")]
    return sum(
        len(decision_records.latest_by_target(decision_log.read_decisions(folder, decision_records.QueryDecision)))
        for folder in folders
    )


def load_stage_summary(definition: GeneratedDefinition, stage: str, source: str) -> Any:
    """Return the summary of a finished stage: figures, funnel and provenance. Raises UserError where it has not run."""
    return generation_journal.read_summary(
        generation_folder(definition) / f"{stage}.json", f"run querytruth {stage} {source}"
    )


def list_finished_runs(definition: GeneratedDefinition, stage: str) -> list[dict[str, Any]]:
    """Return the summaries of all finished runs of a stage, by strategy and journal; `is_current` marks the run of the
    present review table."""
    folder = generation_folder(definition)
    summaries = [generation_journal.read_summary(path, "remove it") for path in sorted(folder.glob(f"{stage}-*.json"))]
    newest = folder / f"{stage}.json"
    journal = generation_journal.read_summary(newest, "remove it")["journal"] if newest.exists() else ""
    summaries.sort(key=lambda summary: (list(STRATEGIES).index(summary["strategy"]), summary["journal"]))
    return [{**summary, "is_current": summary["journal"] == journal} for summary in summaries]


def record_stage(definition: GeneratedDefinition, stage: str, source: str, ledger: Ledger) -> None:
    """Record every reply and every row of a finished stage in a build's ledger."""
    journal = generation_folder(definition) / load_stage_summary(definition, stage, source)["journal"]
    generation_journal.record_in_ledger(
        ledger, stage, [generation_journal.parse_wave(line) for line in read_journal_lines(journal)[1:]]
    )


@step("export for review")
def _finish_stage(
    stage: str,
    definition: GeneratedDefinition,
    export: review_tables.ReviewExport,
    rounds: GenerationRounds,
    stop_counts: dict[str, int],
    origin: dict[str, Any],
    command: str,
    filling: ReviewTableOptions,
) -> StageResult:
    """Write the review table, the summary and the page of a stage."""
    ledger, health = Ledger(), rounds.health
    generation_journal.record_in_ledger(ledger, stage, rounds.waves)
    summary = {
        **origin,
        "stage": stage,
        "strategy": definition.strategy,
        "language": definition.language,
        "journal": rounds.journal.path.name,
        "funnel": ledger.funnel(),
        "rows": generation_journal.count_outcomes(rounds.waves),
        "stops": stop_counts,
        "tokens": rounds.tokens,
        "health": health.as_dict(),
        "course": rounds.progress_curve(),
        "new_by_round": count_new_by_round(rounds.waves),
        "export": export.export_id,
    }
    path = pool_tables.export_review_table(definition, stage, export, filling if stage == "topics" else DEFAULT_FILLING)
    generation_journal.write_summary(rounds.journal.path.with_suffix(".json"), summary)
    generation_journal.write_summary(generation_folder(definition) / f"{stage}.json", summary)
    current_run().reporter.log(health.summary_line)
    page = _write_health_page(definition, stage, path.with_name(f"{stage}-health.html"))
    rows, calls = summary["rows"], rounds.calls
    return StageResult(stage, path, command, stop_counts, rows, health, ledger, calls, rounds.digest, page)


@step("write page")
def _write_health_page(definition: GeneratedDefinition, stage: str, page: Path) -> Path:
    runs = list_finished_runs(definition, stage)
    with pages_in(definition.page_language):
        html = render_health_page(definition.name, next(run for run in runs if run["is_current"]), runs)
    write_page(page, html, "fix that, then run again")
    return page


def _stage_provenance(
    stage: str, prompts: Sequence[PromptTemplate], max_length: int, rounds: GenerationRounds
) -> Provenance:
    return Provenance(
        inputs=[Input(file=f"replies: {stage}", sha256=rounds.digest, counts={"replies": rounds.question_count})],
        models=[describe_model(stage, rounds.model.identity)],
        prompts=[Prompt(name=prompt.name, sha256=prompt.sha256) for prompt in prompts],
        thresholds=[describe_threshold(f"{stage}.max_length", "at most", max_length)],
    )


def plan_topics(definition: GeneratedDefinition) -> dict[str, Any]:
    """Return the questions about topics that are still open by the journal, at most, and their cost. Asks and writes
    nothing."""
    check_set_name(definition)
    setup, wanted = prepare_topic_stage(definition), definition.topics
    questions = wanted.rounds if STRATEGIES[definition.strategy].proposes_topics else 0
    guess = guess_tokens([setup.prompt.text, setup.sample_template.text * _SAMPLES_SHOWN], wanted.max_tokens)
    return _plan("topics", setup, questions, wanted.parallel_questions, guess)


def plan_objects(definition: GeneratedDefinition, chosen: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the same for objects of the topics that people kept; a topic without new objects ends before its
    `rounds`."""
    check_set_name(definition)
    setup = prepare_object_stage(definition, chosen)
    topics, wanted = len(setup.initial_pools), definition.objects
    samples = [form.text * _SAMPLES_SHOWN for form in setup.sample_templates]
    guess = guess_tokens([setup.prompt.text, *samples], wanted.max_tokens)
    return _plan("objects", setup, topics * wanted.rounds, topics, guess)


def _plan(
    stage: str, setup: TopicStage | ObjectStage, most: int, wave_size: int, guess: tuple[float, float]
) -> dict[str, Any]:
    """Return the plan of a stage with at most so many questions; `guess`: the tokens of one."""
    definition, model = setup.definition, setup.model
    wanted = definition.topics if stage == "topics" else definition.objects
    asked = tokens = 0
    for wave in read_journal(definition, stage, model, setup.settings()):
        asked, tokens = asked + len(wave), tokens + sum(entry.tokens for entry in wave)
    limit = most if wanted.calls is None else min(most, wanted.calls)
    is_spent = wanted.tokens is not None and tokens >= wanted.tokens
    calls = 0 if is_spent or model.is_recorded else max(0, limit - asked)
    price = definition.topics.price
    with open_definition_replies(definition) as store:
        forecast = forecast_calls(store, model, stage, calls, price=price, at_most_at_once=wave_size, guess=guess)
    budget = definition.budget and definition.budget.model_dump(exclude_none=True)
    return {"stage": stage, "asked": asked, "model_calls": calls, **summarize_forecasts([forecast]), "budget": budget}
