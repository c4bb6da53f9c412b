"""Systems with a planted weakness on a set with families of questions: the evaluation names it, and shows it."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.evaluation.evaluation_result import EvaluationResult
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.run_evaluation import EvaluationSpec, evaluate_run
from querytruth.review.query_selection import draw_family_profile
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from tests.review.page_reader import ParsedPage

pytestmark = pytest.mark.thorough

FAMILIES = ["count", "size", "spatial", "negation", "attribute"]
LABELS = ["dog", "cat", "horse", "car", "bottle", "laptop"]
SET = {"name": "toy", "version": 1, "content_digest": "0", "kind": "precision", "title": "Toy"}


def draw_annotations() -> dict[str, Any]:
    """Three hundred images with up to six boxes of six labels, some large and some small."""
    drawn, colours = random.Random(7), random.Random(8)
    boxes = []
    for image in range(300):
        for _ in range(drawn.randint(1, 6)):
            side = drawn.choice([10, 12, 60, 70])
            x, y = drawn.randint(0, 100 - side), drawn.randint(0, 100 - side)
            boxes.append({"image_id": image, "category_id": drawn.randrange(len(LABELS)), "bbox": [x, y, side, side]})
    return {
        "images": [{"id": n, "file_name": f"{n:04}.jpg", "width": 100, "height": 100} for n in range(300)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(LABELS)],
        "annotations": [
            {"id": n, "iscrowd": 0, "attributes": [colours.choice(["red", "blue", "green"])], **box}
            for n, box in enumerate(boxes)
        ],
    }


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder: Path = tmp_path_factory.mktemp("families")
    (folder / "boxes.json").write_text(json.dumps(draw_annotations()))
    definition = {
        "name": "toy",
        "kind": "precision",
        "annotations": "boxes.json",
        "labels": "coco80",
        "families": FAMILIES,
        "exhaustive": True,
        "exhaustive_attributes": True,
        "texts": ["word"],
        "searchable": {"area_ratio": 0.0},  # each box is prominent: twins are in the order of ids
        "mixes": {"levels": 2},
        "out": str(folder),
    }
    (folder / "toy.yaml").write_text(json.dumps(definition))
    return set_files.read_set(build_set(load_definition(folder / "toy.yaml", [], "precision")).path).tables


def rank_by_truth(tables: Tables, ignored: str = "") -> pd.DataFrame:
    """The relevant images, those that nobody judged, and then the negatives; for questions of the ignored family as if
    their twin were asked."""
    grades = {name: dict.fromkeys(tables.images["image_id"], -1) for name in tables.queries["query_id"]}
    for query, image, grade in tables.qrels[["query_id", "image_id", "relevance"]].itertuples(index=False):
        grades[query][image] = grade
    rows = []
    for query in tables.queries.itertuples():
        is_ignored = ignored and str(query.family).startswith(ignored) and isinstance(query.twin, str)
        of_query = grades[query.twin if is_ignored else query.query_id]
        ranked = sorted(of_query, key=lambda image: (-of_query[image] if of_query[image] else 2, image))[:20]
        rows += [(query.query_id, image, -float(place)) for place, image in enumerate(ranked)]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"])


def evaluate(tables: Tables, ignored: str = "") -> EvaluationResult:
    truth = index_qrels(tables.qrels, tables.images["image_id"], tables.queries["query_id"])
    spec = EvaluationSpec(SET, truth, queries=tables.queries, metrics=["p@10"])
    system = {"kind": "run", "name": f"ignores {ignored}" if ignored else "oracle"}
    return evaluate_run(rank_run(rank_by_truth(tables, ignored), truth), spec, system)


def named(result: EvaluationResult) -> list[str]:
    return [warning.metric for warning in result.warnings if warning.code == "ignored_family"]


def test_each_question_has_the_query_for_what_is_to_be_seen_as_its_twin(tables: Tables) -> None:
    by_id = tables.queries.set_index("query_id")
    of_families = tables.queries[tables.queries["family"].notna()]
    assert of_families["twin"].notna().all() and by_id.loc[by_id["family"].isna(), "twin"].isna().all()
    texts = dict(zip(of_families["text"], by_id.loc[of_families["twin"], "text"], strict=True))
    of_dogs = ["dog, no cats anywhere", "exactly two dogs", "dog taking up much of the frame", "red dog"]
    assert {texts[name] for name in of_dogs} == {"dog"}
    assert texts["a dog to the left of a horse"] == "dog&horse" and texts["画面中有狗、没有猫"] == "狗"


def test_an_oracle_ignores_no_family(tables: Tables) -> None:
    result = evaluate(tables)
    assert named(result) == []
    assert result.counts["shortcuts"]["shortcut@10"] == 0.0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_system_that_ignores_a_family_is_named(tables: Tables, family: str) -> None:
    result = evaluate(tables, family)
    assert named(result) == [family]
    rate = result.slices[(result.slices["slice"] == "family") & (result.slices["metric"] == "shortcut@10")]
    assert rate.set_index("value")["mean"].to_dict() == {name: float(name == family) for name in FAMILIES}


def test_few_questions_name_nothing(tables: Tables) -> None:
    """Two phrasings of four questions are four, and not eight."""
    negations = tables.queries[tables.queries["family"] == "negation/without"]
    kept = negations[negations["labels"].map("&".join).isin(negations["labels"].map("&".join).unique()[:4])]
    plain = tables.queries[tables.queries["family"].isna()]
    queries = pd.concat([plain, kept])
    qrels = tables.qrels[tables.qrels["query_id"].isin(queries["query_id"])]
    assert len(kept) == 8
    assert named(evaluate(Tables(queries, tables.images, qrels), "negation")) == []


def test_without_twins_nothing_is_measured(tables: Tables) -> None:
    queries = tables.queries.drop(columns="twin")
    spec = EvaluationSpec(SET, index_qrels(tables.qrels), queries=queries, metrics=["p@10"])
    result = evaluate_run(rank_run(rank_by_truth(tables, "negation"), spec.truth), spec, {"name": "mine"})
    assert "shortcuts" not in result.counts and named(result) == []


def test_a_family_with_many_kinds_has_one_line(tables: Tables) -> None:
    renamed = tables.queries.copy()
    asks_colour = renamed["family"].str.startswith("attribute/", na=False)
    renamed.loc[asks_colour, "family"] = [f"attribute/{number % 9}" for number in range(asks_colour.sum())]
    found = draw_family_profile({"oracle": evaluate(Tables(renamed, tables.images, tables.qrels))}, "p@10")
    assert found is not None
    (label,) = [tag["aria-label"] for _, tag in ParsedPage(found["plot"]).tags if "aria-label" in tag]
    assert "attribute 1.00" in label and "attribute/" not in label and "count/2" in label


def test_the_profile_shows_both_systems_by_kind(tables: Tables) -> None:
    one, other = evaluate(tables), evaluate(tables, "negation")
    found = draw_family_profile({"oracle": one, "deaf": other}, "p@10")
    assert found is not None
    assert [title for title, _ in found["panels"]] == ["p@10", "neg@10", "kept@10"]
    (label,) = [tag["aria-label"] for _, tag in ParsedPage(found["plot"]).tags if "aria-label" in tag]
    assert "negation/without 1.00 deaf" in label and "count/2" in label
    bare = evaluate(Tables(tables.queries.drop(columns=["family", "twin"]), tables.images, tables.qrels))
    assert draw_family_profile({"oracle": bare}, "p@10") is None
    assert np.isfinite(one.slices["mean"]).all()
