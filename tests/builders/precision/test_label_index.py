"""Annotations that say image by image which labels they have whole (LVIS), against an oracle over the JSON."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.errors import UserError
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from tests.family_oracle import Box, Lists, judge

FAMILIES = ["count", "size", "spatial", "negation", "attribute"]
LABELS = ["dog", "cat", "chair", "bench", "car"]
RELATED = {"chair": {"bench"}, "bench": {"chair"}}
World = dict[str, Any]


def draw_world(seed: int, images: int = 80) -> World:
    """Images with up to five boxes of five labels; lists that are random, missing, damaged, or contradict the boxes."""
    drawn = random.Random(seed)
    world: World = {"images": [], "annotations": [], "categories": []}
    world["categories"] = [{"id": number * 7, "name": name} for number, name in enumerate(LABELS)]
    ids = [category["id"] for category in world["categories"]]
    for image in range(images):
        boxed = []
        for _ in range(drawn.randint(0, 5)):
            side = drawn.choice([10, 30, 70])
            box = [drawn.randint(0, 100 - side), drawn.randint(0, 100 - side), side, side]
            attributes = drawn.choice([{}, {"attributes": []}, {"attributes": ["red"]}])
            crowd = int(drawn.random() < 0.1)
            boxed.append(drawn.choice(ids))
            record = {"image_id": image, "category_id": boxed[-1], "bbox": box, "iscrowd": crowd, **attributes}
            world["annotations"].append(record)
        record = {"id": image, "file_name": f"{image:03}.jpg", "width": 100, "height": 100}
        for key, share in (("neg_category_ids", 0.6), ("not_exhaustive_category_ids", 0.2)):
            listed = [one for one in ids if drawn.random() < (share if one not in boxed else 0.15)]
            record |= drawn.choices([{key: listed}, {key: [*listed, 999]}, {}, {key: "all"}], (12, 2, 1, 1))[0]
        world["images"].append(record)
    return world


def write_definition(folder: Path, world: World, **keys: Any) -> Path:
    (folder / "boxes.json").write_text(json.dumps(world))
    (folder / "pairs.csv").write_text("relation,label,accepts,reason\nasymmetric,chair,bench,\n")
    definition = {
        "name": "listed",
        "kind": "precision",
        "annotations": "boxes.json",
        "labels": "coco80",
        "compatible": str(folder / "pairs.csv"),
        "searchable": {"min_images": 1, "area_ratio": 0.0},
        "mixes": {"levels": 2, "mode": "exhaustive", "min_images": 1, "near_misses": 1000},
        "families": FAMILIES,
        "family_rules": {"min_images": 1, "cap": None},
        "texts": ["word"],
        "languages": ["en"],
        "exhaustive": "by_image",
        "exhaustive_attributes": True,
        "out": str(folder),
        **keys,
    }
    (folder / "listed.yaml").write_text(json.dumps(definition))
    return folder / "listed.yaml"


def build(folder: Path, world: World, **keys: Any) -> Tables:
    definition = load_definition(write_definition(folder, world, **keys), [], "precision")
    return set_files.read_set(build_set(definition).path).tables


def read_lists(record: dict[str, Any], name_of: dict[int, str]) -> Lists:
    values = (record.get(key) for key in ("neg_category_ids", "not_exhaustive_category_ids"))
    absent, partial = ({name_of.get(n, "") for n in one} if isinstance(one, list) else None for one in values)
    return Lists(absent, partial)


def check(tables: Tables, world: World) -> int:
    """Compare each image with each question and each pair of labels; returns the number of explicit negatives."""
    name_of = {category["id"]: category["name"] for category in world["categories"]}
    boxes: dict[str, list[Box]] = {record["file_name"]: [] for record in world["images"]}
    for record in world["annotations"]:
        x, y, width, height = record["bbox"]
        sides = x / 100, y / 100, (x + width) / 100, (y + height) / 100
        attributes = tuple(record["attributes"]) if "attributes" in record else None
        box = Box(name_of[record["category_id"]], *sides, crowd=bool(record["iscrowd"]), attributes=attributes)
        boxes[f"{record['image_id']:03}.jpg"].append(box)
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    grades = {(row.query_id, names[row.image_id]): row.relevance > 0 for row in tables.qrels.itertuples()}
    accepts = {name: {name} | ({"bench"} if name == "chair" else set()) for name in LABELS}
    for query in tables.queries.itertuples():
        labels = list(query.labels)
        if not set(labels) <= set(LABELS):
            continue  # a parent
        for record in world["images"]:
            name, lists = record["file_name"], read_lists(record, name_of)
            if isinstance(query.family, str):
                expected = judge(query.family, labels, boxes[name], RELATED, True, lists)
            else:
                seen = [bool(accepts[label] & {box.label for box in boxes[name]}) for label in labels]
                lacking = [label for label, is_seen in zip(labels, seen, strict=True) if not is_seen]
                is_near = len(labels) == 2 and len(lacking) == 1 and accepts[lacking[0]] <= (lists.absent or set())
                expected = True if not lacking else False if is_near else None
            assert grades.get((query.query_id, name)) == expected, (query.text, name)
    return sum(not grade for grade in grades.values())


def test_numbers_and_absences_are_judged_only_where_the_image_lists_them(tmp_path: Path) -> None:
    world = draw_world(0)
    tables = build(tmp_path, world)
    asked = {family.partition("/")[0] for family in tables.queries["family"].dropna()}
    assert asked == set(FAMILIES)
    assert check(tables, world) > 100


def test_lists_bind_mixes_without_families(tmp_path: Path) -> None:
    """The explicit negatives of "dog&cat" are verified to show no dog, or no cat."""
    world = draw_world(0)
    check(build(tmp_path, world, families=[], exhaustive_attributes=False), world)


def test_a_file_without_lists_is_not_exhaustive_by_image(tmp_path: Path) -> None:
    world = draw_world(0)
    for record in world["images"]:
        record.pop("neg_category_ids", None)
        record.pop("not_exhaustive_category_ids", None)
    with pytest.raises(UserError, match=r"boxes.json \(families\): has no lists of labels .*set exhaustive: true"):
        build(tmp_path, world)


def test_the_plan_counts_the_same_questions(tmp_path: Path) -> None:
    from flows.precision_set import plan_precision

    definition = load_definition(write_definition(tmp_path, draw_world(0)), [], "precision")
    assert plan_precision(definition)["queries"] == len(set_files.read_set(build_set(definition).path).tables.queries)
