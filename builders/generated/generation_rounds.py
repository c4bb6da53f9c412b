"""Shared code of both stages of a generated set: waves of questions to the model, each written to a journal once it is
judged. A stopped run resumes after the last whole wave; a changed definition starts a new journal.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from builders.generated.definition import GeneratedDefinition, ObjectOptions, TopicOptions
from builders.generated.generation_journal import ReplyRecord, ReplyRow, Wave, format_wave, parse_wave
from builders.generated.generator_health import GeneratorHealth, HealthMonitor
from builders.generated.row_rules import MAX_LENGTH, RowRules
from builders.generated.topic_pools import SampledPrompt
from builders.recall.caption_rules import load_cleaning_rules
from prompts import PromptTemplate
from querytruth.backends.files.durable_files import LineJournal, open_journal, read_journal_lines
from querytruth.backends.models import cached_replies, chat, question_leases, reply_store
from querytruth.backends.models.chat import ChatModel, ChatRequest, Failure, GenerationParameters, Message, Reply
from querytruth.backends.steps import Advance, current_run
from querytruth.errors import UserError
from querytruth.questions import start_spending

R = TypeVar("R")
_TRIES = 3  # of a wave in which some questions got no answer that lasts
_REPORT_EVERY = 10  # waves
_POINTS = 100


def generation_folder(definition: GeneratedDefinition) -> Path:
    """Return the folder of journals, summaries and exported tables, beside the set's versions."""
    return definition.out / definition.name / "generated"


@dataclass(frozen=True, slots=True)
class RoundQuestion:
    """A question of a wave: its topic ('' in the first stage), its round, and the samples that it shows."""

    topic: str
    round: int
    asking: SampledPrompt


