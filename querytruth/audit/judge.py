"""The judge of an audit, a chat model that sees each pooled image with its query: its questions, and what it replies.

Its labels divide the strata; the estimates come from people alone.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pandas as pd

from querytruth.audit.audit_files import JudgeRecord
from querytruth.audit.definition import JudgeOptions
from querytruth.audit.pool import NO_LABEL, JudgeForm, PooledSet
from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.models import cached_replies, chat, reply_markup, reply_store
from querytruth.backends.models.chat_completion import read_yes_reply
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.evaluation.result_files import RESULT_FILE, read_result
from querytruth.questions import ChatSession, load_prompt
from querytruth.records import content_id
from querytruth.sets.set_files import StoredSet, locate_images

_OBJECT = re.compile(r"\{[^{}]{0,2000}\}", re.DOTALL)
_GRADE = re.compile(r"[\"“”']?(?:grade|等级)[\"“”']?\s{0,4}[:：]\s{0,4}[\"“”']?(-?[0-9]{1,3})(?![0-9.])", re.IGNORECASE)
_MAX_CHARACTERS = 20_000  # of a reply that are read
_MAX_REASON = 300  # characters
JUDGE_STAGE = "judge"
_MAX_TOKENS, _YES_TOKENS = 200, 4


def parse_judge_reply(text: str, grades: Collection[int]) -> int | None:
    """Return the grade that a reply gives, or None where it gives no known grade, or several."""
    answer = reply_markup.strip_reasoning(text[:_MAX_CHARACTERS])
    found = {grade for part in _OBJECT.findall(answer) if (grade := _grade_of_object(part)) is not None}
    found = found or {int(number) for number in _GRADE.findall(answer)}
    return found.pop() if len(found) == 1 and found <= set(grades) else None


def parse_judge_reason(text: str) -> str:
    """Return the sentence that a reply gives as its reason, "" where it gives none."""
    for part in _OBJECT.findall(reply_markup.strip_reasoning(text[:_MAX_CHARACTERS])):
        reason = _read_key(part, "reason")
        if isinstance(reason, str) and reason.strip():
            return " ".join(reason.split())[:_MAX_REASON]
    return ""


def _read_key(part: str, key: str) -> object:
    try:
        return parse_json(part).get(key)
    except (ValueError, RecursionError):
        return None


def _grade_of_object(part: str) -> int | None:
    grade = _read_key(part, "grade")
    if isinstance(grade, str) and grade.strip().isdecimal():
        grade = int(grade)
    return grade if isinstance(grade, int) and not isinstance(grade, bool) else None


def _quote(query: str) -> str:
    """Return a query as a JSON string, so that no query can end the quotation."""
    return json.dumps(query, ensure_ascii=False)


class JudgeQuestions:
    """Build the questions whether images fit queries. `queries`: query_id, text, language; `grades`: the meaning of
    each grade; `form`: ask for a grade or for yes or no, or give the query alone to a model that scores pairs;
    `samples`: number of yes-or-no answers per pair, 0 for the probability of yes."""

    def __init__(self, queries: pd.DataFrame, grades: Mapping[int, str], form: JudgeForm, samples: int = 0) -> None:
        self.form, self.samples = form, samples
        self._described = {0: "not relevant", **grades}
        self.grades = sorted(self._described)  # those that it offers
        rows = queries[["query_id", "text", "language"]].astype("str").itertuples(index=False, name=None)
        self.queries = {query: (text, language) for query, text, language in rows}
        prompt = {"grade": "judge", "yes": "judge_yes"}.get(form)
        languages = sorted({language for _, language in self.queries.values()}) if prompt else []
        self._prompts = {language: load_prompt(f"{language}/{prompt}") for language in languages}

    def build(self, query: str, image: chat.ChatImage, number: int = 0) -> chat.ChatRequest:
        """Return the question whether the image fits the query; `number` distinguishes several askings."""
        own_text, language = self.queries[query]
        if self.form != "grade":
            asked = self._prompts[language].fill(query=_quote(own_text)) if self.form == "yes" else own_text
            is_sampled = self.samples > 0
            shortest = chat.GenerationParameters(max_tokens=_YES_TOKENS, temperature=float(is_sampled))
            message = chat.Message("user", asked, (image,))
            asks = chat.ChatRequest((message,), shortest, number=number, language=language, item=query)
            return asks if is_sampled else replace(asks, is_scored=True)
        listed = "\n".join(f"{grade}: {self._described[grade]}" for grade in self.grades)
        question = self._prompts[language].fill(query=_quote(own_text), grades=listed)
        limits = chat.GenerationParameters(max_tokens=_MAX_TOKENS, min_tokens=0, temperature=0.0)
        return chat.ChatRequest((chat.Message("user", question, (image,)),), limits, number=number, language=language)

    def build_all(self, pairs: Iterable[tuple[str, chat.ChatImage]]) -> list[chat.ChatRequest]:
        """Return the questions about these pairs: of each pair as many as it is sampled."""
        numbers = range(max(self.samples, 1))
        return [self.build(query, image, number) for query, image in pairs for number in numbers]

    def read_scores(self, answers: Sequence[chat.ChatAnswer]) -> list[float | None]:
        """Return by pair what a judge answered as a number: the grade, or the share of yes where it was sampled; None
        without a number, or where half of the samples are neither yes nor no."""
        if not self.samples:
            return [self._read_score(one) for one in answers]
        texts = [one.text if isinstance(one, chat.Reply) else "" for one in answers]
        votes = [read_yes_reply(reply_markup.strip_reasoning(text[:_MAX_CHARACTERS])) for text in texts]
        of_pair = [votes[first : first + self.samples] for first in range(0, len(votes), self.samples)]
        clear = [[one for one in some if one is not None] for some in of_pair]
        return [sum(some) / len(some) if 2 * len(some) > self.samples else None for some in clear]

    def _read_score(self, answer: chat.ChatAnswer) -> float | None:
        if not isinstance(answer, chat.Reply):
            return None
        return parse_judge_reply(answer.text, self.grades) if self.form == "grade" else chat.read_score(answer.text)

    def describe_judge(self, judge: chat.ChatModel, render: object) -> JudgeRecord:
        """Return who judges with what: model, prompts, grades and size of the images (`render`), with a digest of
        these."""
        name = "judge_yes" if self.form == "yes" else "judge"
        digests = {f"{language}/{name}": prompt.sha256 for language, prompt in self._prompts.items()}
        record = {**judge.identity.as_record(), "prompts": digests, "grades": self.grades}
        if self.form != "grade":
            record["form"] = self.form
        if self.samples:
            record["samples"] = self.samples
        record["render"] = render
        return cast(JudgeRecord, {**record, "digest": content_id("judge", repr(sorted(record.items())))})


class SetQuestions(JudgeQuestions):
    """The questions about a version's queries and images."""

    def __init__(
        self, stored: StoredSet, image_ids: Iterable[str], form: JudgeForm = "grade", samples: int = 0
    ) -> None:
        grades = {int(grade): str(text) for grade, text in stored.manifest["grades"].items()}
        super().__init__(stored.tables.queries, grades, form, samples)
        self.stored, self.images = stored, _find_images(stored, set(image_ids), form)

    def describe_judge(self, judge: chat.ChatModel, render: object = None) -> JudgeRecord:
        """Return the same of the size of the set's images."""
        return super().describe_judge(judge, render or self.stored.manifest["notes"].get("render"))


