"""The phrasings of a precision set (texts: llm): a chat model rephrases each query and checks its phrasings.

queries ─► texts of the model ─► rules for captions ─► labels named back ─► asks for the same? ─► queries of style llm
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

import prompts
from builders.precision import phrasings
from builders.precision.definition import PHRASING_PROMPTS, PrecisionDefinition
from builders.precision.label_steps import LabelVocabulary
from builders.precision.phrasings import Finding, Phrasing
from builders.precision.tag_tree import LANGUAGES
from builders.recall.caption_rules import load_cleaning_rules
from querytruth import questions
from querytruth.backends.models import chat
from querytruth.backends.models.cached_replies import answer_requests
from querytruth.backends.models.chat import (
    ChatAnswer,
    ChatModel,
    ChatRequest,
    Failure,
    GenerationParameters,
    Message,
    Reply,
)
from querytruth.backends.steps import current_run, step
from querytruth.sets.ledger import Ledger, Rejection, rejection_table
from querytruth.sets.manifest import Prompt, Provenance, describe_threshold

PHRASING_LIMITATION = (
    "The queries of style llm were written by a chat model, which also checked that they ask the same things."
)
_STAGE = "write phrasings"
_TEXTS, _LABELS, _QUESTION = "phrasings", "labels of phrasings", "meaning of phrasings"  # roles
_MAX_TOKENS = {_TEXTS: 400, _LABELS: 120, _QUESTION: 20}
_TEMPERATURE = {_TEXTS: 0.7, _LABELS: 0.0, _QUESTION: 0.0}


@dataclass(frozen=True, slots=True)
class JudgedTables:
    """The queries of a set with their judgments, and pairs that people should judge."""

    queries: pd.DataFrame
    qrels: pd.DataFrame
    candidates: pd.DataFrame


@dataclass(frozen=True, slots=True)
class _Writer:
    """The shared settings of all questions about phrasings."""

    definition: PrecisionDefinition
    labels: LabelVocabulary
    model: ChatModel

    def prompt(self, language: str, name: str) -> prompts.PromptTemplate:
        prompt = f"{language}/{name}"
        return questions.load_prompt(prompt, self.definition.prompt_files, like=prompt)

    def request_phrasings(self, queries: pd.DataFrame) -> list[ChatRequest]:
        """Return the questions for phrasings, one per query."""
        assert self.definition.phrasings is not None
        count = str(self.definition.phrasings.count)
        templates = {language: self.prompt(language, "phrasings") for language in queries["language"].unique()}
        pairs = zip(queries["text"], queries["language"], strict=True)
        return [_request(_TEXTS, templates[language].fill(query=text, count=count)) for text, language in pairs]


def _request(role: str, text: str) -> ChatRequest:
    limits = GenerationParameters(max_tokens=_MAX_TOKENS[role], min_tokens=0, temperature=_TEMPERATURE[role])
    return ChatRequest((Message("user", text),), limits)


def load_phrasing_model(definition: PrecisionDefinition) -> ChatModel:
    """Return the model that words queries anew."""
    assert definition.phrasings is not None
    return chat.load_chat_model(definition.phrasings.model, **definition.phrasings.options)


def load_phrasing_prompts(
    definition: PrecisionDefinition, languages: Sequence[str] = LANGUAGES
) -> list[prompts.PromptTemplate]:
    """Return the prompts that phrasings need, the user's own or the shipped ones. Raises UserError."""
    names = [f"{language}/{name}" for language in languages for name in PHRASING_PROMPTS]
    return [questions.load_prompt(name, definition.prompt_files, like=name) for name in names]


@step(_STAGE)
def add_phrasings(
    judged: JudgedTables,
    labels: LabelVocabulary,
    definition: PrecisionDefinition,
    session: questions.ChatSession,
    ledger: Ledger,
) -> tuple[JudgedTables, Provenance]:
    """Return the tables with the phrasings that passed all checks, and their prompts and limits. Raises UserError
    where the model answered nothing."""
    model = load_phrasing_model(definition)
    if not current_run().offline:
        chat.check_access(model)
    writer = _Writer(definition, labels, model)
    queries = phrasings.choose_queries_to_reword(judged.queries)
    answers = session.ask(_TEXTS, model, writer.request_phrasings(queries))
    questions.require_a_reply(_STAGE, definition.name, answers)
    _record_reworded(queries, answers, ledger)
    found = phrasings.reject_repetitions(_read_phrasings(queries, answers, writer), judged.queries)
    of_query = queries.set_index("query_id")
    found = _check_labels(found, of_query, writer, session)
    found = _check_question(found, of_query, writer, session)
    _record_phrasings(found, of_query, ledger)
    table, source_of = phrasings.add_phrasings(judged.queries, found)
    qrels, candidates = (phrasings.repeat_judgments(one, source_of) for one in (judged.qrels, judged.candidates))
    return JudgedTables(table, qrels, candidates), _describe_limits(definition, labels.languages)


def _record_reworded(queries: pd.DataFrame, answers: Sequence[ChatAnswer], ledger: Ledger) -> None:
    rows = [
        Rejection(
            text,
            questions.choose_ledger_bucket(one),
            one.reason,
            query_id,
            language=language,
            text=text,
            detail=one.detail,
        )
        for query_id, language, text, one in zip(
            queries["query_id"], queries["language"], queries["text"], answers, strict=True
        )
        if isinstance(one, Failure)
    ]
    replies = sum(isinstance(answer, Reply) for answer in answers)
    ledger.record_stage("reworded", "query", len(queries), replies, rejection_table(rows))


