"""The reliability of a judge: its answers on pairs that people judged, with the image and without it.

Scores have a reliability curve: each score, calibrated on the answers to other queries, beside the share of people's
answers; a grade counts as a score, too. Grades also have kappa, sensitivity and specificity.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from PIL import Image

from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.audit import audit_files, definition
from querytruth.audit.answers import read_judged_pairs
from querytruth.audit.judge import JUDGE_STAGE, SetQuestions, choose_form, load_outside_judge, open_judge_store
from querytruth.audit.pool import JsonRecord
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.models.chat import ChatImage, ChatModel, Failure
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.evaluation.statistics import IntervalEstimate, estimate_proportion
from querytruth.questions import ChatSession
from querytruth.sets.manifest_notes import Reliability
from querytruth.sets.set_files import read_set

FEWEST_CALIBRATED = 30  # answers, below which no score of a judge is believed
_FOLDS = 5
_PRIOR = 2  # answers at the base rate that each step of a curve gets (m-estimate, Cestnik 1990)
_FEWEST = 10  # pairs that people graded
_GREY = 256  # pixels, of each side of the image that shows nothing


def load_checked_judge(path: Path, choice: definition.JudgeOptions) -> ChatModel:
    """Return the judge to check. Raises UserError for a system of one of the set's audits."""
    folder = path.parent
    audits = [
        audit_files.read_audit_manifest(audit_files.audit_folder(folder, name))
        for name in audit_files.list_audits(folder)
    ]
    return load_outside_judge(choice, [system["name"] for audit in audits for system in audit["systems"]])


@step("check judge")
def check_judge(path: Path, judge: ChatModel, choice: definition.JudgeOptions) -> JsonRecord:
    """Ask the judge about every pair of a set that people judged, with its image and, where it sees images, with a
    grey one; return how both agree with people. Every reply is stored before it is read. Raises UserError where people
    judged too few pairs, or the judge answers none."""
    stored, form = read_set(path), choose_form(choice)
    queries, images = stored.tables.queries, set(stored.tables.images["image_id"])
    known = read_judged_pairs(path.parent, dict(zip(queries["query_id"], queries["text"], strict=True)))
    grades = {pair: grade for pair, grade in sorted(known.items()) if pair[1] in images}
    if len(grades) < _FEWEST:
        reason = f"people judged {len(grades)} of its pairs, but a check needs {_FEWEST}"
        raise UserError(
            JUDGE_STAGE, path.parent.name, reason, f"judge more pairs: querytruth review {path.parent.name}"
        )
    questions = SetQuestions(stored, {image for _, image in grades}, form, choice.samples)
    session = ChatSession(open_judge_store(stored))

    def ask(shown: dict[str, ChatImage]) -> FloatArray:
        replies = session.ask("judge", judge, questions.build_all((query, shown[image]) for query, image in grades))
        scores = questions.read_scores(replies)
        if all(one is None for one in scores):
            failures = [f" ({one.reason}: {one.detail})" for one in replies if isinstance(one, Failure)]
            reason = f"returned no {'grade' if form == 'grade' else 'score'}{failures[-1] if failures else ''}"
            raise UserError(JUDGE_STAGE, judge.identity.name, reason, "choose a model that accepts images")
        return np.array([np.nan if one is None else one for one in scores], dtype=np.float64)

    scores, people = ask(questions.images), np.array(list(grades.values()))
    is_scored, names = ~np.isnan(scores), [query for query, _ in grades]
    found: JsonRecord = {
        **questions.describe_judge(judge),
        "answers": len(grades),
        "without_score": int((~is_scored).sum()),
        "reliability": _describe_scored(scores, people, names),
    }
    if form == "grade":
        found["agreement"] = describe_agreement(
            people[is_scored].tolist(), scores[is_scored].astype(int).tolist(), [1.0] * int(is_scored.sum())
        )
    if form != "pair":
        with TemporaryDirectory() as folder:
            file = Path(folder) / "grey.png"
            Image.new("RGB", (_GREY, _GREY), (128, 128, 128)).save(file)
            grey = ChatImage(file, file_sha256(file)[0], file.name, "grey")
            blind = ask(dict.fromkeys(questions.images, grey))
        found["without_image"] = _describe_scored(blind, people, names)
    return found


def _describe_scored(scores: FloatArray, people: RowIndices, queries: Sequence[str]) -> Reliability | None:
    is_scored = ~np.isnan(scores)
    chosen = [query for query, is_known in zip(queries, is_scored, strict=True) if is_known]
    return describe_reliability(scores[is_scored], (people[is_scored] > 0).astype(np.float64), chosen)


