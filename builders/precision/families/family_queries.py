"""The questions of all families that have enough images, and their queries with judgments."""

import heapq
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from builders.album.fact_tags import describe_kinds
from builders.precision import judgments
from builders.precision.annotated_gallery import Ints
from builders.precision.families import attribute, count, negation, people, size, spatial
from builders.precision.families.box_evidence import BoxWorld, FamilyQuestion, FamilyRules
from builders.precision.label_index import images_with_all, test_bits
from querytruth.array_types import BoolArray
from querytruth.records import content_id, stable_hash
from querytruth.sets.ledger import Ledger, Rejection, rejection_table

FAMILIES = {
    "count": count.FAMILY,
    "size": size.FAMILY,
    "spatial": spatial.FAMILY,
    "negation": negation.FAMILY,
    "attribute": attribute.FAMILY,
    "people": people.FAMILY,
}
_WRONG = (
    "; in a family: the labels are present, but their number, size{attribute} or place differs, or a label that must "
    "be absent is present"
)
_FAMILY_GRADES = {
    "graded": {
        "2": "; in a family: relevant, and every label that must be visible has a box over the area ratio",
        "1": "; in a family: relevant, but at least one label is only small",
        "0": _WRONG,
    },
    "binary": {
        "1": "; in a family: relevant",
        "0": _WRONG,
    },
}


def describe_grades(grades: str, families: Sequence[str]) -> dict[str, str]:
    """Return what each grade means, graded or binary, in a set with these families."""
    meanings = judgments.PRECISION_SET_GRADES[grades]
    attribute = ", attribute" if "attribute" in families else ""
    added = {grade: text.format(attribute=attribute) for grade, text in _FAMILY_GRADES[grades].items()}
    return {grade: text + (added[grade] if families else "") for grade, text in meanings.items()}


def find_family_questions(
    families: Iterable[str], world: BoxWorld, wording: judgments.QueryWording, rules: FamilyRules, ledger: Ledger
) -> list[FamilyQuestion]:
    """Return the questions of the families with enough relevant images and a text, by kind and labels, up to the cap
    of a family (drawn by hash), and record a stage per family."""
    out: list[FamilyQuestion] = []
    for name in families:
        kept: list[tuple[int, str, FamilyQuestion]] = []  # the highest hash first
        rejected: list[Rejection] = []
        entered = 0
        for question in FAMILIES[name].find_questions(world, rules):
            if not len(question.relevant):
                continue
            entered += 1
            item = " ".join([question.kind, "&".join(_keys(question, world))])
            if len(question.relevant) < rules.min_images:
                found, least = len(question.relevant), rules.min_images
                rejected.append(
                    Rejection(item, "rejected", "too_few_images", measure="images", value=found, threshold=least)
                )
                continue
            if not list_texts(question, world, wording):
                rejected.append(Rejection(item, "rejected", "no_phrase"))
                continue
            heapq.heappush(kept, (-stable_hash(str(rules.seed), "family", item), item, question))
            if rules.cap is not None and len(kept) > rules.cap:
                over = heapq.heappop(kept)[1]
                rejected.append(Rejection(over, "rejected", "over_the_cap", threshold=rules.cap))
        ledger.record_stage(f"family_{name}", "question", entered, len(kept), rejection_table(rejected))
        out += [question for _, _, question in kept]
    return sorted(out, key=lambda question: (question.kind, question.labels))


def judge_family_questions(
    questions: Iterable[FamilyQuestion],
    world: BoxWorld,
    judge: judgments.SeedJudge,
    wording: judgments.QueryWording,
    seeds: Iterable[tuple[int, ...]] = (),
) -> list[judgments.JudgedQuery]:
    """Return the queries of the questions in each language and style that has a text, with the relevant images and up
    to `max_near_misses` wrong ones. `seeds`: the labels of the queries that the set has besides: the one for the labels
    that are to be seen is the twin of a question."""
    asked = {frozenset(concepts) for concepts in seeds}
    out: list[judgments.JudgedQuery] = []
    for question in questions:
        judged = _judge(question, world, judge)
        for query in list_question_queries(question, world, wording, asked):
            names = [world.concepts[label].name(query["language"]) for label in question.labels]
            evidence = question.why_relevant.format(*names), question.why_wrong.format(*names)
            out.append((query, judged, evidence))
    return out


def list_question_queries(
    question: FamilyQuestion, world: BoxWorld, wording: judgments.QueryWording, asked: Collection[frozenset[int]] = ()
) -> list[dict[str, Any]]:
    """Return the queries of a question, one per language and style that has a text, as rows of the table. `asked`: the
    labels of the queries that the set has besides."""
    keys = _keys(question, world)
    shown = [world.concepts[label].key for label in question.shown]
    has_twin = frozenset(question.shown) in asked
    return [
        {
            "query_id": content_id("q", "precision", question.kind, language, style, *keys),
            "text": text,
            "language": language,
            "style": style,
            "level": len(keys),
            "labels": keys,
            "family": question.kind,
            **describe_kinds([world.concepts[label].kind for label in question.labels]),
            "twin": judgments.find_seed_query_id(language, style, shown) if has_twin else None,
        }
        for language, style, text in list_texts(question, world, wording)
    ]


def _judge(question: FamilyQuestion, world: BoxWorld, judge: judgments.SeedJudge) -> judgments.SeedJudgments:
    keys = _keys(question, world)
    wrong = _draw(question.wrong, judge, question.kind, keys)
    image = np.concatenate([question.relevant, wrong]).astype(np.int64)
    is_wrong = np.arange(len(image)) >= len(question.relevant)
    relevance = np.where(is_wrong, 0, 1).astype(np.int8)
    if judge.graded:
        prominent: BoolArray = test_bits(images_with_all(judge.index.prominent, question.shown), image)
        if question.is_best is not None:
            prominent = np.concatenate([question.is_best, np.zeros(len(wrong), dtype=bool)])
        relevance += (prominent & ~is_wrong).astype(np.int8)
    order = np.argsort(image, kind="stable")
    return judgments.SeedJudgments(image[order], relevance[order], is_wrong[order].astype(np.int64), [])


def _draw(wrong: Ints, judge: judgments.SeedJudge, kind: str, keys: Sequence[str]) -> Ints:
    """Return up to `max_near_misses` images. Image ids are digests: a start at a hash is a draw."""
    point = f"img_{stable_hash(str(judge.seed), 'near_miss', kind, *keys):016x}"
    start = int(np.searchsorted(wrong, np.searchsorted(judge.image_ids, point)))
    return np.concatenate([wrong[start:], wrong[:start]])[: judge.max_near_misses]


def _keys(question: FamilyQuestion, world: BoxWorld) -> list[str]:
    return [world.concepts[label].key for label in question.labels]


def list_texts(
    question: FamilyQuestion, world: BoxWorld, wording: judgments.QueryWording
) -> list[tuple[str, str, str]]:
    """Return language, style and text of each wanted text that the question has."""
    family = FAMILIES[question.kind.partition("/")[0]]
    phrases = family.phrase(question.kind, [world.concepts[label] for label in question.labels])
    wanted = [(language, style) for language in wording.languages for style in wording.styles]
    return [(*pair, phrases[pair]) for pair in wanted if pair in phrases]
