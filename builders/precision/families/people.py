"""Queries for people who are on a photo or not: "Gracie without Tom", "only Gracie", "family photo, West Lake". Only
photos with marked faces are judged; a face without a name may be anybody.
"""

from collections.abc import Iterator

import numpy as np

from builders.album.fact_tags import WORDING
from builders.precision.families import box_evidence
from builders.precision.tag_tree import LabelConcept
from querytruth.array_types import BoolArray

_PEOPLE, _EVENTS = ("person", "pseudonym"), ("event", "trip")
_EVIDENCE = {
    "only": ("{0} and no other face", "{0} and others"),
    "without": ("{0}, no face of {1}", "{0} with {1}"),
    "group": ("{0}, three people or more", "{0}, fewer than three people"),
}
_GROUP = 3  # people on a family photo, as in the seed article: those with one or two are none


def find_questions(
    world: box_evidence.BoxWorld, rules: box_evidence.FamilyRules
) -> Iterator[box_evidence.FamilyQuestion]:
    """Yield who without whom, who alone, and the family photos of each event."""
    if world.facts is None:
        return
    kinds = [one.kind for one in world.concepts]
    has = {code: _has(world, code) for code, kind in enumerate(kinds) if kind in (*_PEOPLE, *_EVENTS)}
    named = np.zeros(world.image_count, dtype=np.int64) + sum(has[c] for c in has if kinds[c] in _PEOPLE)
    known = world.facts["person"].to_numpy(dtype=bool) if "person" in world.facts else named < 0
    faces = world.facts["faces"].to_numpy()
    others = known & (faces > named)  # faces that nobody named
    people = [code for code in world.labels if kinds[code] in _PEOPLE]
    for one in people:
        mine = known & has[one]
        yield _make("only", (one,), mine & (named == 1) & ~others, mine & ((named > 1) | others))
        for other in people:
            if other != one:
                yield _make("without", (one, other), mine & ~has[other] & ~others, has[one] & has[other])
    is_group = (named >= _GROUP) | (faces >= _GROUP)
    for code in world.labels:
        if kinds[code] in _EVENTS:
            yield _make("group", (code,), has[code] & is_group, has[code] & known & ~is_group, named >= _GROUP)


def _has(world: box_evidence.BoxWorld, code: int) -> BoolArray:
    return box_evidence.mark(world.places.doubtful_image[world.places.doubtful_label == code], world.image_count)


def _make(
    kind: str, labels: tuple[int, ...], relevant: BoolArray, wrong: BoolArray, best: BoolArray | None = None
) -> box_evidence.FamilyQuestion:
    rows, texts = np.flatnonzero(relevant), _EVIDENCE[kind]
    is_best = None if best is None else best[rows]
    return box_evidence.FamilyQuestion(
        f"people/{kind}", labels, rows, np.flatnonzero(wrong), *texts, labels[:1], is_best
    )


def phrase(kind: str, concepts: list[LabelConcept]) -> box_evidence.Phrases:
    """Return the texts in both languages and styles."""
    texts: box_evidence.Phrases = {}
    for language, wording in WORDING["phrases"].items():
        names = [concept.name(language) for concept in concepts]
        word, sentence = (text.format(*names) for text in wording["people"][kind.partition("/")[2]])
        texts |= {(language, "word"): word, (language, "sentence"): sentence}
    return texts


FAMILY = box_evidence.QueryFamily(find_questions, phrase)