def _read_phrasings(queries: pd.DataFrame, answers: Sequence[ChatAnswer], writer: _Writer) -> list[Phrasing]:
    assert writer.definition.phrasings is not None
    rules, _ = load_cleaning_rules()
    count, found = writer.definition.phrasings.count, list[Phrasing]()
    for query_id, language, answer in zip(queries["query_id"], queries["language"], answers, strict=True):
        if isinstance(answer, Reply):
            template = writer.prompt(language, "phrasings").text
            found += phrasings.clean_phrasings(query_id, language, answer.text, count, rules, template)
    return found


def _check_labels(
    found: Sequence[Phrasing], of_query: pd.DataFrame, writer: _Writer, session: questions.ChatSession
) -> list[Phrasing]:
    """Return the phrasings, with a finding where the labels that the model names in the text are not those of the
    query."""
    tree, compatibility, languages = writer.labels.tree, writer.labels.compatibility, writer.labels.languages
    names = {language: phrasings.index_names(tree, compatibility, language) for language in languages}
    templates = {language: writer.prompt(language, "phrasing_labels") for language in languages}
    listed = {language: ", ".join(names[language].listed) for language in languages}

    def ask(one: Phrasing) -> str:
        return templates[one.language].fill(labels=listed[one.language], text=one.text)

    def read(one: Phrasing, reply: str) -> Finding | None:
        return phrasings.check_labels(reply, of_query.at[one.query_id, "labels"], names[one.language])

    return _check(_LABELS, found, ask, read, writer.model, session)


def _check_question(
    found: Sequence[Phrasing], of_query: pd.DataFrame, writer: _Writer, session: questions.ChatSession
) -> list[Phrasing]:
    """Return the phrasings, with a finding if the model says that the text asks for other images than the query."""
    templates = {language: writer.prompt(language, "phrasing_question") for language in writer.labels.languages}

    def ask(one: Phrasing) -> str:
        return templates[one.language].fill(query=of_query.at[one.query_id, "text"], text=one.text)

    def read(_one: Phrasing, reply: str) -> Finding | None:
        return phrasings.check_question(reply)

    return _check(_QUESTION, found, ask, read, writer.model, session)


def _check(
    role: str,
    found: Sequence[Phrasing],
    ask: Callable[[Phrasing], str],
    read: Callable[[Phrasing, str], Finding | None],
    model: ChatModel,
    session: questions.ChatSession,
) -> list[Phrasing]:
    """Return the phrasings; those without a finding are checked. A question without an answer is a finding."""
    open_ones = [one for one in found if one.finding is None]
    answers = iter(session.ask(role, model, [_request(role, ask(one)) for one in open_ones]))
    out = []
    for one in found:
        if one.finding is None:
            answer = next(answers)
            if isinstance(answer, Failure):
                one = phrasings.reject(one, Finding(answer.reason, answer.detail), is_pending=answer.kind != "final")
            elif (finding := read(one, answer.text)) is not None:
                one = phrasings.reject(one, finding)
        out.append(one)
    return out


def _record_phrasings(found: Sequence[Phrasing], of_query: pd.DataFrame, ledger: Ledger) -> None:
    rows = [
        Rejection(
            f"{of_query.at[one.query_id, 'text']} > {one.text}",
            "pending" if one.is_pending else "rejected",
            one.finding.reason,
            one.query_id,
            language=one.language,
            text=one.text,
            detail=one.finding.detail or None,
        )
        for one in found
        if one.finding is not None
    ]
    accepted = sum(one.finding is None for one in found)
    ledger.record_stage("phrasings", "phrasing", len(found), accepted, rejection_table(rows))


def _describe_limits(definition: PrecisionDefinition, languages: Sequence[str]) -> Provenance:
    """Return the prompts and the thresholds."""
    assert definition.phrasings is not None
    templates = load_phrasing_prompts(definition, languages) + load_cleaning_rules()[1]
    limits = {f"phrasings.max_length.{one}": phrasings.MAX_PHRASING_LENGTH[one] for one in languages}
    limits["phrasings.count"] = definition.phrasings.count
    return Provenance(
        prompts=[Prompt(name=template.name, sha256=template.sha256) for template in templates],
        thresholds=[describe_threshold(name, "at most", limit) for name, limit in limits.items()],
    )


def forecast_phrasings(
    queries: pd.DataFrame, labels: LabelVocabulary, definition: PrecisionDefinition
) -> dict[str, Any]:
    """Return the keys of a plan: queries and calls at most. Of questions with a stored reply none counts; each
    phrasing is checked twice."""
    assert definition.phrasings is not None
    wanted, model = definition.phrasings, load_phrasing_model(definition)
    chosen = phrasings.choose_queries_to_reword(queries)
    requests = _Writer(definition, labels, model).request_phrasings(chosen)
    with questions.open_chat_session(definition).store as store:
        asked = answer_requests(store, model, requests, offline=True)
        new = 0 if model.is_recorded else asked.missing
        calls = {_TEXTS: new, _LABELS: new * wanted.count, _QUESTION: new * wanted.count}
        texts = [message.text for request in requests[:1] for message in request.messages]
        guess = questions.guess_tokens(texts, requests[0].parameters.max_tokens if requests else None)
        forecasts = [
            questions.forecast_calls(store, model, role, n, price=wanted.price, guess=guess)
            for role, n in calls.items()
        ]
    return {
        "phrasings_at_most": len(chosen) * wanted.count,
        "model_calls": sum(one.calls for one in forecasts),
        **questions.summarize_forecasts(forecasts),
        "budget": definition.budget and definition.budget.model_dump(exclude_none=True),
    }
