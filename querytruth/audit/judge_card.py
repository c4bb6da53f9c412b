"""The card of a judge, <set>/judges/<model>.json: how it agrees with the people who answered an audit, what it costs.

Grades have kappa, sensitivity and specificity, weighted by the chances of the sample. Scores have a reliability curve:
what they say, calibrated on the answers to other queries, beside what people say.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from querytruth.array_types import BoolArray, FloatArray
from querytruth.audit import audit_files, definition
from querytruth.audit.answers import load_audit, read_answers
from querytruth.audit.audit_files import JudgeRecord
from querytruth.audit.certificate import RelevanceModel
from querytruth.audit.judge import JUDGE_STAGE, SetQuestions, load_outside_judge, open_judge_store
from querytruth.audit.pool import JsonRecord, JudgeForm
from querytruth.backends.files.durable_files import make_durable_folder, write_atomically
from querytruth.backends.files.safe_paths import contained_path, read_regular
from querytruth.backends.models.chat import ChatAnswer, ChatModel, Failure, Reply
from querytruth.backends.steps import step
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.evaluation.statistics import IntervalEstimate, estimate_proportion
from querytruth.questions import ChatSession
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.manifest_notes import Reliability

_MAX_GRADE = 127
FEWEST_CALIBRATED = 30  # answers, below which no score of a judge is believed
_FOLDS, _MANY = 5, 200
_FEWEST = 10  # pairs that people graded
_FOLDER = "judges"


def load_checked_judge(path: Path, name: str, choice: definition.JudgeOptions) -> ChatModel:
    """Returns the judge to check. Raises UserError for a system of the audit `name`."""
    manifest = audit_files.read_audit_manifest(audit_files.audit_folder(path.parent, name))
    return load_outside_judge(choice, [system["name"] for system in manifest["systems"]])


@step("check judge")
def check_judge(
    path: Path, name: str, judge: ChatModel, form: JudgeForm = "grade", samples: int = 0
) -> tuple[JsonRecord, Path]:
    """Asks the judge about every pair that people answered in an audit; returns the card and its file. Every reply is
    stored before it is read. Raises UserError where people graded too few pairs, or the judge answers none."""
    audit, stored = load_audit(path, name)
    answers = read_answers(path, audit)
    rows = zip(audit.sample["query_id"], audit.sample["image_id"], audit.sample["probability"], strict=True)
    weights = {(query, image): 1 / chance for query, image, chance in rows if (query, image) in answers.grades}
    if len(weights) < _FEWEST:
        reason = f"people graded {len(weights)} of its pairs, a card needs {_FEWEST}"
        raise UserError(JUDGE_STAGE, name, reason, f"judge on: querytruth review {path.parent.name}")
    questions = SetQuestions(stored, {image for _, image in weights}, form, samples)
    requests = questions.build_all((query, questions.images[image]) for query, image in weights)
    session, start = ChatSession(open_judge_store(stored)), time.monotonic()
    replies = session.ask("judge", judge, requests)
    cost = _describe_cost(replies, session, time.monotonic() - start)
    answered = {pair: one for pair, one in zip(weights, questions.read_scores(replies), strict=True) if one is not None}
    if not answered:
        failures = [f" ({one.reason}: {one.detail})" for one in replies if isinstance(one, Failure)]
        reason = f"gave no {'grade' if form == 'grade' else 'score'}{failures[-1] if failures else ''}"
        raise UserError(JUDGE_STAGE, judge.identity.name, reason, "choose a model that sees images")
    people, judged = [answers.grades[pair] for pair in answered], np.array(list(answered.values()))
    card = {
        **questions.describe_judge(judge),
        "audit": {"name": name, "audit_id": audit.manifest["audit_id"]},
        "without_grade": len(weights) - len(answered),
        "per_1000_pairs": cost if form == "grade" else {"tokens": None, "seconds": None},
    }
    if form == "grade":
        grades = judged.astype(int).tolist()
        card["agreement"] = describe_agreement(people, grades, [weights[pair] for pair in answered])
    else:
        relevant = np.array([float(grade > 0) for grade in people])
        card["reliability"] = describe_reliability(judged, relevant, [query for query, _ in answered])
    return card, write_judge_card(path.parent, card)


def _describe_cost(replies: Sequence[ChatAnswer], session: ChatSession, seconds: float) -> dict[str, float | None]:
    """The tokens and the seconds of 1,000 questions; None where replies state no tokens, or all were stored."""
    tokens = [
        one.prompt_tokens + one.completion_tokens
        for one in replies
        if isinstance(one, Reply) and one.prompt_tokens is not None and one.completion_tokens is not None
    ]
    calls = session.call_counts().get("judge", {}).get("calls", 0)
    return {
        "tokens": round(1000 * sum(tokens) / len(tokens)) if tokens else None,
        "seconds": round(1000 * seconds / calls, 1) if calls else None,
    }


def weighted_kappa(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> float | None:
    """Returns Cohen's kappa of two lists of categories with a weight per item; None where it is not defined."""
    table = _cross(people, judge, weights)
    expected = float((table.sum(axis=0) * table.sum(axis=1)).sum())
    return None if expected >= 1 - 1e-12 else float((np.trace(table) - expected) / (1 - expected))