def weighted_kappa(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> float | None:
    """Return Cohen's kappa of two lists of categories with a weight per item; None where it is not defined."""
    both = [np.asarray(one)[:, None] == np.union1d(people, judge) for one in (people, judge)]
    shares = [np.average(one, axis=0, weights=weights) for one in both]
    same, expected = np.average((both[0] & both[1]).any(axis=1), weights=weights), float(shares[0] @ shares[1])
    return None if expected >= 1 - 1e-12 else float((same - expected) / (1 - expected))


def describe_agreement(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> JsonRecord:
    """Return the agreement of the judge's grades with people's, each pair weighted by 1 / its chance of being drawn:
    kappa of grades and of relevant or not, beside the shares that each calls relevant; sensitivity and specificity with
    intervals; how often (of drawn pairs) each grade of people met each grade of the judge."""
    person, model, weight = (np.asarray(given) for given in (people, judge, weights))
    says, is_relevant = model > 0, person > 0
    counts = pd.crosstab(person, model).rename(index=str, columns=str).to_dict("index")
    return {
        "pairs": len(person),
        "kappa": weighted_kappa(people, judge, weights),
        "kappa_relevant": weighted_kappa(is_relevant.astype(int).tolist(), says.astype(int).tolist(), weights),
        "relevant_by_people": float(np.average(is_relevant, weights=weight)),
        "relevant_by_judge": float(np.average(says, weights=weight)),
        "sensitivity": _describe(_rate(says[is_relevant], weight[is_relevant])),
        "specificity": _describe(_rate(~says[~is_relevant], weight[~is_relevant])),
        "confusion": {grade: {other: n for other, n in row.items() if n} for grade, row in counts.items()},
    }


def calibrate_scores(scores: FloatArray, relevant: FloatArray, queries: Sequence[str]) -> FloatArray:
    """Return by pair the probability that it is relevant, from the answers to the pairs of other queries."""
    codes = np.unique(np.asarray(queries), return_inverse=True)[1]
    folds = np.random.default_rng(0).permutation(int(codes.max()) + 1)[codes] % _FOLDS
    found = np.empty(len(scores))
    for fold in range(_FOLDS):
        own = folds == fold
        found[own] = fit_curve(scores[~own], relevant[~own], scores[own])
    return found


def fit_curve(scores: FloatArray, relevant: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the probability of each wanted score, from pairs with scores that people answered: isotonic regression
    (Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability estimates", KDD 2002).

    Its last step often holds only a handful of relevant pairs and would give 1: each step gets two more answers at the
    base rate, so that a published .9 is .9."""
    from scipy.optimize import isotonic_regression  # a build needs it only where a judge is asked

    if not len(scores):
        return np.full(len(wanted), np.nan)
    known, place = np.unique(scores, return_inverse=True)
    pairs = np.bincount(place).astype(np.float64)
    steps = isotonic_regression(np.bincount(place, relevant) / pairs, weights=pairs)
    sizes = np.add.reduceat(pairs, steps.blocks[:-1])
    shares = (sizes * steps.x[steps.blocks[:-1]] + _PRIOR * relevant.mean()) / (sizes + _PRIOR)
    rising = np.maximum.accumulate(np.repeat(shares, np.diff(steps.blocks)))
    return np.asarray(np.interp(wanted, known, rising), dtype=np.float64)


def describe_reliability(scores: FloatArray, relevant: FloatArray, queries: Sequence[str]) -> Reliability | None:
    """Return the calibration of scores: by tenth of the pairs the score and the share that people call relevant, the
    expected calibration error, and the area under the ROC curve; None below 30 answers, or where all answers are the
    same."""
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
    """Return the chance that a relevant pair scores higher than another, ties counting half."""
    ranks, positives = pd.Series(scores).rank().to_numpy(), relevant.sum()
    return float(
        (ranks[relevant > 0].sum() - positives * (positives + 1) / 2) / (positives * (len(scores) - positives))
    )


def _rate(hits: BoolArray, weight: FloatArray) -> IntervalEstimate:
    """Return a weighted share with Jeffreys' interval of the effective number of draws, (sum w)^2 / sum w^2 (Kish
    1965)."""
    if not len(hits):
        return estimate_proportion(0, 0, np.inf)
    draws = weight.sum() ** 2 / (weight**2).sum()
    return estimate_proportion(np.average(hits, weights=weight) * draws, draws, np.inf)


def _describe(estimate: IntervalEstimate) -> dict[str, float]:
    return {end: float(getattr(estimate, end)) for end in ("value", "low", "high")}
