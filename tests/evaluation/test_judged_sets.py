"""Judgments as each direction sees them, and which queries are no independent evidence."""

from pathlib import Path

import pandas as pd
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, TEXT_TO_IMAGE
from querytruth.evaluation.judged_sets import build_evaluation_view, cluster_queries, load_judged_qrels, load_judged_set
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