@dataclass(slots=True)
class GenerationRounds:
    """A stage in progress: its waves so far, their cost, and their health."""

    stage: str
    model: ChatModel
    journal: LineJournal
    health_monitor: HealthMonitor
    options: TopicOptions | ObjectOptions
    language: str
    advance: Advance
    spending: question_leases.Spending
    waves: list[Wave] = field(default_factory=list)
    question_count: int = 0
    tokens: int = 0
    calls: int = 0  # made now
    _warned: set[str] = field(default_factory=set)
    _points: list[dict[str, float]] = field(default_factory=list)

    @property
    def exhausted_budget(self) -> str:
        """Return why no further question may be asked: call_budget, token_budget, or ''. Questions count whether or
        not their answer was stored."""
        calls, tokens = self.options.calls, self.options.tokens
        if calls is not None and self.question_count >= calls:
            return "call_budget"
        return "token_budget" if tokens is not None and self.tokens >= tokens else ""

    def ask(
        self, store: reply_store.ReplyStore, questions: Sequence[RoundQuestion]
    ) -> list[tuple[str, Reply | Failure]]:
        """Return key and answer of each question: a reply, or a failure that would repeat. Raises UserError where one
        has neither, because later rounds depend on it."""
        run = current_run()
        requests = [self._request(question) for question in questions]
        for _ in range(_TRIES):
            batch = cached_replies.answer_requests(
                store,
                self.model,
                requests,
                offline=run.offline,
                retry_failures=run.retry_failures,
                role=self.stage,
                spending=self.spending,
            )
            self.calls += batch.calls
            unanswered = [a for a in batch.answers if isinstance(a, Failure) and a.kind != "final"]
            if not unanswered:
                return list(zip(batch.keys, batch.answers, strict=True))
            if run.offline or self.model.is_recorded:
                break
        raise _unanswered(self.model, questions, unanswered)

    def _request(self, question: RoundQuestion) -> ChatRequest:
        message = Message("user", question.asking.text)
        limits = GenerationParameters(max_tokens=self.options.max_tokens, min_tokens=0)
        return ChatRequest((message,), limits, number=question.round, language=self.language)

    def store_wave(self, wave: list[ReplyRecord]) -> None:
        """Write a judged wave to the journal, counts it, and reports the health now and then."""
        self.journal.append(format_wave(wave))
        self._count_wave(wave)
        health = self.health
        for warning in health.warnings:
            if warning.code not in self._warned:
                self._warned.add(warning.code)
                current_run().reporter.log(f"warning: {warning.text}")
        if len(self.waves) % _REPORT_EVERY == 0:
            current_run().reporter.log(health.summary_line)

    def _count_wave(self, wave: Wave) -> None:
        self.waves.append(wave)
        self.health_monitor.add(wave)
        self._points.append(self.health.plot_point)
        self.question_count += len(wave)
        self.tokens += sum(entry.tokens for entry in wave)
        self.advance(len(wave))

    @property
    def health(self) -> GeneratorHealth:
        """Return the figures so far."""
        return self.health_monitor.compute_health()

    def progress_curve(self) -> list[dict[str, float]]:
        """Return the figures after each wave for a plot, at most a hundred points."""
        every = max(1, -(-len(self._points) // _POINTS))
        return self._points[every - 1 :: every]

    @property
    def digest(self) -> str:
        """Return a digest of all waves: the same for the same replies, judged the same."""
        return hashlib.sha256("\n".join(format_wave(wave) for wave in self.waves).encode()).hexdigest()


@contextmanager
def open_rounds(
    definition: GeneratedDefinition,
    stage: str,
    model: ChatModel,
    human_objects: Mapping[str, Sequence[str]],
    max_rounds: int,
    settings: dict[str, Any],
) -> Iterator[GenerationRounds]:
    """Open the stage's journal, count the waves in it, and show a bar of `max_rounds`. When one of the `settings`
    changes, a new journal starts."""
    options = definition.topics if stage == "topics" else definition.objects
    with (
        _open_journal(definition, stage, _settings_line(definition, stage, model, settings)) as journal,
        current_run().reporter.bar(f"find {stage}", max_rounds, "rounds") as advance,
    ):
        monitor = HealthMonitor(human_objects, definition.language)
        spending = start_spending(definition.budget)
        rounds = GenerationRounds(stage, model, journal, monitor, options, definition.language, advance, spending)
        for wave in _read_stored_waves(journal.path, journal.lines):
            rounds._count_wave(wave)
        yield rounds


def read_journal(
    definition: GeneratedDefinition, stage: str, model: ChatModel, settings: dict[str, Any]
) -> Iterator[Wave]:
    """Yield the waves of the stage's journal; nothing if it has not begun. Raises UserError for a line that is not a
    valid wave."""
    path = _journal_path(definition, stage, _settings_line(definition, stage, model, settings))
    if path.exists() and not current_run().retry_failures:
        yield from _read_stored_waves(path, read_journal_lines(path))


def _settings_line(definition: GeneratedDefinition, stage: str, model: ChatModel, settings: dict[str, Any]) -> str:
    """Return the first line of a journal: all settings that its waves depend on."""
    common = {"stage": stage, "strategy": definition.strategy, "seed": definition.seed}
    whole = {**common, "model": model.identity.as_record(), **settings}
    return json.dumps(whole, sort_keys=True, ensure_ascii=True)


def _journal_path(definition: GeneratedDefinition, stage: str, settings_line: str) -> Path:
    digest = hashlib.sha256(settings_line.encode()).hexdigest()[:16]
    return generation_folder(definition) / f"{stage}-{digest}.jsonl"


@contextmanager
def _open_journal(definition: GeneratedDefinition, stage: str, settings_line: str) -> Iterator[LineJournal]:
    """Open the journal for these settings, which are its first line. With `retry_failures` it starts anew."""
    with open_journal(_journal_path(definition, stage, settings_line)) as journal:
        if current_run().retry_failures:
            journal.clear()
        if not journal.lines:
            journal.append(settings_line)
        elif journal.lines[0] != settings_line:
            reason = "begins with settings that do not match its name"
            raise UserError("keep journal", journal.path, reason, "remove the file: it is rebuilt from stored replies")
        yield journal


def _read_stored_waves(path: Path, lines: Sequence[str]) -> Iterator[list[ReplyRecord]]:
    for number, line in enumerate(lines[1:], start=2):
        try:
            yield parse_wave(line)
        except ValueError as error:
            next_step = "remove the file: it is rebuilt from stored replies"
            raise UserError("keep journal", f"{path} line {number}", str(error), next_step) from None


def load_chat_model(definition: GeneratedDefinition) -> ChatModel:
    """Return the chat model of both stages."""
    return chat.load_chat_model(definition.topics.model, **definition.topics.options)


def build_row_rules(prompt: PromptTemplate, form: str, max_length: int | None, min_characters: int = 1) -> RowRules:
    """Return the rules for rows that answer a prompt; `form` is the form of its samples."""
    cleaning = load_cleaning_rules()[0]
    longest = max_length or MAX_LENGTH[prompt.language]
    talk = re.compile(f"{cleaning.talk.pattern}|{cleaning.address.pattern}", re.IGNORECASE)
    return RowRules(prompt.language, longest, f"{prompt.text}\n{form}", cleaning.refusal, talk, min_characters)


def build_wave_entry(
    question: RoundQuestion, key: str, answer: Reply | Failure, rows: tuple[ReplyRow, ...]
) -> ReplyRecord:
    """Return the journal's record of an answer and its rows."""
    outcome = answer.finish_reason if isinstance(answer, Reply) else answer.reason
    tokens = question_leases.count_tokens(answer, question.asking.text) if isinstance(answer, Reply) else 0
    return ReplyRecord(question.round, question.topic, key, outcome, tokens, rows)


def parse_reply(reply: Reply | Failure, parse: Callable[[str, bool], R], default: R) -> R:
    """Return what a reply lists; `default` for a failure."""
    return parse(reply.text, reply.finish_reason == "length") if isinstance(reply, Reply) else default


def _unanswered(model: ChatModel, questions: Sequence[RoundQuestion], open_: Sequence[Failure]) -> UserError:
    first = open_[0]
    detail = f": {first.detail}" if first.detail else ""
    which = f"{len(open_)} of {len(questions)} questions of round {questions[0].round}"
    reason = f"{which} have no reply ({first.reason}{detail})"
    next_step = "fix that, then run the same command: it resumes after the last complete round"
    if current_run().offline:
        next_step = "run without --offline"
    return UserError("ask chat model", model.identity.name, reason, next_step)
