"""Judgments as each direction sees them, dependent queries, and parts of a set: fewer queries, the whole gallery."""

from pathlib import Path

import pandas as pd
import pytest

import querytruth as qt
from flows.evaluation import evaluate_systems
from querytruth.errors import UserError
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, TEXT_TO_IMAGE
from querytruth.evaluation.judged_sets import (
    build_evaluation_view,
    cluster_queries,
    load_judged_qrels,
    load_judged_set,
    select_part,
)
from querytruth.evaluation.requests import EvaluationOptions
from querytruth.evaluation.systems import make_baseline
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables


def test_queries_share_a_topic_an_image_or_labels() -> None:
    queries = pd.DataFrame(
        {
            "query_id": ["q1", "q2", "q3", "q4", "q5", "q6"],
            "topic": ["fruit", None, None, None, None, None],
            "source_image_id": ["img_1", "img_1", None, None, None, None],
            "labels": [None, ["dog"], ["dog", "cat"], ["cat", "dog"], [], None],
        }
    )
    found = cluster_queries(queries)
    assert found is not None
    assert found.to_dict() == {"q1": "fruit", "q2": "img_1", "q3": "cat&dog", "q4": "cat&dog"}
    assert cluster_queries(queries.iloc[4:]) is None and cluster_queries(None) is None


def test_what_can_be_found_is_the_whole_gallery_either_way(tmp_path: Path) -> None:
    judged = load_judged_set(publish_small_set(tmp_path, small_tables()).path)
    view = build_evaluation_view(judged, TEXT_TO_IMAGE, ("hit@1",), ())
    assert view.query_ids.to_pylist() == sorted(query_id_of(name) for name in ("dog", "狗", "cat"))
    assert view.gallery_ids.to_pylist() == judged.images["image_id"].tolist()  # type: ignore[union-attr, index]
    assert view.spec.truth.queries_without_relevant == {query_id_of("none")}, "asked, but nothing is judged"
    turned = build_evaluation_view(judged, IMAGE_TO_TEXT, ("hit@1",), ())
    assert turned.is_image_to_text and turned.spec.queries is None
    assert turned.query_ids.to_pylist() == sorted(image_id_of(name) for name in ("dog", "beach", "cat"))
    assert turned.gallery_ids.to_pylist() == judged.queries["query_id"].tolist()  # type: ignore[union-attr, index]
    assert turned.spec.truth.queries_without_relevant == {image_id_of("tree")}


def test_bare_judgments_know_no_gallery(tmp_path: Path) -> None:
    path = tmp_path / "album.v2.qrels"
    path.write_text("q1 0 a 1\nq1 0 b 0\n")
    judged = load_judged_qrels(path)
    assert (judged.description["name"], judged.description["version"]) == ("album", 0)
    assert build_evaluation_view(judged, TEXT_TO_IMAGE, ("hit@1",), ()).gallery_ids is None
    with pytest.raises(UserError, match="cannot be read"):
        load_judged_qrels(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four queries: a dog and a cat in English, a dog on a beach in Chinese, and one without a relevant image."""
    return publish_small_set(tmp_path_factory.mktemp("sets"), small_tables()).path


def test_a_part_has_its_queries_and_the_whole_gallery(version: Path) -> None:
    whole = load_judged_set(version)
    part = select_part(whole, {"language": "zh", "level": 2})
    assert part.queries is not None and part.images is not None and whole.images is not None
    assert part.queries["query_id"].tolist() == [query_id_of("狗")]
    assert set(part.qrels["query_id"]) == {query_id_of("狗")}
    assert part.images["image_id"].tolist() == whole.images["image_id"].tolist()
    assert part.description["part"] == {"language": "zh", "level": "2"}
    assert part.outside_queries == {query_id_of(name) for name in ("dog", "cat", "none")}


def test_the_figures_are_those_of_its_queries_in_the_whole(version: Path) -> None:
    whole = qt.evaluate(version, baseline="random", metrics=["rr@10"])
    english = qt.evaluate(version, baseline="random", metrics=["rr@10"], language="en")
    assert english.result.set_name.endswith("(language=en)")
    expected = whole.per_query["rr@10"].loc[[query_id_of("cat"), query_id_of("dog")]]
    assert english.per_query["rr@10"].sort_index().to_dict() == expected.sort_index().to_dict()


def test_a_run_of_the_whole_set_loses_no_query_that_counts(version: Path) -> None:
    full = qt.evaluate(version, baseline="oracle").run[["query_id", "image_id", "score"]]
    found = qt.evaluate(version, run=full, level=2, metrics=["hit@1"])
    assert found["hit@1"] == 1 and found.result.counts["queries"] == 1 and not len(found.result.left_out)


def test_its_result_lies_apart_from_the_whole_sets(version: Path) -> None:
    part = select_part(load_judged_set(version), {"language": "en"})
    options = EvaluationOptions(metrics=["hit@1"], page=False)
    (stored,) = evaluate_systems(part, [make_baseline("oracle")], ("text_to_image",), options)
    assert stored.folder == version.parent / "evaluations" / "v1" / "parts" / "language-en" / "oracle"
    with pytest.raises(UserError, match="holds the result of another run"):  # the folder of the part, for the whole set
        report = EvaluationOptions(metrics=["hit@1"], report=stored.folder)
        list(evaluate_systems(load_judged_set(version), [make_baseline("oracle")], ("text_to_image",), report))


def test_its_result_is_not_taken_for_one_of_the_whole_set(version: Path, tmp_path: Path) -> None:
    part = qt.evaluate(version, baseline="oracle", metrics=["hit@1"], level=2, report=tmp_path / "part").folder
    assert part is not None
    for other in ({}, {"language": "en"}):
        with pytest.raises(UserError, match=r"answers only a part of the set \(level=2\)"):
            qt.evaluate(version, run=part, **other)
    narrower = qt.evaluate(version, run=part, metrics=["hit@1"], level=2, language="zh")
    assert list(narrower.per_query.index) == [query_id_of("狗")] and narrower["hit@1"] == 1


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"language": "fr"}, "language=fr .*matches no query. Next: choose from en, zh"),
        ({"colour": "red"}, "colour .*is not a column to filter by"),
        ({"family": "count"}, "family=count .*matches no query. Next: remove family"),
        ({"language": "en", "level": 2}, "language=en, level=2 .*is not a query of small/v1"),
    ],
)
def test_a_part_that_is_none_is_refused(version: Path, part: dict[str, str | int], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        select_part(load_judged_set(version), part)


def test_bare_judgments_have_no_parts(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q1 0 i1 1\n")
    with pytest.raises(UserError, match="a file of judgments has only ids"):
        select_part(load_judged_qrels(tmp_path / "a.qrels"), {"language": "en"})
