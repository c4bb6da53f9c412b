"""The families of queries against an oracle that looks at every box of every image of random worlds."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import prompts
from builders.precision.annotated_gallery import AnnotatedGallery, BoxPlaces
from builders.precision.attributes import BoxAttributes
from builders.precision.compatibility import build_compatibility
from builders.precision.families.box_evidence import BoxWorld, FamilyQuestion, FamilyRules
from builders.precision.families.family_queries import FAMILIES, find_family_questions, judge_family_questions
from builders.precision.judgments import JudgedQuery, QueryWording, SeedJudge, build_queries_and_qrels
from builders.precision.label_index import build_label_index
from builders.precision.tag_tree import LabelConcept, TagTree
from querytruth.sets.ledger import Ledger
from querytruth.sets.query_texts import group_equivalent_queries
from tests.family_oracle import LARGE, MARGIN, SMALL, Box, judge
from tests.property_runs import few_and_many

TREE = TagTree(
    (
        LabelConcept("dog", "", "狗", "dog", "a", "dogs"),
        LabelConcept("bench", "", "长椅", "bench", "a", "benches"),
        LabelConcept("chair", "", "椅子", "chair", "a", "chairs"),
        LabelConcept("egg", "", "蛋", "egg", "an", "eggs"),  # no measure word is known
    )
)
NAMES = [label.key for label in TREE.labels]
CHAIR_MAP = pd.DataFrame([("asymmetric", "chair", "bench", "")], columns=["relation", "label", "accepts", "reason"])
RELATED = {"chair": {"bench"}, "bench": {"chair"}}
WORDING = QueryWording(
    ["zh", "en"], ["word", "sentence"], {name: prompts.load_template(f"{name}/sentence") for name in ("zh", "en")}
)
Images = list[list[Box]]
ATTRIBUTES = ["facing left", "red", "wet", "红色"]  # sorted


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    left, top = draw(st.integers(0, 15)), draw(st.integers(0, 15))
    width, height = draw(st.integers(1, 20 - left)), draw(st.integers(1, 20 - top))
    crowd = draw(st.integers(0, 9)) == 0
    sides = (left / 20, top / 20, (left + width) / 20, (top + height) / 20)
    label = draw(st.sampled_from(NAMES))
    attributes = draw(st.none() | st.lists(st.sampled_from(ATTRIBUTES), unique=True, max_size=2).map(tuple))
    return Box(label, *sides, crowd=crowd, attributes=attributes)


WORLDS = st.lists(st.lists(boxes(), max_size=6), min_size=1, max_size=12)


def list_attributes(boxes: list[Box]) -> BoxAttributes:
    pairs = [(row, ATTRIBUTES.index(name)) for row, box in enumerate(boxes) for name in box.attributes or ()]
    box, code = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return BoxAttributes(tuple(ATTRIBUTES), box, code, np.array([one.attributes is not None for one in boxes], bool))


def build(
    images: Images, least: int = 1, cap: int | None = None, near_misses: int = 100, all_attributes: bool = False
) -> Any:
    """The questions, their judged queries and the ledger of a world."""
    flat = [(row, box) for row, image in enumerate(images) for box in image]
    single = [(row, box) for row, box in flat if not box.crowd]
    crowds = [(row, box) for row, box in flat if box.crowd]

    def rows(pairs: Any) -> Any:
        return np.array([row for row, _ in pairs], np.int32), np.array(
            [NAMES.index(b.label) for _, b in pairs], np.int32
        )

    sides = np.array([box[1:5] for _, box in single], dtype=np.float64).reshape(-1, 4)
    numbers = np.arange(len(single), dtype=np.int32)
    places = BoxPlaces(*rows(single), sides, *rows(crowds), np.zeros_like(numbers), numbers)
    compatible = build_compatibility(TREE, CHAIR_MAP)
    attributes = list_attributes([box for _, box in single])
    codes = list(range(len(NAMES)))
    world = BoxWorld(places, compatible, TREE.concepts, len(NAMES), len(images), codes, attributes)
    ids = [f"img_{row:020x}" for row in range(len(images))]
    shares = np.array([(b.right - b.left) * (b.bottom - b.top) for _, b in flat], dtype=np.float64)
    gallery = AnnotatedGallery(pd.DataFrame({"image_id": ids}), *rows(flat), shares, places)
    index = build_label_index(gallery, len(NAMES), compatible, 0.1)
    ledger = Ledger()
    rules = FamilyRules(least, cap, LARGE, SMALL, MARGIN, 0, all_attributes)
    questions = find_family_questions(FAMILIES, world, WORDING, rules, ledger)
    judge_of = SeedJudge(index, TREE, compatible, np.array(ids, dtype=object), True, near_misses, 0)
    return questions, judge_family_questions(questions, world, judge_of, WORDING), ledger, judge_of


def verdicts(question: FamilyQuestion, count: int) -> list[bool | None]:
    relevant, wrong = set(question.relevant.tolist()), set(question.wrong.tolist())
    assert not relevant & wrong
    return [True if row in relevant else False if row in wrong else None for row in range(count)]


@few_and_many(25, 400, pytest.mark.slow, images=WORLDS, least=st.integers(1, 3), all_attributes=st.booleans())
def test_truth_of_all_families_equals_the_oracle(images: Images, least: int, all_attributes: bool) -> None:
    questions, _, _, _ = build(images, least, all_attributes=all_attributes)
    asked = {}
    for question in questions:
        labels = [NAMES[label] for label in question.labels]
        asked[question.kind, *labels] = question
        expected = [judge(question.kind, labels, image, RELATED, all_attributes) for image in images]
        assert verdicts(question, len(images)) == expected
    # and every question that the oracle can answer often enough is there
    kinds = [("count/2", 1), ("count/3+", 1), ("size/large", 1), ("size/small", 1), ("negation/without", 2)]
    kinds += [(f"spatial/{place}", 2) for place in ("left", "right", "above", "below")]
    kinds += [(f"attribute/{name}", 1) for name in ATTRIBUTES]
    for kind, level in kinds:
        for one in NAMES:
            for other in NAMES if level == 2 else [""]:
                if one == other or {one, other} == {"chair", "bench"}:
                    continue
                if kind.startswith("spatial") and NAMES.index(one) > NAMES.index(other):
                    continue  # the same question the other way round
                labels = [one, other] if other else [one]
                right = sum(judge(kind, labels, image, RELATED) is True for image in images)
                together = sum(judge("negation/without", labels, image) is False for image in images) if other else 0
                is_asked = right >= least and (not kind.startswith("negation") or together >= least)
                assert ((kind, *labels) in asked) == is_asked


DOG, BENCH = Box("dog", 0.1, 0.1, 0.3, 0.3), Box("bench", 0.5, 0.1, 0.9, 0.3)
SECOND_DOG = Box("dog", 0.1, 0.5, 0.3, 0.7)


def judged_texts(queries: list[JudgedQuery]) -> dict[str, dict[int, tuple[int, str]]]:
    """Per text the grade and the evidence of each image."""
    return {
        query["text"]: {
            int(row): (int(grade), evidence[pattern])
            for row, grade, pattern in zip(judged.image_row, judged.relevance, judged.pattern, strict=True)
        }
        for query, judged, evidence in queries
    }


def test_a_crowd_makes_number_and_absence_unknown_and_not_zero() -> None:
    images = [[DOG, SECOND_DOG], [DOG], [DOG, DOG._replace(crowd=True)], [BENCH], [BENCH, DOG._replace(crowd=True)]]
    images.append([DOG, BENCH])
    texts = judged_texts(build(images)[1])
    assert texts["exactly two dogs"] == {
        0: (1, "two boxes: dog"),
        1: (0, "not two boxes: dog"),
        5: (0, "not two boxes: dog"),
    }
    assert texts["bench, no dogs anywhere"] == {3: (1, "bench, no box of dog"), 5: (0, "bench with dog")}


def test_texts_of_each_family_in_both_languages() -> None:
    images = [[DOG, SECOND_DOG, BENCH], [DOG, BENCH], [DOG], [BENCH], [Box("dog", 0, 0, 0.9, 0.9)], [DOG] * 3]
    texts = set(judged_texts(build(images)[1]))
    assert {"exactly two dogs", "a picture of exactly two dogs", "正好两只狗", "一张正好有两只狗的图片"} <= texts
    assert {"three or more dogs", "a picture of three or more dogs", "至少三只狗", "一张至少有三只狗的图片"} <= texts
    assert {"a dog to the left of a bench", "a picture of a dog to the left of a bench"} <= texts
    assert {"狗在长椅的左边", "一张图片，画面中有狗在长椅的左边"} <= texts
    assert {"a dog lower in the frame than a bench", "a picture with a dog lower in the frame than a bench"} <= texts
    assert {"画面中有狗在长椅的下方", "一张图片，画面中有狗在长椅的下方"} <= texts
    assert {"dog taking up much of the frame", "a picture in which a dog takes up much of the frame"} <= texts
    assert {"占画面很大一部分的狗", "狗占了画面很大一部分的图片"} <= texts
    assert {"dog, no benches anywhere", "a picture with a dog but no benches anywhere"} <= texts
    assert {"画面中有狗、没有长椅", "一张有狗但没有长椅的图片"} <= texts


def test_no_text_has_a_second_reading_that_its_explicit_negatives_satisfy() -> None:
    """A table without a bowl may stand beside one; three dogs are also two; a small dog may fill the picture."""
    images = [[DOG, SECOND_DOG, BENCH], [DOG, BENCH], [DOG], [BENCH], [Box("dog", 0, 0, 0.9, 0.9)], [DOG] * 3]
    for query in (query for query, *_ in build(images)[1]):
        text, kind = query["text"], query["family"]
        assert "without" not in text and not text.startswith(("two", "两", "large", "small", "画面中很"))
        assert kind != "count/2" or "exactly" in text or "正好" in text
        assert kind != "negation/without" or "anywhere" in text or "但没有" in text or "、没有" in text


def test_no_chinese_text_begins_with_another_sense() -> None:
    """一张床 is one bed, 船只 are ships, 中小 is small and medium, 马上 is at once, 画面中国 begins with China."""
    names = ["床", "椅子", "船", "小汽车", "马", "国旗", "人"]
    kinds = ["size/large", "size/small", *(f"spatial/{place}" for place in ("left", "right", "above", "below"))]
    for kind, one, other in itertools.product(kinds, names, names):
        concepts = [LabelConcept(name, "", name, "x", "an", "xs") for name in (one, other)]
        texts = FAMILIES[kind.partition("/")[0]].phrase(kind, concepts[: 1 if kind.startswith("size") else 2])
        for text in (texts["zh", style] for style in ("word", "sentence")):
            assert not any(wrong in text for wrong in (f"一张{one}", f"{one}只", "画面中小", "画面中国", "马上")), text


def test_a_number_without_measure_word_is_asked_in_english_alone() -> None:
    egg = Box("egg", 0.1, 0.1, 0.2, 0.2)
    texts = set(judged_texts(build([[egg, egg]])[1]))
    assert "exactly two eggs" in texts and not any("两" in text for text in texts)


def test_cap_and_floor_are_in_the_ledger() -> None:
    images = [[DOG, SECOND_DOG], [DOG, SECOND_DOG], [BENCH, BENCH], [BENCH, BENCH], [Box("egg", 0, 0, 1, 1)] * 2]
    questions, _, ledger, _ = build(images, least=2, cap=1)
    assert sum(question.kind.startswith("count") for question in questions) == 1
    stage = next(stage for stage in ledger.stages if stage.stage == "family_count")
    assert (stage.entered, stage.accepted, stage.rejected) == (3, 1, {"over_the_cap": 1, "too_few_images": 1})


def test_wrong_images_are_at_most_as_many_as_near_misses_and_the_tables_hold_the_family() -> None:
    images = [[DOG, SECOND_DOG], *[[DOG]] * 9]
    _, queries, _, judge_of = build(images, near_misses=4)
    found = judged_texts(queries)["exactly two dogs"]
    assert sorted(grade for grade, _ in found.values()) == [0, 0, 0, 0, 1]
    seeds = pd.DataFrame({"concepts": [(0,)], "level": [1]})
    table, qrels = build_queries_and_qrels(seeds, judge_of, WORDING, queries)
    assert table["query_id"].is_unique and not qrels.duplicated(["query_id", "image_id"]).any()
    groups = group_equivalent_queries(table)
    two = table.loc[table["family"] == "count/2", "query_id"].tolist()
    assert len(two) == 4 and set(groups[two[0]]) == set(two), "two dogs are not the same question as a dog"
