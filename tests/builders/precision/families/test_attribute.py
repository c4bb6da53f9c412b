"""Questions about attributes: their texts, their evidence, and what is not asked."""

import numpy as np
import pytest

from builders.precision.annotated_gallery import BoxPlaces
from builders.precision.attributes import BoxAttributes
from builders.precision.compatibility import build_compatibility
from builders.precision.families.attribute import find_questions, phrase
from builders.precision.families.box_evidence import BoxWorld, FamilyQuestion, FamilyRules
from builders.precision.tag_tree import LabelConcept, TagTree

DOG = LabelConcept("Dog", "", "狗", "dog", "a", "dogs")
PERSON = LabelConcept("Person", "", "人", "person", "a", "people")
SHOES = LabelConcept("Sneakers", "", "鞋", "sneakers", "", "sneakers")
SUV = LabelConcept("SUV", "", "车", "SUV", "an", "SUVs")


@pytest.mark.parametrize(
    ("name", "concept", "english", "chinese"),
    [
        ("red", DOG, ("red dog", "a picture of a red dog"), ("红色的狗", "一张有红色的狗的图片")),
        ("orange", DOG, ("orange dog", "a picture of an orange dog"), ("橙色的狗", "一张有橙色的狗的图片")),
        ("used", SUV, ("used SUV", "a picture of a used SUV"), None),
        ("in red", SUV, ("SUV in red", "a picture of an SUV in red"), None),
        ("looking down", DOG, ("dog looking down", "a picture of a dog looking down"), None),
        ("sitting", DOG, ("sitting dog", "a picture of a sitting dog"), ("坐着的狗", "一张有坐着的狗的图片")),
        ("in red", PERSON, ("person in red", "a picture of a person in red"),
         ("穿红色衣服的人", "一张有穿红色衣服的人的图片")),
        ("sitting", SUV, ("sitting SUV", "a picture of a sitting SUV"), None),
        ("smiling", DOG, ("smiling dog", "a picture of a smiling dog"), None),
        ("white", SHOES, ("white sneakers", "a picture of white sneakers"), ("白色的鞋", "一张有白色的鞋的图片")),
        ("毛茸茸", DOG, None, ("毛茸茸的狗", "一张有毛茸茸的狗的图片")),
    ],
)  # fmt: skip
def test_texts(
    name: str, concept: LabelConcept, english: tuple[str, str] | None, chinese: tuple[str, str] | None
) -> None:
    texts = phrase(f"attribute/{name}", [concept])
    for language, expected in (("en", english), ("zh", chinese)):
        found = tuple(texts[language, style] for style in ("word", "sentence") if (language, style) in texts)
        assert found == (expected or ())


def ask(concepts: list[LabelConcept], boxes: list[tuple[int, int, str]]) -> list[FamilyQuestion]:
    """The questions about boxes of one image each, with label and attribute."""
    image, label, attributes = (np.array(column) for column in zip(*boxes, strict=True))
    names, code = np.unique(attributes, return_inverse=True)
    rows = np.arange(len(boxes))
    none = np.empty(0, dtype=np.int64)
    places = BoxPlaces(image, label, np.zeros((len(boxes), 4)), none, none, np.zeros_like(rows), rows)
    listed = BoxAttributes(tuple(names.tolist()), rows, code, np.ones(len(boxes), dtype=bool))
    compatible = build_compatibility(TagTree(tuple(concepts)), None)
    codes = list(range(len(concepts)))
    world = BoxWorld(places, compatible, tuple(concepts), len(codes), int(image.max()) + 1, codes, listed)
    return list(find_questions(world, FamilyRules(1, None, 0.3, 0.02, 0.02, 0, all_attributes=True)))


def test_an_attribute_that_makes_the_name_of_another_label_is_not_asked() -> None:
    hot_dog = LabelConcept("Hot dog", "", "热狗", "hot dog", "a", "hot dogs")
    questions = ask([DOG, hot_dog], [(0, 0, "hot"), (1, 0, "wet"), (2, 1, "hot")])
    assert [(question.kind, question.labels) for question in questions] == [
        ("attribute/wet", (0,)),
        ("attribute/hot", (1,)),
    ]


def test_evidence_names_the_attribute_even_with_braces() -> None:
    (_, question) = ask([DOG], [(0, 0, "{0}"), (1, 0, "wet")])
    assert question.why_relevant.format("dog") == "dog: {0}" and question.why_wrong.format("dog") == "dog: not {0}"
    assert question.relevant.tolist() == [0] and question.wrong.tolist() == [1]
