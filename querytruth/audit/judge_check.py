"""Checks a judge against the people who answered an audit, probes it, and writes its card.

A probe is the same question in another form, or one whose answer is known: with a mirrored image, or a grey area of the
same size. Each asks about pairs that people graded.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from PIL import Image, ImageOps

from querytruth.audit import audit_files, definition, judge_card
from querytruth.audit.answers import AuditAnswers, load_audit, read_answers
from querytruth.audit.judge import JUDGE_STAGE, SetQuestions, load_outside_judge, open_judge_store, parse_judge_reply
from querytruth.audit.pool import JsonRecord
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.images.rendering import THUMBNAIL_LIMITS, ThumbnailJob, run_thumbnail_job
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.models.chat import ChatImage, ChatModel, ChatRequest, Failure, Reply
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.questions import ChatSession
from querytruth.sets.set_files import StoredSet

ASKED_TWICE, GRADES_REVERSED, MIRRORED = "asked_twice", "grades_reversed", "mirrored"
PARAPHRASED, LONGER_TEXT, NEAR_MISS, BLANK = "paraphrased", "longer_text", "near_miss", "blank"
UNCHANGED_PROBES = (ASKED_TWICE, GRADES_REVERSED, MIRRORED, PARAPHRASED, LONGER_TEXT)  # the grade should stay
IRRELEVANT_PROBES = (NEAR_MISS, BLANK)  # the grade should be 0
PROBES = (*UNCHANGED_PROBES, *IRRELEVANT_PROBES)
_TEXTS = yaml.safe_load(Path(__file__).with_name("page_texts.yaml").read_text("utf-8"))
_PHRASES, TERMINAL_PROBES = _TEXTS["phrases"], _TEXTS["probes_in_terminal"]
_SIDE, _GREY = 1280, (128, 128, 128)
_FEWEST = 10  # pairs that people graded
_PROBE_FOLDER = ".probes"
Pair = tuple[str, str]


def rephrase_query(query: str, probe: str, language: str) -> str:
    """Returns the query in the words of a probe that changes the text."""
    return str(_PHRASES[language][probe]).replace("{query}", query)


def choose_near_misses(
    queries: Sequence[str],
    labels: Mapping[str, Sequence[str]],
    relevant: Mapping[str, set[str]],
    known: set[tuple[str, str]],
) -> dict[str, str]:
    """Returns by query an image that is relevant to another query with a label in common, or, where there is none, to
    any other query, and that nobody calls relevant to this one. `known`: relevant pairs."""
    found = {}
    others = sorted(relevant)
    for query in queries:
        own = set(labels.get(query, ()))
        near = [other for other in others if other != query and own & set(labels.get(other, ()))]
        for other in [*near, *others]:
            free = sorted(image for image in relevant[other] if (query, image) not in known)
            if other != query and free:
                found[query] = free[len(query) % len(free)]
                break
    return found


def write_probe_images(location: str, sha256: str, folder: Path) -> tuple[tuple[Path, str], tuple[Path, str]] | None:
    """Writes a mirrored copy of an image and a grey area of its size into the folder; returns each file with its
    sha256, None where the image cannot be read."""
    (jpeg,) = map_in_workers(run_thumbnail_job, [ThumbnailJob(location, _SIDE, None, sha256)], THUMBNAIL_LIMITS)
    if not isinstance(jpeg, bytes):
        return None
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        return _write(ImageOps.mirror(image), folder), _write(Image.new("RGB", image.size, _GREY), folder)


def _write(image: Image.Image, folder: Path) -> tuple[Path, str]:
    data = io.BytesIO()
    image.save(data, "JPEG", quality=95)
    digest = hashlib.sha256(data.getvalue()).hexdigest()
    path = folder / f"{digest}.jpg"
    write_atomically(path, data.getvalue())
    return path, digest


def load_checked_judge(path: Path, name: str, choice: definition.JudgeOptions) -> ChatModel:
    """Returns the judge to check. Raises UserError for a system of the audit `name`."""
    manifest = audit_files.read_audit_manifest(audit_files.audit_folder(path.parent, name))
    return load_outside_judge(choice, [system["name"] for system in manifest["systems"]])


@step("check judge")
def check_judge(path: Path, name: str, judge: ChatModel, probe_pairs: int) -> tuple[JsonRecord, Path]:
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
    if "score" in audit.pool:
        return _check_scores(audit, stored, answers, judge, probe_pairs)
    marked = stored.tables.qrels[stored.tables.qrels["relevance"] > 0].astype({"query_id": "str", "image_id": "str"})
    known = set(zip(marked["query_id"], marked["image_id"], strict=True))
    known |= {pair for pair, grade in answers.grades.items() if grade > 0}
    relevant: dict[str, set[str]] = {}
    for query, image in known:
        relevant.setdefault(query, set()).add(image)
    chosen = pairs[:probe_pairs]
    labels = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["labels"], strict=True))
    stated = {query: [str(one) for one in some] for query, some in labels.items() if some is not None}
    near = choose_near_misses([query for query, _ in chosen], stated, relevant, known)
    questions = SetQuestions(stored, {image for _, image in pairs} | set(near.values()))
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
        "agreement": judge_card.describe_agreement(people, labelled, weight),
        "roc": judge_card.draw_roc(people, labelled, weight),
        "probes": _probe(asking, {pair: answers.grades[pair] for pair in chosen}, plain, near, path.parent),
        "per_1000_pairs": asking.describe_cost(),
    }
    return card, judge_card.write_judge_card(path.parent, card)


def _check_scores(
    audit: audit_files.StoredAudit, stored: StoredSet, answers: AuditAnswers, judge: ChatModel, probe_pairs: int
) -> tuple[JsonRecord, Path]:
    """The card of a judge that scores: how its calibrated scores agree with people, and whether the image helps."""
    known = audit.pool[audit.pool["score"].notna()]
    pairs = [pair for pair in zip(known["query_id"], known["image_id"], strict=True) if pair in answers.grades]
    scores = dict(zip(zip(known["query_id"], known["image_id"], strict=True), known["score"], strict=True))
    record, shown_images = audit.get_judge(), {image for _, image in pairs[:probe_pairs]}
    questions = SetQuestions(stored, shown_images, record.get("form", "pair"), record.get("samples", 0))
    blank = {}
    for query, image in pairs[:probe_pairs]:
        shown = questions.images[image]
        folder = stored.path.parent / _PROBE_FOLDER
        if made := shown.sha256 and write_probe_images(str(shown.path), shown.sha256, folder):
            blank[query, image] = query, ChatImage(*made[1], image_id="")
    replies = ChatSession(open_judge_store(stored)).ask("judge", judge, questions.build_all(blank.values()))
    unseen = {
        pair: score for pair, score in zip(blank, questions.read_scores(replies), strict=True) if score is not None
    }
    measured = np.array([scores[pair] for pair in pairs]), np.array([float(answers.grades[pair] > 0) for pair in pairs])
    card = {
        **questions.describe_judge(judge),
        "audit": {"name": audit.manifest["name"], "audit_id": audit.manifest["audit_id"]},
        "reliability": judge_card.describe_reliability(*measured, [query for query, _ in pairs]),
        "blank": _compare_blank(unseen, scores, answers),
        "per_1000_pairs": {"tokens": None, "seconds": None},
    }
    return card, judge_card.write_judge_card(stored.path.parent, card)


def _compare_blank(unseen: Mapping[Pair, float], scores: Mapping[Pair, float], answers: AuditAnswers) -> JsonRecord:
    """The area under the ROC curve with the images, and with a grey area in place of each."""
    relevant = np.array([float(answers.grades[pair] > 0) for pair in unseen])
    if not len(relevant) or not 0 < relevant.mean() < 1:
        return {"pairs": len(relevant), "area": None, "area_blank": None}
    with_image, without = (np.array([by[pair] for pair in unseen]) for by in (scores, unseen))
    areas = {"area": judge_card.rank_area(with_image, relevant), "area_blank": judge_card.rank_area(without, relevant)}
    return {"pairs": len(relevant), **areas}


@dataclass
class _Asking:
    """Questions to a judge, with what they cost."""

    session: ChatSession
    judge: ChatModel
    questions: SetQuestions
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
) -> JsonRecord:
    """Returns by probe what it changed, or how often an image that does not fit was called relevant."""
    requests = _build_probes(asking.questions, list(people), near, set_folder)
    found: JsonRecord = {}
    for probe, by_pair in requests.items():
        answers = dict(zip(by_pair, asking.ask(list(by_pair.values())), strict=True))
        graded = {pair: grade for pair, grade in answers.items() if grade is not None}
        if probe in IRRELEVANT_PROBES:
            wrong = sum(grade > 0 for grade in graded.values())
            found[probe] = {"pairs": len(graded), "called_relevant": wrong / len(graded) if graded else None}
            continue
        both = [pair for pair in graded if plain[pair] is not None]
        before = [int(plain[pair] or 0) for pair in both]
        found[probe] = judge_card.describe_probe(
            [people[pair] for pair in both], before, [graded[pair] for pair in both]
        )
    return found


def _build_probes(
    questions: SetQuestions, pairs: Sequence[Pair], near: Mapping[str, str], set_folder: Path
) -> dict[str, dict[Pair, ChatRequest]]:
    built: dict[str, dict[Pair, ChatRequest]] = {probe: {} for probe in PROBES}
    for query, image in pairs:
        shown, pair = questions.images[image], (query, image)
        text, language = questions.queries[query]
        built[ASKED_TWICE][pair] = questions.build(query, shown, number=1)
        built[GRADES_REVERSED][pair] = questions.build(query, shown, is_reversed=True)
        for probe in (PARAPHRASED, LONGER_TEXT):
            built[probe][pair] = questions.build(query, shown, text=rephrase_query(text, probe, language))
        if query in near:
            built[NEAR_MISS][pair] = questions.build(query, questions.images[near[query]])
        made = write_probe_images(str(shown.path), shown.sha256, set_folder / _PROBE_FOLDER)
        for probe, file in zip((MIRRORED, BLANK), made or (), strict=False):
            built[probe][pair] = questions.build(query, ChatImage(*file))
    return built