def open_judge_store(stored: StoredSet) -> reply_store.ReplyStore:
    """Return the reply store beside the set's versions."""
    return reply_store.open_reply_store(stored.path.parent / "replies.sqlite")


def _find_images(stored: StoredSet, image_ids: set[str], form: JudgeForm) -> dict[str, chat.ChatImage]:
    names = dict(zip(stored.tables.images["image_id"], stored.tables.images["file_name"], strict=True))
    found = {}
    for place in locate_images(stored):
        if place.image_id in image_ids:
            name = names[place.image_id]
            file_name = name if isinstance(name, str) else ""
            if form == "pair" and (place.location is None or place.sha256 is None):  # its score may be known
                found[place.image_id] = chat.ChatImage(Path(place.image_id), "", file_name, place.image_id)
                continue
            if place.location is None or "://" in place.location or place.sha256 is None:
                reason = "image file not available, so the judge cannot see it"
                raise UserError(JUDGE_STAGE, place.image_id, reason, "build the set with `render`, or remove --judge")
            found[place.image_id] = chat.ChatImage(Path(place.location), place.sha256, file_name, place.image_id)
    return found


@dataclass(frozen=True, slots=True)
class JudgeLabels:
    """A grade by pooled pair, in the pool's order, -1 without one, and the sentence of the judge; `record` holds the
    judge and its cost. `scores`: in place of grades, NaN without one."""

    grades: list[int]
    reasons: list[str]
    record: JudgeRecord
    scores: list[float] | None = None


