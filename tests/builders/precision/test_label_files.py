"""The label tables: what the loader refuses, and that the shipped ones are right."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from builders.precision.compatibility import build_compatibility, list_derived_pairs
from builders.precision.label_files import (
    SHIPPED_FOLDER,
    find_table_folder,
    list_shipped_tables,
    read_former_names,
    read_known_words,
    read_label_csv,
)
from builders.precision.tag_tree import (
    LabelConcept,
    TagTree,
    build_tag_tree,
    build_tree_from_categories,
    has_name,
    match_categories,
)
from querytruth.errors import UserError

LABELS = [
    ("1", "Dog", "狗", "dog", "a", "dogs", "animal"),
    ("2", "Cat ", "猫", "cat", "a", "cats", "animal"),
    ("3", "SUV", "越野车", "SUV", "an", "SUVs", "root"),
]
TREE = [("root", "", "物品", "thing", "a", "things"), ("animal", "root", "动物", "animal", "an", "animals")]


def labels(*changes: tuple[int, int, str]) -> pd.DataFrame:
    rows = [list(row) for row in LABELS]
    for row, column, value in changes:
        rows[row][column] = value
    return pd.DataFrame(rows, columns=["id", "name", "zh", "en", "article", "plural", "parent"], dtype="str")


def tree(*extra: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame([*TREE, *extra], columns=["node", "parent", "zh", "en", "article", "plural"], dtype="str")


def relation(*rows: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(
        [(*row, "why") for row in rows], columns=["relation", "label", "accepts", "reason"], dtype="str"
    )


def shipped_tree(name: str) -> TagTree:
    folder = find_table_folder(name)
    return build_tag_tree(read_label_csv(folder / "labels.csv")[0], read_label_csv(folder / "tree.csv")[0], name)


def test_a_table_and_a_tree_become_concepts() -> None:
    found = build_tag_tree(labels(), tree(), "mine")
    assert [concept.key for concept in found.concepts] == ["Dog", "Cat", "SUV", "animal"]
    assert [concept.parent for concept in found.concepts] == ["animal", "animal", "", ""]
    assert found.edges() == [("animal", "Dog"), ("animal", "Cat")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((1, 2, "狗"), "'Dog' and 'Cat' are both '狗' in zh"),
        ((1, 3, "DOG"), "are both 'DOG' in en"),
        ((0, 2, ""), "no clean zh name"),
        ((0, 1, "cat"), "occurs twice"),
        ((0, 6, "animals"), "the parent 'animals' of 'Dog' is unknown"),
        ((0, 3, "animal"), "are both 'animal'"),
    ],
)
def test_a_faulty_row_is_named(change: tuple[int, int, str], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        build_tag_tree(labels(change), tree(), "mine")


def test_a_tree_in_a_circle_or_with_two_roots_is_refused() -> None:
    circle = tree(("pet", "beast", "宠物", "pet", "a", "pets"), ("beast", "pet", "野兽", "beast", "a", "beasts"))
    with pytest.raises(UserError, match="has a cycle"):
        build_tag_tree(labels(), circle, "mine")
    with pytest.raises(UserError, match="2 rows without a parent"):
        build_tag_tree(labels(), tree(("other", "", "其他", "other", "an", "others")), "mine")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("asymmetric", "Dog", "Hound")], "row 2.*'Hound' is unknown"),
        ([("asymmetric", "Dog", "Dog")], "paired with itself"),
        ([("asymmetric", "Dog", "Cat"), ("asymmetric", "Cat", "Dog")], "row 3.*declared both ways"),
        ([("symmetric", "Dog", "Cat"), ("asymmetric", "Cat", "Dog")], "declared twice"),
        ([("sideways", "Dog", "Cat")], "'sideways' is unknown"),
        (
            [("asymmetric", "Dog", "Cat"), ("asymmetric", "Cat", "SUV"), ("asymmetric", "SUV", "Dog")],
            "forms a cycle",
        ),
        (
            [("asymmetric", "Dog", "Cat"), ("symmetric", "Cat", "SUV"), ("asymmetric", "SUV", "Dog")],
            "forms a cycle",
        ),
        ([("asymmetric", "Dog", "animal")], "forms a cycle"),
    ],
)
def test_a_map_that_contradicts_itself_is_refused(rows: list[tuple[str, str, str]], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        build_compatibility(build_tag_tree(labels(), tree(), "mine"), relation(*rows), "map.csv")


def test_the_closure_goes_through_the_tree_and_through_symmetric_pairs() -> None:
    found = build_tag_tree(labels(), tree(), "mine")
    closed = build_compatibility(found, relation(("symmetric", "Cat", "SUV")))
    dog, cat, suv, animal = range(4)
    assert closed.accepts[animal] == {dog, cat, suv}
    assert closed.accepts[cat] == {suv} and closed.accepts[suv] == {cat} and not closed.accepts[dog]
    chained = relation(("asymmetric", "Dog", "Cat"), ("symmetric", "Cat", "SUV"))
    assert list_derived_pairs(found, chained, build_compatibility(found, chained)) == [("Dog", "SUV")]


def test_categories_match_by_name_without_blanks_and_case_whatever_their_ids() -> None:
    found = build_tag_tree(labels(), tree(), "mine")
    categories = pd.DataFrame({"id": [0, 1], "name": ["cat", "DOG "], "supercategory": ""})
    assert match_categories(categories, found, "a.json", {}) == [1, 0]
    with pytest.raises(UserError, match=r"first 'Dgo' .did you mean 'Dog'"):
        match_categories(categories.assign(name=["cat", "Dgo"]), found, "a.json", {})


def test_a_file_of_objects365_v1_is_called_that() -> None:
    v1 = sorted(read_former_names(find_table_folder("objects365"))["objects365 v1"])
    categories = pd.DataFrame({"id": range(len(v1)), "name": v1, "supercategory": ""})
    with pytest.raises(UserError, match="belongs to objects365 v1"):
        match_categories(
            categories, shipped_tree("objects365"), "train.json", read_former_names(find_table_folder("objects365"))
        )


def test_annotations_alone_give_a_flat_table_or_one_with_their_groups() -> None:
    categories = pd.DataFrame(
        {"name": ["Cup", "Bottle", "Ice", "Glasses"], "supercategory": ["Drink", "Drink", "Food", "glasses"]}
    )
    flat, grouped = (build_tree_from_categories(categories, groups, {}) for groups in (False, True))
    assert [label.article for label in flat.labels] == ["a", "a", "", "an"]
    assert not flat.nodes
    assert [node.key for node in grouped.nodes] == ["Drink"]
    assert {label.key for label in grouped.labels if label.parent == "Drink"} == {"Cup", "Bottle"}


def test_the_plural_of_a_name_is_known_from_the_shipped_tables_or_not_at_all() -> None:
    names = ["Food waste", "Plastic bottle", "dog", "person", "pottedplant", "Egg tart"]
    tree = build_tree_from_categories(pd.DataFrame({"name": names}), False, read_known_words())
    plurals = {label.key: label.plural for label in tree.labels}
    assert plurals == dict(zip(names, ["", "Plastic bottles", "dogs", "people", "", "egg tarts"], strict=True))


@pytest.mark.parametrize(
    "name",
    ["/m/01g317", "n02084071", "n02084071-dog", "_background_", "__ignore__", "background", "17", "class_3", "未知"],
)
def test_a_code_is_no_name(name: str) -> None:
    assert not has_name(LabelConcept(name, "", name, name))
    assert has_name(LabelConcept(name, "", "布景", "backdrop")), "a person named it"


@pytest.mark.parametrize("name", ["dog", "N95 mask", "Q-tip", "7-Eleven bag", "F1赛车", "class room", "无人机"])
def test_a_name_with_digits_or_marks_is_one(name: str) -> None:
    assert has_name(LabelConcept(name, "", name, name))


@pytest.mark.parametrize(("name", "count"), [("objects365", 365), ("coco80", 80)])
def test_a_shipped_table_loads_whole(name: str, count: int) -> None:
    found = shipped_tree(name)
    assert name in list_shipped_tables()
    assert len(found.labels) == count
    assert all(any("一" <= c <= "鿿" or c.isascii() for c in concept.zh) for concept in found.concepts)
    parents = {node.key: node.parent for node in found.nodes}
    depth = 0
    for label in found.labels:
        steps, above = 2, label.parent  # the root and the label itself
        while above:
            steps, above = steps + 1, parents[above]
        depth = max(depth, steps)
    assert depth >= 4, "root, group, finer group, label"
    for concept in found.concepts:
        assert concept.article in ("", "a", "an"), concept
        assert concept.plural and "/" not in concept.en + concept.zh, concept
        plain = concept.en[:1].casefold()
        assert (concept.article == "an") <= (plain in "aeiou" or concept.en[:1] in "SFH"), concept
    rows, _ = read_label_csv(SHIPPED_FOLDER / name / "compatible.csv")
    assert (rows["reason"].str.len() > 5).all()
    assert set(rows["relation"]) <= {"asymmetric", "symmetric"}
    build_compatibility(found, rows)


def test_the_shipped_map_says_what_the_seed_article_says() -> None:
    found = shipped_tree("objects365")
    rows, _ = read_label_csv(SHIPPED_FOLDER / "objects365" / "compatible.csv")
    closed = build_compatibility(found, rows)
    code = {label.key: n for n, label in enumerate(found.labels)}
    accepts = {key: {found.concepts[other].key for other in closed.accepts[n]} for key, n in code.items()}
    assert {"Leather Shoes", "Sneakers"} <= accepts["Other Shoes"]
    assert "Other Shoes" not in accepts["Leather Shoes"]
    assert "Sandals" in accepts["Slippers"] and "Slippers" in accepts["Sandals"]
    dog = found.labels[code["Dog"]]
    chain = []
    above = dog.parent
    parents = {node.key: node for node in found.nodes}
    while above:
        chain.append(parents[above].zh)
        above = parents[above].parent
    assert "动物" in chain


def test_the_machine_translations_faults_are_mended(shared: Callable[[str], Path]) -> None:
    machine, _ = read_label_csv(shared("labels/objects365_v2_labels.csv"))
    table, _ = read_label_csv(SHIPPED_FOLDER / "objects365" / "labels.csv")
    assert list(table["name"]) == list(
        pd.read_csv(shared("labels/objects365_v2_labels.csv"), dtype=str)["name_official"]
    )
    ours = dict(zip(table["id"], table["zh"], strict=True))
    theirs = dict(zip(machine["category_id"], machine["name_zh_machine"], strict=True))
    wrong = {"摩托车": "Scooter", "镗鼓": "Trombone", "法国": "French", "拍": "Cue", "红包菜": "Red Cabbage"}
    for category, name in zip(machine["category_id"], machine["name_corrected"], strict=True):
        if name in wrong.values():
            assert ours[category] != theirs[category], name
    assert len(set(ours.values())) == 365
