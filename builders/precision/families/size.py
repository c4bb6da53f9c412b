"""Sizes: an object that takes up much of the image, or little. Sizes between the two are in no class. The texts speak
of the share of the frame: a small dog is also one of a small breed.
"""

from collections.abc import Iterator

import numpy as np

from builders.precision.families import box_evidence
from builders.precision.tag_tree import LabelConcept


def find_questions(
    world: box_evidence.BoxWorld, rules: box_evidence.FamilyRules
) -> Iterator[box_evidence.FamilyQuestion]:
    """Yield for each label "large" (one object is) and "small" (all objects are)."""
    for label in world.labels:
        if not world.concepts[label].article:
            continue
        evidence = world.evidence(label)
        known = world.is_certain(label)[evidence.image]
        has_large = evidence.largest >= rules.large
        all_large = known & (evidence.smallest >= rules.large)
        all_small = known & (evidence.largest <= rules.small)
        large, small = f"{{0}} on {rules.large:.0%} of the image or more", f"all {{0}} on {rules.small:.0%} or less"
        image = evidence.image
        yield box_evidence.FamilyQuestion(
            "size/large", (label,), image[has_large], image[all_small], large, small, (label,)
        )
        yield box_evidence.FamilyQuestion(
            "size/small", (label,), image[all_small], image[np.flatnonzero(all_large)], small, f"all {large}", (label,)
        )


def phrase(kind: str, concepts: list[LabelConcept]) -> box_evidence.Phrases:
    """Return the texts."""
    (concept,) = concepts
    if kind == "size/large":
        return {
            ("en", "word"): f"{concept.en} taking up much of the frame",
            ("en", "sentence"): f"a picture in which {concept.with_article()} takes up much of the frame",
            ("zh", "word"): f"占画面很大一部分的{concept.zh}",
            ("zh", "sentence"): f"{concept.zh}占了画面很大一部分的图片",
        }
    return {
        ("en", "word"): f"{concept.en} taking up only a small part of the frame",
        (
            "en",
            "sentence",
        ): f"a picture in which {concept.with_article()} takes up only a small part of the frame",
        ("zh", "word"): f"仅占画面一小部分的{concept.zh}",
        ("zh", "sentence"): f"{concept.zh}仅占画面一小部分的图片",  # 船只占… begins with 船只, ships
    }


FAMILY = box_evidence.QueryFamily(find_questions, phrase)