def choose_form(choice: JudgeOptions | None) -> JudgeForm:
    """Return the form of a judge's questions. Raises UserError for `samples` with a model that scores pairs."""
    if choice is None:
        return "grade"
    if not chat.takes_pairs(choice.model):
        return "yes" if choice.scores or choice.samples else "grade"
    if choice.samples:
        raise UserError(
            JUDGE_STAGE, choice.model, "returns scores itself, so sampling has no effect", "remove the samples option"
        )
    return "pair"


def load_judge(choice: JudgeOptions, pooled: PooledSet, runs: Sequence[Path]) -> chat.ChatModel:
    """Return the judge. Raises UserError for one that is a system of the audit: it would judge its own results."""
    names = set(pooled.systems)
    for run in runs:
        if (run / RESULT_FILE).is_file():
            system = read_result(run)["system"]
            names |= {str(system.get(key)) for key in ("name", "revision") if system.get(key)}
    return load_outside_judge(choice, names)


def load_outside_judge(choice: JudgeOptions, names: Collection[str]) -> chat.ChatModel:
    """Return the judge. Raises UserError for one whose name or revision is among those of the systems."""
    judge = chat.load_chat_model(choice.model, **choice.options)
    identity = {name.casefold() for name in (judge.identity.name, judge.identity.revision) if name}
    if not choice.allow_contestant and identity & {name.casefold() for name in names}:
        reason = "is a system of this audit and would judge its own results"
        raise UserError(JUDGE_STAGE, judge.identity.name, reason, "choose another model, or add --allow-contestant")
    return judge


def count_judge_calls(judge: chat.ChatModel, pooled: PooledSet) -> int:
    """Return the number of questions that a start would ask: those without a stored reply."""
    return cached_replies.answer_requests(
        open_judge_store(pooled.stored), judge, build_judge_requests(pooled), offline=True
    ).missing


@step("judge pool")
def judge_pool(judge: chat.ChatModel, pooled: PooledSet) -> JudgeLabels:
    """Ask the judge about every pair of the pool; each reply is stored before it is read. Raises UserError where it
    gives no grade at all."""
    questions = _ask_about(pooled)
    requests, session = _list_requests(questions, pooled), ChatSession(open_judge_store(pooled.stored))
    answers = session.ask("judge", judge, requests)
    if questions.form != "grade":
        return _read_scores(judge, questions, answers, session)
    parsed = questions.read_scores(answers)
    if not any(grade is not None for grade in parsed):
        failures = [one for one in answers if isinstance(one, chat.Failure)]
        reason = f"{failures[0].reason}: {failures[0].detail}" if failures else "no reply contains a grade"
        raise UserError(
            JUDGE_STAGE, judge.identity.name, f"returned no grade ({reason})", "choose a model that accepts images"
        )
    record, replies = questions.describe_judge(judge), session.provenance().inputs[0]["sha256"]
    unusable = sum(grade is None for grade in parsed)
    return JudgeLabels(
        [NO_LABEL if grade is None else int(grade) for grade in parsed],
        [parse_judge_reason(one.text) if isinstance(one, chat.Reply) else "" for one in answers],
        {**record, "replies": replies, "without_grade": unusable},
    )


def _read_scores(
    judge: chat.ChatModel, questions: SetQuestions, answers: Sequence[chat.ChatAnswer], session: ChatSession
) -> JudgeLabels:
    found = questions.read_scores(answers)
    if all(one is None for one in found):
        failure = next((one for one in answers if isinstance(one, chat.Failure)), None)
        reason = f"returned no score ({failure.reason}: {failure.detail})" if failure else "returned no score"
        next_step = "choose a model that returns log probabilities, or sample it: --judge-samples 10"
        raise UserError(JUDGE_STAGE, judge.identity.name, reason, next_step)
    record, replies = questions.describe_judge(judge), session.provenance().inputs[0]["sha256"]
    scores = [math.nan if one is None else one for one in found]
    return JudgeLabels(
        [NO_LABEL] * len(scores),
        [""] * len(scores),
        {**record, "replies": replies, "without_grade": found.count(None)},
        scores,
    )


def build_judge_requests(pooled: PooledSet) -> list[chat.ChatRequest]:
    """Return the requests about each pooled pair, in the pool's order. Raises UserError for an image that is not at
    hand."""
    return _list_requests(_ask_about(pooled), pooled)


def _ask_about(pooled: PooledSet) -> SetQuestions:
    return SetQuestions(pooled.stored, pooled.pool.pairs["image_id"], pooled.judge_form, pooled.samples)


def _list_requests(questions: SetQuestions, pooled: PooledSet) -> list[chat.ChatRequest]:
    pairs = zip(pooled.pool.pairs["query_id"], pooled.pool.pairs["image_id"], strict=True)
    return questions.build_all((query, questions.images[image]) for query, image in pairs)
