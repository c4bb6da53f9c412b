"""Attributes: "a red car", "a wooden bench". An image whose objects of the label have other attributes is a near
miss.
"""

from collections.abc import Iterator

import numpy as np

from builders.precision.annotated_gallery import Ints
from builders.precision.attributes import BoxAttributes
from builders.precision.families.box_evidence import BoxWorld, FamilyQuestion, FamilyRules, Phrases, QueryFamily, mark
from builders.precision.families.count import LABEL_WORDS, MEASURE_WORD
from builders.precision.tag_tree import LabelConcept, choose_article, has_chinese

_COLOURS = LABEL_WORDS["colours"]
# Attributes without one have no Chinese question.
_CHINESE = {name: f"{colour}的" for name, colour in _COLOURS.items()} | LABEL_WORDS["states"]
_OF_PEOPLE = {f"in {name}": f"穿{colour}衣服的" for name, colour in _COLOURS.items()} | LABEL_WORDS["of_people"]


def find_questions(world: BoxWorld, rules: FamilyRules) -> Iterator[FamilyQuestion]:
    """Yield each attribute of each label. Relevant: one object has it; wrong, if all attributes are listed: each
    object of the label lists attributes, and not this one."""
    attributes = world.attributes
    assert attributes is not None
    taken = {name.casefold() for concept in world.concepts for name in (concept.en, concept.zh)}
    box_starts = _start_of_each_box(attributes)
    for label in world.labels:
        boxes = world.rows(label)
        listed = _find_listed_images(world, label, attributes) if rules.all_attributes else np.empty(0, np.int64)
        counts = box_starts[1][boxes + 1] - box_starts[1][boxes]
        codes = attributes.code[box_starts[0][(np.repeat(box_starts[1][boxes], counts) + _count_up(counts))]]
        images = np.repeat(world.places.image[boxes], counts)
        order = np.argsort(codes, kind="stable")  # of one attribute the images stay ascending
        for code, chunk in zip(*_split_by_code(codes[order], images[order]), strict=True):
            name, relevant = attributes.names[code], np.unique(chunk)
            if taken & _short_texts(name, world.concepts[label]):
                continue  # a hot dog is another label
            wrong = np.setdiff1d(listed, relevant, assume_unique=True)
            shown = name.replace("{", "{{").replace("}", "}}")
            why = f"{{0}}: {shown}"
            yield FamilyQuestion(f"attribute/{name}", (label,), relevant, wrong, why, f"{{0}}: not {shown}", (label,))


def _start_of_each_box(attributes: BoxAttributes) -> tuple[Ints, Ints]:
    """Return the pairs in the order of their boxes, and where the pairs of each box begin."""
    order = np.argsort(attributes.box, kind="stable")
    return order, np.searchsorted(attributes.box[order], np.arange(len(attributes.is_listed) + 1))


def _count_up(counts: Ints) -> Ints:
    """Return 0, 1 … for each count: [2, 0, 3] gives 0 1 0 1 2."""
    ends = np.cumsum(counts)
    return np.arange(counts.sum()) - np.repeat(ends - counts, counts)


def _split_by_code(codes: Ints, images: Ints) -> tuple[list[int], list[Ints]]:
    found, first = np.unique(codes, return_index=True)
    return found.tolist(), np.split(images, first[1:]) if len(found) else []


def _find_listed_images(world: BoxWorld, label: int, attributes: BoxAttributes) -> Ints:
    """Return the images with objects of the label that are all known, with all of their attributes."""
    boxes = world.rows(label)
    open_images = world.places.image[boxes[~attributes.is_listed[boxes]]]
    return np.flatnonzero(world.has_box(label) & world.is_certain(label) & ~mark(open_images, world.image_count))


def phrase(kind: str, concepts: list[LabelConcept]) -> Phrases:
    """Return the texts; no Chinese text if the Chinese attribute is unknown, no English text for a Chinese one."""
    (concept,) = concepts
    name = kind.removeprefix("attribute/")
    texts: Phrases = {}
    if has_chinese(name):
        chinese = name if name.endswith("的") else f"{name}的"
    else:
        chinese = _translate(name, concept.zh)
        follows = _follows_noun(name)
        article = concept.article if follows or not concept.article else choose_article(name)
        texts["en", "word"] = f"{concept.en} {name}" if follows else f"{name} {concept.en}"
        texts["en", "sentence"] = f"a picture of {article} {texts['en', 'word']}".replace("  ", " ")
    if chinese:
        texts["zh", "word"] = f"{chinese}{concept.zh}"
        texts["zh", "sentence"] = f"一张有{chinese}{concept.zh}的图片"
    return texts


def _translate(name: str, label: str) -> str:
    """Return the Chinese attribute; empty if it is unknown, or has no meaning for this label."""
    is_person = label in LABEL_WORDS["people"]
    known = _CHINESE | (_OF_PEOPLE if is_person else {})
    is_living = is_person or MEASURE_WORD.get(label) in ("只", "头", "匹")
    return str((known | (LABEL_WORDS["of_living"] if is_living else {})).get(name, ""))


def _short_texts(name: str, concept: LabelConcept) -> set[str]:
    phrases = phrase(f"attribute/{name}", [concept])
    return {phrases[pair].casefold() for pair in (("en", "word"), ("zh", "word")) if pair in phrases}


def _follows_noun(name: str) -> bool:
    """Return whether it is a person in red or a dog looking down, and not a red dog."""
    first, *others = name.split(" ")
    return first in LABEL_WORDS["prepositions"] or (bool(others) and first.endswith("ing"))


FAMILY = QueryFamily(find_questions, phrase)
