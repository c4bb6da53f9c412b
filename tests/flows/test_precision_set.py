"""The precision build, end to end: from an annotation file to a published set, the same however it is run."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders.lint import lint_tables
from builders.precision.definition import PrecisionDefinition
from builders.precision.tag_tree import build_tree_from_categories, detect_name_language, list_names_of_other_languages
from flows.definition_loader import load_definition
from flows.precision_set import plan_precision
from flows.set_kinds import build_set
from querytruth.errors import UserError
from querytruth.sets import set_files
from tests.manifest_cuts import unrecorded_cuts

Make = Callable[..., Path]


def build(definition: Path, *overrides: str) -> Any:
    return build_set(load_definition(definition, list(overrides), "precision"))


def judged(path: Path) -> dict[tuple[str, str], dict[str, int]]:
    """Per (text, language) the grade of each picture, by file name."""
    tables = set_files.read_set(path).tables
    text = {row.query_id: (str(row.text), str(row.language)) for row in tables.queries.itertuples()}
    name = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    out: dict[tuple[str, str], dict[str, int]] = {}
    for row in tables.qrels.itertuples():
        out.setdefault(text[row.query_id], {})[name[row.image_id]] = int(row.relevance)  # type: ignore[arg-type, index]
    return out


def rename_labels(definition: Path, names: dict[str, str]) -> Path:
    """The small world with other names of its labels, which are those of its annotations."""
    file = definition.parent / "instances.json"
    data = json.loads(file.read_text())
    for category in data["categories"]:
        category["name"] = names.get(category["name"], category["name"])
    file.write_text(json.dumps(data))
    return definition


def test_a_label_that_is_a_code_is_no_query(make_world: Make) -> None:
    result = build(rename_labels(make_world(labels="from_annotations"), {"dog": "_background_"}))
    stage = next(stage for stage in result.manifest["funnel"] if stage["stage"] == "labels")
    assert stage["rejected"]["not_a_name"] == 1
    assert not [text for text, _ in judged(result.path) if "background" in text]


def test_labels_that_are_codes_are_refused_with_what_to_write(make_world: Make) -> None:
    world = make_world(labels="from_annotations")
    names = [one["name"] for one in json.loads((world.parent / "instances.json").read_text())["categories"]]
    codes = {name: f"/m/01g3{number}" for number, name in enumerate(names)}
    with pytest.raises(UserError, match=r"labels are codes, not names, like '/m/.*labels\.csv"):
        build(rename_labels(world, codes))


def test_the_small_world_becomes_the_set_one_would_write_by_hand(make_world: Make) -> None:
    result = build(make_world(mixes={"mode": "exhaustive"}))
    truth = judged(result.path)
    assert len(truth[("person", "en")]) == 60
    dogs = truth[("a picture of a dog", "en")]
    assert dogs == {f"holiday/{n:04}.jpg": 2 if n % 4 == 0 else 1 for n in range(0, 60, 2)}
    # car and dog together on every sixth; a car is large on all of its own, the dog on every fourth
    both = truth[("car&dog", "en")]
    assert {n for n, grade in both.items() if grade} == {f"holiday/{n:04}.jpg" for n in range(0, 60, 6)}
    assert {n for n, grade in both.items() if grade == 2} == {f"holiday/{n:04}.jpg" for n in range(0, 60, 12)}
    assert {n for n, grade in both.items() if grade == 0} == {
        f"holiday/{n:04}.jpg" for n in range(60) if (n % 2 == 0) != (n % 3 == 0)
    }
    assert ("bird", "en") not in truth, "never prominent"
    funnel = {stage["stage"]: stage for stage in result.manifest["funnel"]}
    assert funnel["labels"]["rejected"] == {"never_prominent": 1, "too_few_images": 1}
    assert (
        funnel["labels"]["accepted"],
        funnel["mixes_of_2"]["accepted"],
        funnel["mixes_of_3"]["accepted"],
    ) == (3, 3, 1)
    for stage in result.manifest["funnel"]:
        away = sum(sum(stage[bucket].values()) for bucket in ("rejected", "quarantined", "pending"))
        assert stage["entered"] == stage["accepted"] + away


def test_the_plan_counts_what_the_build_makes_and_writes_nothing(make_world: Make, tmp_path: Path) -> None:
    definition = load_definition(make_world(), [], "precision")
    assert isinstance(definition, PrecisionDefinition)
    plan = plan_precision(definition)
    assert not (tmp_path / "sets").exists()
    result = build_set(definition)
    assert plan["queries"] == result.manifest["counts"]["queries"]
    assert plan["funnel"] == result.manifest["funnel"]
    assert plan["judgments_at_most"] >= result.manifest["counts"]["judgments"]


def test_parents_accept_their_children_and_the_map_says_who_accepted_whom(make_world: Make, tmp_path: Path) -> None:
    table = tmp_path / "labels"
    table.mkdir()
    (table / "labels.csv").write_text(
        "id,name,zh,en,article,plural,parent\n0,person,人,person,a,people,thing\n1,dog,狗,dog,a,dogs,animal\n2,car,小汽车,car,a,cars,thing\n"
        "3,bird,鸟,bird,a,birds,animal\n4,cat,猫,cat,a,cats,animal\n"
    )
    (table / "tree.csv").write_text(
        "node,parent,zh,en,article,plural\nthing,,物,thing,a,things\nanimal,thing,动物,animal,an,animals\n"
    )
    (tmp_path / "map.csv").write_text("relation,label,accepts,reason\nasymmetric,car,cat,for the story\n")
    result = build(make_world(labels="labels", compatible="map.csv"))
    truth = judged(result.path)
    animals = {n for n in range(60) if n % 2 == 0 or n % 5 == 0 or n < 2}
    assert set(truth[("一张动物的图片", "zh")]) == {f"holiday/{n:04}.jpg" for n in animals}
    assert set(truth[("car", "en")]) == {f"holiday/{n:04}.jpg" for n in range(60) if n % 3 == 0 or n < 2}
    assert all("car" not in text or "cat" not in text for text, _ in truth), "one accepts the other: never a mix"
    tables = set_files.read_set(result.path).tables
    wanted = tables.queries.loc[tables.queries["text"].isin(["car", "小汽车"]), "query_id"]
    rows = tables.qrels[tables.qrels["query_id"].isin(wanted)].astype("str")
    assert set(zip(rows["judged_by"], rows["evidence"], strict=True)) == {
        ("detector", "car"),
        ("rule", "cat accepted for car"),
        ("detector", "小汽车"),
        ("rule", "猫 accepted for 小汽车"),
    }


@pytest.mark.thorough
def test_images_are_proven_rendered_and_named_by_their_bytes(make_world: Make, tmp_path: Path) -> None:
    definition = make_world(images=True, render={"size": 64, "mode": "fit"})
    photos = tmp_path / "photos" / "holiday"
    (photos / "0000.jpg").unlink()
    (photos / "0001.jpg").write_bytes((photos / "0001.jpg").read_bytes()[:300])
    shutil.copy(photos / "0002.jpg", photos / "0003.jpg")
    result = build(definition, "mixes.cap=100")
    assert unrecorded_cuts(result.manifest) == []
    rows = set_files.read_set(result.path).tables.ledger
    images = rows[rows["stage"] == "images"].astype("str")
    assert set(zip(images["item"], images["bucket"], images["reason"], strict=True)) == {
        ("holiday/0000.jpg", "rejected", "image_missing"),
        ("holiday/0001.jpg", "quarantined", "cannot_be_decoded"),
        ("holiday/0003.jpg", "rejected", "same_bytes"),
    }
    truth = judged(result.path)
    # 0003 has 0002's bytes: one picture with the boxes of both, so 0002 now shows a car as well
    assert truth[("car", "en")]["holiday/0002.jpg"] == 2
    assert len(list((result.path / "images").rglob("img_*.jpg"))) == 57
    assert list(set_files.verify_set(result.path)) == []


@pytest.mark.parametrize(
    ("file", "levels"), [("taco_annotations.json", [35, 75, 21]), ("pascal_test2007.json", [20, 48, 22])]
)
def test_real_files_give_the_counts_of_an_independent_count(
    file: str, levels: list[int], shared: Callable[[str], Path]
) -> None:
    keys = ["name=real", f"annotations={shared(f'boxes_only/{file}')}", "mixes.mode=exhaustive"]
    loaded = load_definition(None, keys, "precision")
    assert isinstance(loaded, PrecisionDefinition)
    assert list(plan_precision(loaded)["levels"].values()) == levels


@pytest.mark.parametrize("file", ["taco_annotations.json", "pascal_test2007.json"])
def test_the_default_mixes_of_real_files_are_nine_tenths_of_all_mixes(
    file: str, shared: Callable[[str], Path], tmp_path: Path
) -> None:
    plans = []
    for mode in ("sampled", "exhaustive"):
        keys = {"kind": "precision", "name": "real", "annotations": str(shared(f"boxes_only/{file}"))}
        (tmp_path / f"{mode}.yaml").write_text(json.dumps({**keys, "mixes": {"mode": mode}}))
        loaded = load_definition(tmp_path / f"{mode}.yaml", [], "precision")
        assert isinstance(loaded, PrecisionDefinition)
        plans.append(plan_precision(loaded))
    default, exhaustive = plans
    for level in ("2", "3"):
        assert default["levels"][level] >= 0.9 * exhaustive["levels"][level]
    for stage in default["funnel"]:
        left = sum(sum(stage[bucket].values()) for bucket in ("rejected", "quarantined", "pending"))
        assert stage["entered"] == stage["accepted"] + left


def test_input_that_cannot_be_used_says_which_and_why(make_world: Make, tmp_path: Path) -> None:
    definition = make_world()
    with pytest.raises(UserError, match=r"gone\.json .*does not exist.*Next: fix `annotations`"):
        build(definition, f"annotations={tmp_path / 'gone.json'}")
    with pytest.raises(UserError, match="is not a folder"):
        build(definition, f"images={tmp_path / 'gone'}")
    with pytest.raises(UserError, match="choose from coco80, objects365"):
        build(definition, "labels=objects356")
    with pytest.raises(UserError, match=r"1 of 5 categories are not in the label table, first 'bird'"):
        build(definition, "labels=objects365")


def test_labels_none_of_which_is_searchable_publish_nothing(make_world: Make, tmp_path: Path) -> None:
    definition = make_world(parents=False)
    with pytest.raises(UserError) as refused:
        build(definition, "searchable.min_images=1000")
    assert "no query is left of 5 labels (5 too few images)" in str(refused.value)
    assert "Next: lower searchable.min_images" in str(refused.value)
    assert not list((tmp_path / "sets").rglob("v*"))


def test_english_labels_do_not_become_chinese_queries(make_world: Make) -> None:
    with pytest.raises(UserError) as refused:
        build(make_world(), "languages=[zh]")
    assert "is not a Chinese name, like 5 of the 5 names in the annotations" in str(refused.value)
    assert "set labels: coco80, which has Chinese names for all of them, or set languages: [en]" in str(refused.value)
    with pytest.raises(UserError, match="is not a Chinese name"):
        build(make_world(), "languages=[en, zh]")


@pytest.mark.parametrize(
    ("names", "language", "others"),
    [
        (["狗", "T恤", "TV", "LED"], "zh", []),
        (["狗", "猫", "traffic light"], "zh", ["traffic light"]),
        (["dog", "cat", "红绿灯"], "en", ["红绿灯"]),
    ],
)
def test_the_language_of_labels_is_that_of_most_and_the_others_are_listed(
    names: list[str], language: str, others: list[str]
) -> None:
    tree = build_tree_from_categories(pd.DataFrame({"name": names, "supercategory": ""}), False, {})
    assert detect_name_language(tree) == language
    assert list_names_of_other_languages(tree, language) == others


def add_spelling(folder: Path, name: str, spelling: str) -> None:
    """Write every second box of a category under another one with this name."""
    data = json.loads((folder / "instances.json").read_text())
    category = next(one for one in data["categories"] if one["name"] == name)
    data["categories"].append({**category, "id": 999, "name": spelling})
    of_it = [box for box in data["annotations"] if box["category_id"] == category["id"]]
    for box in of_it[::2]:
        box["category_id"] = 999
    (folder / "instances.json").write_text(json.dumps(data, ensure_ascii=False), "utf-8")


def test_two_spellings_of_a_name_are_one_label_with_the_truth_of_both(make_world: Make, tmp_path: Path) -> None:
    definition = make_world()
    calm = build(definition)
    add_spelling(tmp_path, "dog", "dog\u200b")
    joined = build(definition, f"out={tmp_path / 'joined'}")
    before, after = set_files.read_set(calm.path).tables, set_files.read_set(joined.path).tables
    assert after.queries.equals(before.queries) and after.qrels.equals(before.qrels)
    (row,) = after.ledger[after.ledger["stage"] == "spellings"].to_dict("records")
    assert (row["item"], row["reason"], row["related_item"]) == ("dog\u200b", "other_spelling", "dog")
    assert "U+200B ZERO WIDTH SPACE" in row["detail"]
    stage = next(one for one in joined.manifest["funnel"] if one["stage"] == "spellings")
    assert (stage["entered"], stage["accepted"]) == (6, 5)
    assert not any(one["stage"] == "spellings" for one in calm.manifest["funnel"])


def test_names_that_only_look_the_same_are_refused_with_their_code_points(make_world: Make, tmp_path: Path) -> None:
    definition = make_world()
    add_spelling(tmp_path, "dog", "d\u043eg")
    with pytest.raises(
        UserError, match=r"look the same \(U\+006F LATIN SMALL LETTER O; U\+043E CYRILLIC SMALL"
    ) as told:
        build(definition)
    assert "\n" not in str(told.value) and not list((tmp_path / "sets").rglob("v*"))


ALL = ["count", "size", "spatial", "negation"]


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


def give_colours(definition: Path, colours: list[Any]) -> None:
    """Give each dog of the small world the next of these attributes (None: the record has none)."""
    file = definition.parent / "instances.json"
    data = json.loads(file.read_text())
    dog = next(category["id"] for category in data["categories"] if category["name"] == "dog")
    dogs = [record for record in data["annotations"] if record["category_id"] == dog]
    for record, colour in zip(dogs, itertools.cycle(colours)):
        record |= {} if colour is None else {"attributes": colour}
    file.write_text(json.dumps(data))


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
