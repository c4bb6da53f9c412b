"""Systems of every kind on a small set: what they get, what is kept, and what is refused."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.errors import UserError
from querytruth.evaluation import systems
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, TEXT_TO_IMAGE, EvaluationResult
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.judged_sets import JudgedSet, build_evaluation_view, load_judged_set
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.result_files import RESULT_FILE
from querytruth.evaluation.run_evaluation import EvaluationSpec, evaluate_run
from querytruth.evaluation.steps import (
    find_result_folder,
    load_stored_results,
    result_folder_name,
    score_system,
)
from querytruth.evaluation.systems import EvaluatedSystem
from querytruth.review.query_selection import draw_family_profile
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from tests.review.page_reader import ParsedPage
from tests.small_sets import gallery_tables, image_id_of, publish_small_set, query_id_of, small_tables


def result(judged: JudgedSet, system: EvaluatedSystem) -> EvaluationResult:
    return score_system(build_evaluation_view(judged, TEXT_TO_IMAGE, ("hit@1",), (0.9,)), system).result


def test_the_words_that_lexical_goes_by(tmp_path: Path) -> None:
    judged = load_judged_set(publish_small_set(tmp_path, small_tables()).path)
    by_labels = result(judged, systems.make_baseline("lexical"))
    assert by_labels.counts["texts"]["source"] == "labels"
    assert by_labels.warnings[0].code == "words_of_the_truth"
    path = tmp_path / "told.csv"
    path.write_text("file_name,caption\nholiday/dog 1.jpg,'cat' asleep\nnobody.jpg,x\n", encoding="utf-8-sig")
    told = result(judged, systems.make_baseline("lexical", texts=path))
    assert told.counts["texts"] == {"source": "told.csv", "rows": 1}
    first = told.ranked[told.ranked["query_id"] == query_id_of("cat")]
    assert first["image_id"].tolist() == [image_id_of("dog")]
    path.write_text("name,caption\na,b\n")
    with pytest.raises(UserError, match="has the columns name, caption"):
        result(judged, systems.make_baseline("lexical", texts=path))


@pytest.mark.parametrize(("direction", "copy_of"), [(TEXT_TO_IMAGE, "image_id"), (IMAGE_TO_TEXT, "query_id")])
def test_a_copy_counts_as_its_image_whether_it_is_found_or_searched_with(
    tmp_path: Path, direction: str, copy_of: str
) -> None:
    judged = load_judged_set(publish_small_set(tmp_path, small_tables()).path)
    judged = replace(judged, representatives=pd.Series({"img_copy": image_id_of("dog")}))
    rows = {"query_id": query_id_of("dog"), "image_id": image_id_of("dog"), "score": 1.0}
    if direction == IMAGE_TO_TEXT:
        rows |= {"query_id": rows["image_id"], "image_id": rows["query_id"]}
    run = pd.DataFrame([rows | {copy_of: "img_copy"}]).astype({"query_id": "category", "image_id": "category"})
    run.to_csv(tmp_path / "run.csv", index=False)
    system = systems.load_run_system(tmp_path / "run.csv", judged)
    view = build_evaluation_view(judged, direction, ("hit@1",), (0.9,))
    per_query = score_system(view, system, max_unknown=1).result.per_query["hit@1"]
    assert per_query[rows["query_id"]] == 1 and per_query.sum() == 1


# --- results on disk
@pytest.mark.parametrize("linked", ["evaluations", "evaluations/v1", "evaluations/v1/random"])
def test_no_result_is_written_or_read_through_a_link_of_a_received_set(tmp_path: Path, linked: str) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    (tmp_path / "private").mkdir()
    place = stored.path.parent / linked
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(tmp_path / "private")
    judged = load_judged_set(stored.path)
    with pytest.raises(UserError, match=rf"{place.name} \(write result\): is a link"):
        find_result_folder(judged, systems.make_baseline("random"))
    with pytest.raises(UserError, match=rf"{place.name} \(read result\): is a link"):
        load_stored_results(stored.path)


def test_what_a_system_is_called_where_it_lies() -> None:
    model = {"kind": "model", "name": "openai/clip-vit", "revision": "files:0123456789abcdef", "index": "exact"}
    assert result_folder_name(EvaluatedSystem(model, None), TEXT_TO_IMAGE) == "openai-clip-vit-01234567"  # type: ignore[arg-type]
    assert result_folder_name(EvaluatedSystem(model | {"index": "hnsw"}, None), IMAGE_TO_TEXT) == (  # type: ignore[arg-type]
        "openai-clip-vit-01234567-hnsw.image_to_text"
    )
    run = {"kind": "run", "name": "../../a b"}
    assert result_folder_name(EvaluatedSystem(run, None), TEXT_TO_IMAGE) == "a-b"  # type: ignore[arg-type]


def test_sets_without_queries_and_damaged_results_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no queries"):
        load_judged_set(publish_small_set(tmp_path, gallery_tables()).path)
    with pytest.raises(UserError, match=r"contains no result\.json"):
        systems.load_run_system(tmp_path)
    (tmp_path / RESULT_FILE).write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        systems.load_run_system(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        systems.load_run_system(tmp_path / "nowhere.trec")


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


@pytest.mark.thorough
def test_each_question_has_the_query_for_what_is_to_be_seen_as_its_twin(tables: Tables) -> None:
    by_id = tables.queries.set_index("query_id")
    of_families = tables.queries[tables.queries["family"].notna()]
    assert of_families["twin"].notna().all() and by_id.loc[by_id["family"].isna(), "twin"].isna().all()
    texts = dict(zip(of_families["text"], by_id.loc[of_families["twin"], "text"], strict=True))
    of_dogs = ["dog, no cats anywhere", "exactly two dogs", "dog taking up much of the frame", "red dog"]
    assert {texts[name] for name in of_dogs} == {"dog"}
    assert texts["a dog to the left of a horse"] == "dog&horse" and texts["画面中有狗、没有猫"] == "狗"


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["", *FAMILIES])
def test_a_system_that_ignores_a_family_is_named_and_an_oracle_is_not(tables: Tables, family: str) -> None:
    result = evaluate(tables, family)
    assert named(result) == ([family] if family else [])
    rate = result.slices[(result.slices["slice"] == "family") & (result.slices["metric"] == "shortcut@10")]
    assert rate.set_index("value")["mean"].to_dict() == {name: float(name == family) for name in FAMILIES}


@pytest.mark.thorough
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
