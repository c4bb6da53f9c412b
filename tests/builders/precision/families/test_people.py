"""Who is on a photo and who is not, against rules written out by hand."""

import numpy as np
import pandas as pd

from builders.precision.annotated_gallery import BoxPlaces
from builders.precision.compatibility import LabelCompatibility
from builders.precision.families import people
from builders.precision.families.box_evidence import BoxWorld, FamilyRules
from builders.precision.tag_tree import LabelConcept

NAMES = [("Gracie", "person"), ("Tom", "person"), ("Ann", "person"), ("Lake", "event")]
#       tags, faces, whether faces are marked
PHOTOS = [
    ("G", 1, True),
    ("GT", 2, True),
    ("G", 2, True),
    ("G", 1, False),
    ("T", 1, True),
    ("GTAL", 3, True),
    ("GL", 3, True),
    ("GL", 1, True),
    ("L", 0, False),
]
RULES = FamilyRules(1, None, 0.3, 0.02, 0.02, 0)


def _world(facts: bool = True) -> BoxWorld:
    pairs = [(image, "GTAL".index(tag)) for image, (tags, _, _) in enumerate(PHOTOS) for tag in tags]
    image, label = np.array(pairs, dtype=np.int64).T
    none = np.empty(0, dtype=np.int64)
    places = BoxPlaces(none, none, np.empty((0, 4)), image, label, none, none)
    concepts = tuple(LabelConcept(name, "", name, name, kind=kind) for name, kind in NAMES)
    world = BoxWorld(places, LabelCompatibility((frozenset(),) * 4, 0), concepts, 4, len(PHOTOS), [0, 1, 3])
    if facts:
        marked = np.array([is_marked for _, _, is_marked in PHOTOS])
        world.facts = pd.DataFrame({"person": marked, "faces": [faces for _, faces, _ in PHOTOS]})
    return world


def test_only_without_and_family_photos_are_answered_by_photos_with_faces() -> None:
    found = {
        (one.kind, *(NAMES[label][0] for label in one.labels)): (one.relevant.tolist(), one.wrong.tolist(), one.is_best)
        for one in people.find_questions(_world(), RULES)
    }
    assert found["people/only", "Gracie"][:2] == ([0, 7], [1, 2, 5, 6])
    assert found["people/without", "Gracie", "Tom"][:2] == ([0, 7], [1, 5])
    assert found["people/without", "Tom", "Gracie"][:2] == ([4], [1, 5])
    relevant, wrong, best = found["people/group", "Lake"]
    assert (relevant, wrong, best.tolist()) == ([5, 6], [7], [True, False])
    assert len(found) == 5


def test_without_facts_there_is_no_question() -> None:
    assert list(people.find_questions(_world(facts=False), RULES)) == []


def test_questions_are_worded_in_both_languages() -> None:
    concepts = [LabelConcept(name, "", name, name, kind="person") for name in ("Gracie", "Tom")]
    texts = {
        (kind, *key): text
        for kind, count in (("only", 1), ("without", 2), ("group", 1))
        for key, text in people.phrase(f"people/{kind}", concepts[:count]).items()
    }
    assert texts["only", "en", "word"] == "only Gracie" and texts["without", "en", "word"] == "Gracie without Tom"
    assert (
        texts["without", "zh", "sentence"] == "有Gracie没有Tom的照片" and texts["group", "zh", "word"] == "Gracie全家福"
    )