def describe_agreement(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> JsonRecord:
    """Returns the agreement of the judge's grades with people's, each pair weighted by 1 / its chance of being drawn:
    kappa of grades and of relevant or not, beside the shares that each calls relevant; sensitivity and specificity with
    intervals; how often (of drawn pairs) each grade of people met each grade of the judge."""
    person, model, weight = (np.asarray(given) for given in (people, judge, weights))
    says, is_relevant = model > 0, person > 0
    confusion: dict[str, dict[str, int]] = {}
    for one, other in zip(person.tolist(), model.tolist(), strict=True):
        row = confusion.setdefault(str(one), {})
        row[str(other)] = row.get(str(other), 0) + 1
    return {
        "pairs": len(person),
        "kappa": weighted_kappa(people, judge, weights),
        "kappa_relevant": weighted_kappa(is_relevant.astype(int).tolist(), says.astype(int).tolist(), weights),
        "relevant_by_people": float(np.average(is_relevant, weights=weight)),
        "relevant_by_judge": float(np.average(says, weights=weight)),
        "sensitivity": _describe(_rate(says[is_relevant], weight[is_relevant])),
        "specificity": _describe(_rate(~says[~is_relevant], weight[~is_relevant])),
        "confusion": {grade: dict(sorted(row.items())) for grade, row in sorted(confusion.items())},
    }


def calibrate_scores(scores: FloatArray, relevant: FloatArray, queries: Sequence[str]) -> FloatArray:
    """Returns by pair the probability that it is relevant, from the answers to the pairs of other queries: a logistic
    curve of the score, or with many answers a rising step function (isotonic regression)."""
    codes = np.unique(np.asarray(queries), return_inverse=True)[1]
    folds = np.random.default_rng(0).permutation(int(codes.max()) + 1)[codes] % _FOLDS
    found = np.empty(len(scores))
    for fold in range(_FOLDS):
        own = folds == fold
        found[own] = fit_curve(scores[~own], relevant[~own], scores[own])
    return found


def fit_curve(scores: FloatArray, relevant: FloatArray, wanted: FloatArray) -> FloatArray:
    """Returns the probability of each wanted score, from pairs with scores that people answered."""
    if len(scores) >= _MANY:
        from scipy.optimize import isotonic_regression

        order = np.argsort(scores, kind="stable")
        steps = isotonic_regression(relevant[order]).x
        return np.asarray(np.interp(wanted, scores[order], steps), dtype=np.float64)
    is_share = bool(len(scores)) and scores.min() >= 0 and scores.max() <= 1
    columns = np.concatenate([scores, wanted])
    if is_share:
        columns = np.log((np.clip(columns, 0, 1) + 0.01) / (1.01 - np.clip(columns, 0, 1)))
    known = columns[: len(scores)]
    middle, spread = (float(known.mean()), float(known.std()) or 1.0) if len(scores) else (0.0, 1.0)
    features = ((columns - middle) / spread)[:, None]
    model = RelevanceModel(features, [0.0, 1.0], np.arange(len(features)))
    return model.fit(np.arange(len(scores)), relevant > 0)[len(scores) :]


def describe_reliability(scores: FloatArray, relevant: FloatArray, queries: Sequence[str]) -> Reliability | None:
    """Returns how far calibrated scores can be believed: by tenth of the pairs what they say and what people say, the
    expected calibration error, and the area under the ROC curve of the scores; None below 30 answers, or where people
    say the same of all."""
    if len(scores) < FEWEST_CALIBRATED or not 0 < relevant.mean() < 1:
        return None
    calibrated = calibrate_scores(scores, relevant, queries)
    parts = np.array_split(np.argsort(calibrated, kind="stable"), 10)
    curve = [
        {"pairs": len(part), "calibrated": float(calibrated[part].mean()), "relevant": float(relevant[part].mean())}
        for part in parts
    ]
    error = sum(one["pairs"] * abs(one["calibrated"] - one["relevant"]) for one in curve) / len(scores)
    return {"answers": len(scores), "area": rank_area(scores, relevant), "expected_error": error, "curve": curve}


def rank_area(scores: FloatArray, relevant: FloatArray) -> float:
    """Returns the chance that a relevant pair scores higher than another, ties counting half."""
    ranks, positives = pd.Series(scores).rank().to_numpy(), relevant.sum()
    return float(
        (ranks[relevant > 0].sum() - positives * (positives + 1) / 2) / (positives * (len(scores) - positives))
    )


def _cross(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> FloatArray:
    table = np.zeros((_MAX_GRADE + 1, _MAX_GRADE + 1))
    np.add.at(table, (np.asarray(people, dtype=int), np.asarray(judge, dtype=int)), np.asarray(weights, dtype=float))
    total: FloatArray = table / max(table.sum(), 1e-300)
    return total


def _rate(hits: BoolArray, weight: FloatArray) -> IntervalEstimate:
    """A weighted share with Jeffreys' interval of the effective number of draws, (sum w)^2 / sum w^2 (Kish 1965)."""
    if not len(hits):
        return estimate_proportion(0, 0, np.inf)
    draws = weight.sum() ** 2 / (weight**2).sum()
    return estimate_proportion(np.average(hits, weights=weight) * draws, draws, np.inf)


def _describe(estimate: IntervalEstimate) -> dict[str, float]:
    return {end: float(getattr(estimate, end)) for end in ("value", "low", "high")}


def write_judge_card(set_folder: Path, card: JsonRecord) -> Path:
    """Replaces the card of a model and returns its file. Raises UserError where it cannot be written."""
    path = _locate(set_folder, card["name"])
    with translate_write_errors("write judge card", path):
        make_durable_folder(path.parent)
        write_atomically(path, canonical_json(card))
    return path


def read_judge_card(set_folder: Path, judge: JudgeRecord) -> JsonRecord | None:
    """Returns the card of a judge (its name and digest), None without one. Raises UserError for a stale card: of
    another revision, other parameters, prompts, grades or sizes of images."""
    path = _locate(set_folder, judge["name"])
    if not path.is_file():
        return None
    with translate_read_errors("read judge card", path, "querytruth judge check SET", also=(ValueError,)):
        card: JsonRecord = json.loads(read_regular(path))
    if card.get("digest") != judge["digest"]:
        reason = "is stale: the model's revision or parameters, the prompt or the size of the images is another by now"
        raise UserError(
            "read judge card", path, reason, f"querytruth judge check {set_folder.name}, or remove the card"
        )
    return card


def _locate(set_folder: Path, name: str) -> Path:
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:80] or "judge"
    return contained_path(set_folder, f"{_FOLDER}/{slug}.json", "read judge card")
