"""Checks a judge against the people who answered an audit, probes it, and writes its card."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.chat import ChatImage, ChatModel, ChatRequest, Failure, Reply
from backends.images.probe_images import write_probe_images
from backends.sets.audit_files import audit_folder, read_audit_manifest
from backends.sets.judge_cards import write_judge_card
from builders.audit import probes
from builders.audit.judge_replies import parse_judge_reply
from builders.errors import UserError
from evaluation.audit.judge_card import describe_agreement, describe_probe, draw_roc
from flows.audits.audit_answers import load_audit, read_answers
from flows.audits.audit_judge import load_outside_judge
from flows.audits.judge_requests import JUDGE_STAGE, JudgeQuestions, open_judge_store
from flows.chat_session import ChatSession
from flows.definitions.audit import JudgeOptions
from flows.steps import step

_FEWEST = 10  # pairs that people graded
_PROBE_FOLDER = ".probes"
Pair = tuple[str, str]


def load_checked_judge(path: Path, name: str, choice: JudgeOptions) -> ChatModel:
    """Returns the judge to check. Raises UserError for a system of the audit `name`."""
    manifest = read_audit_manifest(audit_folder(path.parent, name))
    return load_outside_judge(choice, [system["name"] for system in manifest["systems"]])


@step("check judge")
def check_judge(path: Path, name: str, judge: ChatModel, probe_pairs: int) -> tuple[dict[str, Any], Path]:
    """Asks the judge about every pair that people answered in an audit, and about `probe_pairs` of them in other forms;
    returns the card and its file. Every reply is stored before it is read. Raises UserError where people graded too few
    pairs, or the judge gives no grade."""
    audit, stored = load_audit(path, name)
    answers = read_answers(path, audit)
    rows = zip(audit.sample["query_id"], audit.sample["image_id"], audit.sample["probability"], strict=True)
    weights = {(query, image): 1 / chance for query, image, chance in rows if (query, image) in answers.grades}
    pairs = list(weights)  # in the order of the sample, which is random
    if len(pairs) < _FEWEST:
        reason = f"people graded {len(pairs)} of its pairs, a card needs {_FEWEST}"
        raise UserError(JUDGE_STAGE, name, reason, f"judge on: querytruth review {path.parent.name}")
    marked = stored.tables.qrels[stored.tables.qrels["relevance"] > 0].astype({"query_id": "str", "image_id": "str"})
    known = set(zip(marked["query_id"], marked["image_id"], strict=True))
    known |= {pair for pair, grade in answers.grades.items() if grade > 0}
    relevant: dict[str, set[str]] = {}
    for query, image in known:
        relevant.setdefault(query, set()).add(image)
    chosen = pairs[:probe_pairs]
    labels = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["labels"], strict=True))
    stated = {query: [str(one) for one in some] for query, some in labels.items() if some is not None}
    near = probes.choose_near_misses([query for query, _ in chosen], stated, relevant, known)
    questions = JudgeQuestions(stored, {image for _, image in pairs} | set(near.values()))
    asking = _Asking(ChatSession(open_judge_store(stored)), judge, questions)
    grades = asking.ask([questions.build(query, questions.images[image]) for query, image in pairs])
    both = [place for place, grade in enumerate(grades) if grade is not None]
    if not both:
        raise UserError(JUDGE_STAGE, judge.identity.name, asking.failure, "choose a model that sees images")
    people = [answers.grades[pairs[place]] for place in both]
    labelled = [grade for grade in grades if grade is not None]
    weight = [weights[pairs[place]] for place in both]
    plain = dict(zip(pairs, grades, strict=True))
    card = {
        **questions.describe_judge(judge),
        "audit": {"name": name, "audit_id": audit.manifest["audit_id"]},
        "without_grade": len(grades) - len(both),
        "agreement": describe_agreement(people, labelled, weight),
        "roc": draw_roc(people, labelled, weight),
        "probes": _probe(asking, {pair: answers.grades[pair] for pair in chosen}, plain, near, path.parent),
        "per_1000_pairs": asking.describe_cost(),
    }
    return card, write_judge_card(path.parent, card)


@dataclass
class _Asking:
    """Questions to a judge, with what they cost."""

    session: ChatSession
    judge: ChatModel
    questions: JudgeQuestions
    seconds: float = 0.0
    calls: int = 0
    replies: int = 0
    tokens: int = 0
    failure: str = "gave no grade"

    def ask(self, requests: Sequence[ChatRequest]) -> list[int | None]:
        """Returns a grade per request, None without one."""
        start, before = time.monotonic(), self._count_calls()
        answers = self.session.ask("judge", self.judge, requests)
        made = self._count_calls() - before
        self.seconds, self.calls = self.seconds + (time.monotonic() - start) * bool(made), self.calls + made
        for one in answers:
            if isinstance(one, Failure):
                self.failure = f"gave no grade ({one.reason}: {one.detail})"
            elif one.prompt_tokens is not None and one.completion_tokens is not None:
                self.replies, self.tokens = self.replies + 1, self.tokens + one.prompt_tokens + one.completion_tokens
        return [
            parse_judge_reply(one.text, self.questions.grades) if isinstance(one, Reply) else None for one in answers
        ]

    def describe_cost(self) -> dict[str, float | None]:
        """Returns the tokens and the seconds of 1,000 pairs; None where replies state no tokens, or all were stored."""
        tokens = round(1000 * self.tokens / self.replies) if self.replies else None
        return {"tokens": tokens, "seconds": round(1000 * self.seconds / self.calls, 1) if self.calls else None}

    def _count_calls(self) -> int:
        return self.session.call_counts().get("judge", {}).get("calls", 0)


def _probe(
    asking: _Asking,
    people: Mapping[Pair, int],
    plain: Mapping[Pair, int | None],
    near: Mapping[str, str],
    set_folder: Path,
) -> dict[str, Any]:
    """Returns by probe what it changed, or how often a picture that does not fit was called relevant."""
    requests = _build_probes(asking.questions, list(people), near, set_folder)
    found: dict[str, Any] = {}
    for probe, by_pair in requests.items():
        answers = dict(zip(by_pair, asking.ask(list(by_pair.values())), strict=True))
        graded = {pair: grade for pair, grade in answers.items() if grade is not None}
        if probe in probes.IRRELEVANT_PROBES:
            wrong = sum(grade > 0 for grade in graded.values())
            found[probe] = {"pairs": len(graded), "called_relevant": wrong / len(graded) if graded else None}
            continue
        both = [pair for pair in graded if plain[pair] is not None]
        before = [int(plain[pair] or 0) for pair in both]
        found[probe] = describe_probe([people[pair] for pair in both], before, [graded[pair] for pair in both])
    return found


def _build_probes(
    questions: JudgeQuestions, pairs: Sequence[Pair], near: Mapping[str, str], set_folder: Path
) -> dict[str, dict[Pair, ChatRequest]]:
    built: dict[str, dict[Pair, ChatRequest]] = {probe: {} for probe in probes.PROBES}
    for query, image in pairs:
        shown, pair = questions.images[image], (query, image)
        text, language = questions.queries[query]
        built[probes.ASKED_TWICE][pair] = questions.build(query, shown, number=1)
        built[probes.GRADES_REVERSED][pair] = questions.build(query, shown, is_reversed=True)
        for probe in (probes.PARAPHRASED, probes.LONGER_TEXT):
            built[probe][pair] = questions.build(query, shown, text=probes.rephrase_query(text, probe, language))
        if query in near:
            built[probes.NEAR_MISS][pair] = questions.build(query, questions.images[near[query]])
        made = write_probe_images(str(shown.path), shown.sha256, set_folder / _PROBE_FOLDER)
        for probe, file in zip((probes.MIRRORED, probes.BLANK), made or (), strict=False):
            built[probe][pair] = questions.build(query, ChatImage(*file))
    return built
