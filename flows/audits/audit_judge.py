"""The judge of an audit: a chat model that sees each pooled image with its query. Its labels divide the strata; the
estimates come from people alone."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends import chat
from backends.chat import ChatModel, ChatRequest, Failure, Reply
from backends.replies.cached_replies import answer_requests
from backends.run_files.result_files import RESULT_FILE, read_result
from builders.audit.judge_replies import parse_judge_reason, parse_judge_reply
from builders.audit.pool import NO_LABEL
from builders.errors import UserError
from flows.audits.audit_pools import PooledSet
from flows.audits.judge_requests import JUDGE_STAGE, JudgeQuestions, open_judge_store
from flows.chat_session import ChatSession
from flows.definitions.audit import JudgeOptions
from flows.steps import step


@dataclass(frozen=True, slots=True)
class JudgeLabels:
    """A grade by pooled pair, in the pool's order, -1 without one, and the sentence that it gave; `record` says who
    judged, and what it cost."""

    grades: list[int]
    reasons: list[str]
    record: dict[str, Any]


def load_judge(choice: JudgeOptions, pooled: PooledSet, runs: Sequence[Path]) -> ChatModel:
    """Returns the judge. Raises UserError for one that is a system of the audit: it would judge its own results."""
    names = set(pooled.systems)
    for run in runs:
        if (run / RESULT_FILE).is_file():
            system = read_result(run)["system"]
            names |= {str(system.get(key)) for key in ("name", "revision") if system.get(key)}
    return load_outside_judge(choice, names)


def load_outside_judge(choice: JudgeOptions, names: Collection[str]) -> ChatModel:
    """Returns the judge. Raises UserError for one whose name or revision is among those of the systems."""
    judge = chat.load_chat_model(choice.model, **choice.options)
    identity = {name.casefold() for name in (judge.identity.name, judge.identity.revision) if name}
    if not choice.allow_contestant and identity & {name.casefold() for name in names}:
        reason = "is a system of this audit, and would judge its own results"
        raise UserError(JUDGE_STAGE, judge.identity.name, reason, "choose another model, or say --allow-contestant")
    return judge


def count_judge_calls(judge: ChatModel, pooled: PooledSet) -> int:
    """Returns the number of questions that a start would ask: those without a stored reply."""
    return answer_requests(
        open_judge_store(pooled.stored), judge, build_judge_requests(pooled)[0], offline=True
    ).missing


@step("judge pool")
def judge_pool(judge: ChatModel, pooled: PooledSet) -> JudgeLabels:
    """Asks the judge about every pair of the pool; each reply is stored before it is read. Raises UserError where it
    gives no grade at all."""
    questions = _ask_about(pooled)
    requests, session = _list_requests(questions, pooled), ChatSession(open_judge_store(pooled.stored))
    answers = session.ask("judge", judge, requests)
    parsed = [parse_judge_reply(one.text, questions.grades) if isinstance(one, Reply) else None for one in answers]
    if not any(grade is not None for grade in parsed):
        failures = [one for one in answers if isinstance(one, Failure)]
        reason = f"{failures[0].reason}: {failures[0].detail}" if failures else "no reply holds a grade"
        raise UserError(
            JUDGE_STAGE, judge.identity.name, f"gave no grade ({reason})", "choose a model that sees images"
        )
    record = questions.describe_judge(judge)
    unusable = sum(grade is None for grade in parsed)
    return JudgeLabels(
        [NO_LABEL if grade is None else grade for grade in parsed],
        [parse_judge_reason(one.text) if isinstance(one, Reply) else "" for one in answers],
        {**record, "replies": session.provenance().inputs[0].sha256, "without_grade": unusable},
    )


def build_judge_requests(pooled: PooledSet) -> tuple[list[ChatRequest], list[int]]:
    """Returns a request per pooled pair, in the pool's order, and the grades that it offers. Raises UserError for an
    image that is not at hand."""
    questions = _ask_about(pooled)
    return _list_requests(questions, pooled), questions.grades


def _ask_about(pooled: PooledSet) -> JudgeQuestions:
    return JudgeQuestions(pooled.stored, pooled.pool.pairs["image_id"])


def _list_requests(questions: JudgeQuestions, pooled: PooledSet) -> list[ChatRequest]:
    pairs = zip(pooled.pool.pairs["query_id"], pooled.pool.pairs["image_id"], strict=True)
    return [questions.build(query, questions.images[image]) for query, image in pairs]
