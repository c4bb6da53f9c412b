"""Numbers: "exactly two dogs", "three or more bottles". An image with another number of the objects is a near miss, so
that each text says "exactly": three dogs are also two dogs.
"""

from collections.abc import Iterator
from pathlib import Path

from builders.precision.families.box_evidence import BoxWorld, FamilyQuestion, FamilyRules, Phrases, QueryFamily
from builders.precision.tag_tree import LabelConcept
from querytruth.backends.files.text_formats import read_package_yaml

LABEL_WORDS = read_package_yaml(Path(__file__).with_name("label_words.yaml"))
# Measure words by Chinese name; a label without one has no Chinese question.
MEASURE_WORD = {name: word for word, names in LABEL_WORDS["measure_words"].items() for name in names.split()}


def find_questions(world: BoxWorld, _rules: FamilyRules) -> Iterator[FamilyQuestion]:
    """Yield for each label that can be counted "exactly two" and "three or more"."""
    for label in world.labels:
        if not world.concepts[label].article:
            continue  # bread, scissors
        evidence = world.evidence(label)
        known = world.is_certain(label)[evidence.image]
        for kind, right, why in (
            ("count/2", evidence.count == 2, "two boxes: {0}"),
            ("count/3+", evidence.count >= 3, "three or more boxes: {0}"),
        ):
            relevant, wrong = evidence.image[known & right], evidence.image[known & ~right]
            yield FamilyQuestion(kind, (label,), relevant, wrong, why, f"not {why}", (label,))


def phrase(kind: str, concepts: list[LabelConcept]) -> Phrases:
    """Return the texts; empty if the plural or the measure word is unknown."""
    (concept,) = concepts
    texts: Phrases = {}
    exact = kind == "count/2"
    if concept.plural:
        texts["en", "word"] = f"{'exactly two' if exact else 'three or more'} {concept.plural}"
        texts["en", "sentence"] = f"a picture of {texts['en', 'word']}"
    if measure := MEASURE_WORD.get(concept.zh):
        least, number = ("正好", "两") if exact else ("至少", "三")
        texts["zh", "word"] = f"{least}{number}{measure}{concept.zh}"
        texts["zh", "sentence"] = f"一张{least}有{number}{measure}{concept.zh}的图片"
    return texts


FAMILY = QueryFamily(find_questions, phrase)
