"""The judge of an audit: a chat model that sees each pooled image with its query. Its labels divide the strata; the
estimates come from people alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends import chat
from backends.chat import ChatImage, ChatModel, ChatRequest, Failure, GenerationParameters, Message, Reply
from backends.replies.cached_replies import answer_requests
from backends.replies.reply_store import ReplyStore
from backends.run_files.result_files import RESULT_FILE, read_result
from backends.sets.image_locations import locate_images
from builders.audit.judge_replies import parse_judge_reason, parse_judge_reply
from builders.audit.pool import NO_LABEL
from builders.errors import UserError
from builders.records import content_id
from flows.audits.audit_pools import PooledSet
from flows.captions.captioning import ChatSession, load_prompt
from flows.steps import step

_STAGE = "judge"
_MAX_TOKENS = 200


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The chat model that judges, with its options. `allows_contestant`: it may be one of the systems."""

    model: str
    options: dict[str, Any] = field(default_factory=dict)
    allows_contestant: bool = False


@dataclass(frozen=True, slots=True)
class JudgeLabels:
    """A grade by pooled pair, in the pool's order, -1 without one, and the sentence that it gave; `record` says who
    judged, and what it cost."""

    grades: list[int]
    reasons: list[str]
    record: dict[str, Any]


def load_judge(choice: JudgeChoice, pooled: PooledSet, runs: Sequence[Path]) -> ChatModel:
    """Returns the judge. Raises UserError for one that is a system of the audit: it would judge its own results."""
    judge = chat.load_chat_model(choice.model, **choice.options)
    names = set(pooled.systems)
    for run in runs:
        if (run / RESULT_FILE).is_file():
            system = read_result(run)["system"]
            names |= {str(system.get(key)) for key in ("name", "revision") if system.get(key)}
    identity = {name.casefold() for name in (judge.identity.name, judge.identity.revision) if name}
    if not choice.allows_contestant and identity & {name.casefold() for name in names}:
        reason = "is a system of this audit, and would judge its own results"
        raise UserError(_STAGE, judge.identity.name, reason, "choose another model, or say --allow-contestant")
    return judge


def count_judge_calls(judge: ChatModel, pooled: PooledSet) -> int:
    """Returns the number of questions that a start would ask: those without a stored reply."""
    return answer_requests(_store(pooled), judge, build_judge_requests(pooled)[0], offline=True).missing


@step("judge pool")
def judge_pool(judge: ChatModel, pooled: PooledSet) -> JudgeLabels:
    """Asks the judge about every pair of the pool; each reply is stored before it is read. Raises UserError where it
    gives no grade at all."""
    requests, grades = build_judge_requests(pooled)
    session = ChatSession(_store(pooled))
    answers = session.ask("judge", judge, requests)
    parsed = [parse_judge_reply(one.text, grades) if isinstance(one, Reply) else None for one in answers]
    if not any(grade is not None for grade in parsed):
        failures = [one for one in answers if isinstance(one, Failure)]
        reason = f"{failures[0].reason}: {failures[0].detail}" if failures else "no reply holds a grade"
        raise UserError(_STAGE, judge.identity.name, f"gave no grade ({reason})", "choose a model that sees images")
    languages = sorted(set(pooled.stored.tables.queries["language"]))
    prompts = {f"{language}/judge": load_prompt(f"{language}/judge").sha256 for language in languages}
    record = {**judge.identity.as_record(), "prompts": prompts, "grades": grades}
    record["render"] = pooled.stored.manifest["notes"].get("render")  # the size of what it saw
    digest = content_id("judge", repr(sorted(record.items())))
    unusable = sum(grade is None for grade in parsed)
    return JudgeLabels(
        [NO_LABEL if grade is None else grade for grade in parsed],
        [parse_judge_reason(one.text) if isinstance(one, Reply) else "" for one in answers],
        {**record, "digest": digest, "replies": session.provenance().inputs[0].sha256, "without_grade": unusable},
    )


def build_judge_requests(pooled: PooledSet) -> tuple[list[ChatRequest], list[int]]:
    """Returns a request per pooled pair, in the pool's order, and the grades that it offers. Raises UserError for an
    image that is not at hand."""
    tables, manifest = pooled.stored.tables, pooled.stored.manifest
    described = {0: "not relevant", **{int(grade): str(text) for grade, text in manifest["grades"].items()}}
    listed = "\n".join(f"{grade}: {described[grade]}" for grade in sorted(described))
    images = _find_images(pooled, set(pooled.pool.pairs["image_id"]))
    queries = tables.queries.set_index("query_id")[["text", "language"]].astype("str")
    texts = queries.reindex(pooled.pool.pairs["query_id"])
    prompts = {language: load_prompt(f"{language}/judge") for language in set(texts["language"])}
    limits = GenerationParameters(max_tokens=_MAX_TOKENS, min_tokens=0, temperature=0.0)
    requests = []
    for image, text, language in zip(pooled.pool.pairs["image_id"], texts["text"], texts["language"], strict=True):
        question = prompts[language].fill(query=text, grades=listed)
        requests.append(ChatRequest((Message("user", question, (images[image],)),), limits, language=language))
    return requests, sorted(described)


def _find_images(pooled: PooledSet, image_ids: set[str]) -> dict[str, ChatImage]:
    names = dict(zip(pooled.stored.tables.images["image_id"], pooled.stored.tables.images["file_name"], strict=True))
    found = {}
    for place in locate_images(pooled.stored):
        if place.image_id in image_ids:
            if place.location is None or "://" in place.location or place.sha256 is None:
                reason = "is not at hand, so that no judge can see it"
                raise UserError(_STAGE, place.image_id, reason, "build the set with `render`, or leave out --judge")
            name = names[place.image_id]
            file_name = name if isinstance(name, str) else ""
            found[place.image_id] = ChatImage(Path(place.location), place.sha256, file_name, place.image_id)
    return found


def _store(pooled: PooledSet) -> ReplyStore:
    """The reply store beside the set's versions."""
    return ReplyStore(pooled.stored.path.parent / "replies.sqlite")
