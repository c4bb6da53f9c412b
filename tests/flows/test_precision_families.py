"""Precision sets with families of queries: from the annotations to a published set, against an oracle over the JSON."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.lint import lint_tables
from flows.definition_loader import load_definition
from flows.precision_set import plan_precision
from flows.set_kinds import build_set
from querytruth.errors import UserError
from querytruth.sets import set_files
from tests.family_oracle import Box, judge
from tests.manifest_cuts import unrecorded_cuts

Make = Callable[..., Path]
ALL = ["count", "size", "spatial", "negation"]


def build(definition: Path, *overrides: str) -> Any:
    return build_set(load_definition(definition, list(overrides), "precision"))


def test_families_need_annotations_of_each_object(make_world: Make) -> None:
    with pytest.raises(UserError, match="exhaustive"):
        load_definition(make_world(families=["negation"]), [], "precision")


@pytest.mark.parametrize("key", ["neg_category_ids", "not_exhaustive_category_ids"])
def test_annotations_that_list_labels_by_image_are_not_exhaustive(make_world: Make, key: str) -> None:
    definition = make_world(families=["negation"], exhaustive=True)
    file = definition.parent / "instances.json"
    annotations = json.loads(file.read_text())
    annotations["images"][-1][key] = [1]
    file.write_text(json.dumps(annotations))
    with pytest.raises(UserError, match=rf"instances.json \(families\): lists per image .*{key}.*exhaustive: by_image"):
        build(definition)
    assert build(definition, "families=[]", "name=plain").is_new


def test_without_families_a_set_is_as_before(make_world: Make) -> None:
    plain = build(make_world("plain"))
    stated = build(make_world("stated", families=[], family_rules={"cap": 1}, exhaustive=True))
    assert plain.manifest["content_digest"] == stated.manifest["content_digest"]
    assert plain.manifest["grades"] == stated.manifest["grades"]


def test_families_of_the_small_world(make_world: Make) -> None:
    definition = make_world(families=ALL, exhaustive=True, labels="from_annotations")
    planned = plan_precision(load_definition(definition, [], "precision"))
    built = build(definition)
    tables = set_files.read_set(built.path).tables
    assert planned["queries"] == len(tables.queries)
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    query = tables.queries.set_index("text")["query_id"]["a picture with a dog but no cars anywhere"]
    rows = tables.qrels[tables.qrels["query_id"] == query]
    grades = {int(names[image][8:12]): grade for image, grade in zip(rows["image_id"], rows["relevance"], strict=True)}
    # a dog on every second picture, large on every fourth; a car on every third
    expected = {n: 0 if n % 3 == 0 else 2 if n % 4 == 0 else 1 for n in range(0, 60, 2)}
    assert grades == expected
    assert "dog" in set(tables.queries["text"]), "the twin without the negation"
    stages = {stage["stage"]: stage for stage in built.manifest["funnel"]}
    assert stages["family_negation"]["accepted"] > 0 and "family_count" in stages
    assert not [finding for finding in lint_tables(tables) if finding.severity == "error"]
    assert "family" in built.manifest["grades"]["0"]
    assert unrecorded_cuts(built.manifest) == []


def test_a_damaged_box_leaves_number_and_absence_unknown(make_world: Make) -> None:
    definition = make_world(families=["negation"], exhaustive=True)
    data = json.loads((definition.parent / "instances.json").read_text())
    car = next(category["id"] for category in data["categories"] if category["name"] == "car")
    broken = {"id": 10_000, "image_id": 2, "category_id": car, "bbox": [500, 500, 10, 10], "iscrowd": 0}
    data["annotations"].append(broken)
    (definition.parent / "instances.json").write_text(json.dumps(data))
    tables = set_files.read_set(build(definition).path).tables
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    query = tables.queries.set_index("text")["query_id"]["a picture with a dog but no cars anywhere"]
    judged = {names[image] for image in tables.qrels.loc[tables.qrels["query_id"] == query, "image_id"]}
    assert "holiday/0004.jpg" in judged and "holiday/0002.jpg" not in judged


def give_colours(definition: Path, colours: list[Any]) -> None:
    """Gives each dog of the small world the next of these attributes (None: the record has none)."""
    file = definition.parent / "instances.json"
    data = json.loads(file.read_text())
    dog = next(category["id"] for category in data["categories"] if category["name"] == "dog")
    dogs = [record for record in data["annotations"] if record["category_id"] == dog]
    for record, colour in zip(dogs, itertools.cycle(colours)):
        record |= {} if colour is None else {"attributes": colour}
    file.write_text(json.dumps(data))


@pytest.mark.parametrize("keys", [{}, {"exhaustive": True, "exhaustive_attributes": True}])
def test_attributes_are_asked_and_wrong_only_where_all_are_listed(make_world: Make, keys: dict[str, Any]) -> None:
    """A dog on every second picture: by turns red, black, and of unknown colour."""
    definition = make_world(families=["attribute"], family_rules={"min_images": 2}, **keys)
    give_colours(definition, [["red"], ["Black"], None])
    built = build(definition)
    tables = set_files.read_set(built.path).tables
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    query = tables.queries.set_index("text").loc["a picture of a red dog"]
    rows = tables.qrels[tables.qrels["query_id"] == query["query_id"]]
    found = {
        int(names[image][8:12]): grade > 0 for image, grade in zip(rows["image_id"], rows["relevance"], strict=True)
    }
    expected = dict.fromkeys(range(0, 60, 6), True)
    assert found == expected | (dict.fromkeys(range(2, 60, 6), False) if keys else {})
    assert set(rows["evidence"]) == ({"dog: red", "dog: not red"} if keys else {"dog: red"})
    by_id = tables.queries.set_index("query_id")
    assert query["family"] == "attribute/red" and by_id.loc[query["twin"], "text"] == "a picture of a dog"
    assert not [finding for finding in lint_tables(tables) if finding.severity == "error"]
    assert "size, attribute or place" in built.manifest["grades"]["0"]


def test_attributes_that_nobody_listed_cannot_be_asked(make_world: Make) -> None:
    with pytest.raises(UserError, match=r"instances.json \(read attributes\): no annotation has attributes"):
        build(make_world(families=["attribute"]))
    with pytest.raises(UserError, match="exhaustive_attributes covers all objects"):
        load_definition(make_world("other", families=["attribute"], exhaustive_attributes=True), [], "precision")


def test_what_a_tool_notes_of_a_box_is_not_asked_and_the_funnel_counts_it(make_world: Make) -> None:
    keys = {"families": ["attribute"], "family_rules": {"min_images": 2}, "languages": ["en"]}
    definition = make_world(**keys)
    give_colours(definition, [{"occluded": True, "truncated": "1", "score": "0.93", "colour": "red"}])
    built = build(definition)
    asked = set(set_files.read_set(built.path).tables.queries["family"].dropna())
    assert asked == {"attribute/red"}
    stages = {stage["stage"]: stage for stage in built.manifest["funnel"]}
    assert stages["attributes"]["rejected"] == {"bookkeeping": 1, "number": 2} and stages["attributes"]["accepted"] == 1
    chosen = build(definition, "attributes.only=[occluded]", "name=chosen")
    assert set(set_files.read_set(chosen.path).tables.queries["family"].dropna()) == {"attribute/occluded"}
    with pytest.raises(UserError, match="only bookkeeping, numbers and excluded attributes: colour, occluded"):
        build(definition, "attributes.exclude=[colour]", "name=none")


def read_boxes(path: Path) -> dict[str, list[Box]]:
    data = json.loads(path.read_text())
    label = {category["id"]: category["name"] for category in data["categories"]}
    size = {image["id"]: (image["file_name"], image["width"], image["height"]) for image in data["images"]}
    out: dict[str, list[Box]] = {name: [] for name, _, _ in size.values()}
    for record in data["annotations"]:
        name, width, height = size[record["image_id"]]
        x, y, w, h = record["bbox"]
        sides = (max(x / width, 0), max(y / height, 0), min((x + w) / width, 1), min((y + h) / height, 1))
        out[name].append(Box(label[record["category_id"]], *sides, crowd=bool(record["iscrowd"])))
    return out


def check_against_oracle(
    folder: Path, source: Path, related: dict[str, set[str]], families: list[str], **keys: Any
) -> None:
    """Builds a set with the families from the file, and judges each image for each question by its boxes."""
    definition = {
        "name": "real",
        "kind": "precision",
        "annotations": str(source),
        "searchable": {"min_images": 2, "area_ratio": 0.0},
        "mixes": {"levels": 1, "near_misses": 2000},
        "families": families,
        "texts": ["word"],
        "exhaustive": True,
        "out": str(folder),
        **keys,
    }
    (folder / "real.yaml").write_text(json.dumps(definition))
    tables = set_files.read_set(build(folder / "real.yaml").path).tables
    boxes = read_boxes(source)
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    of_families = tables.queries[tables.queries["family"].notna()]
    graded = {(row.query_id, names[row.image_id]): row.relevance for row in tables.qrels.itertuples()}
    assert {family.partition("/")[0] for family in of_families["family"]} == set(families)
    for query in of_families.itertuples():
        for name, found in boxes.items():
            grade = graded.get((query.query_id, name))
            verdict = None if grade is None else grade > 0
            assert verdict == judge(query.family, list(query.labels), found, related), (query.text, name)


def test_coco_tiny_has_the_truth_of_the_oracle(tmp_path: Path, shared: Callable[[str], Path]) -> None:
    source = shared("coco_tiny") / "annotations" / "instances_val2017.json"
    pairs = [("chair", "bench"), ("cup", "wine glass"), ("skis", "snowboard")]
    related = {one: {other} for pair in pairs for one, other in (pair, pair[::-1])}
    rules = {"min_images": 2, "cap": None}
    check_against_oracle(tmp_path, source, related, ALL, labels="coco80", compatible="coco80", family_rules=rules)


@pytest.mark.thorough
def test_taco_has_the_truth_of_the_oracle(tmp_path: Path, shared: Callable[[str], Path]) -> None:
    source = shared("boxes_only") / "taco_annotations.json"
    families = ["size", "spatial", "negation", "count"]  # of a bottle or a cup; a Food waste has no plural
    rules = {"min_images": 3, "cap": 40}
    check_against_oracle(tmp_path, source, {}, families, labels="from_annotations", family_rules=rules)
