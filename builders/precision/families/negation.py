"""Absence: "a dog, no people anywhere". An image that shows both is a near miss. "A table without a bowl" would ask for
less: for a table with no bowl on it, whatever else is in the image.
"""

from collections.abc import Iterator

import numpy as np

from builders.precision.families import box_evidence
from builders.precision.tag_tree import LabelConcept


def find_questions(
    world: box_evidence.BoxWorld, rules: box_evidence.FamilyRules
) -> Iterator[box_evidence.FamilyQuestion]:
    """Yield both orders of each pair of labels that are seen together at least as often as a query needs images: an
    absence that nobody expects otherwise asks nothing. The query for the first label is the twin without the
    negation."""
    absent = {label: world.is_certain(label) & ~world.has_box(label) for label in world.labels}
    for pair in world.pairs():
        together = world.has_box(pair[0]) & world.has_box(pair[1])
        if int(together.sum()) < rules.min_images:
            continue
        for shown, missing in (pair, pair[::-1]):
            if not world.concepts[missing].article:
                continue
            relevant = box_evidence.mark(world.evidence(shown).image, world.image_count) & absent[missing]
            wrong = np.flatnonzero(together)
            yield box_evidence.FamilyQuestion(
                "negation/without",
                (shown, missing),
                np.flatnonzero(relevant),
                wrong,
                "{0}, no box of {1}",
                "{0} with {1}",
                (shown,),
            )


def phrase(_kind: str, concepts: list[LabelConcept]) -> box_evidence.Phrases:
    """Return the texts; in English none where a plural is unknown: "a Food waste but no tvmonitor anywhere"."""
    shown, missing = concepts
    nowhere = f"no {missing.plural} anywhere"
    english = {
        ("en", "word"): f"{shown.en}, {nowhere}",
        ("en", "sentence"): f"a picture with {shown.with_article()} but {nowhere}",
    }
    return (english if shown.plural and missing.plural else {}) | {
        ("zh", "word"): f"画面中有{shown.zh}、没有{missing.zh}",
        ("zh", "sentence"): f"一张有{shown.zh}但没有{missing.zh}的图片",
    }


FAMILY = box_evidence.QueryFamily(find_questions, phrase)
