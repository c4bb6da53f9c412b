"""Judgments as each direction sees them, and which queries are no independent evidence."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from builders.errors import UserError
from evaluation.evaluated import IMAGE_TO_TEXT, TEXT_TO_IMAGE
from flows.scoring.judged_sets import clusters_of, judged_file, judged_set, view_of
from tests.small_sets import image_of, publish, query_of, small_tables


def test_queries_share_a_topic_a_picture_or_labels() -> None:
    queries = pd.DataFrame(
        {
            "query_id": ["q1", "q2", "q3", "q4", "q5", "q6"],
            "topic": ["fruit", None, None, None, None, None],
            "source_image_id": ["img_1", "img_1", None, None, None, None],
            "labels": [None, ["dog"], ["dog", "cat"], ["cat", "dog"], [], None],
        }
    )
    found = clusters_of(queries)
    assert found is not None
    assert found.to_dict() == {"q1": "fruit", "q2": "img_1", "q3": "cat&dog", "q4": "cat&dog"}
    assert clusters_of(queries.iloc[4:]) is None and clusters_of(None) is None


def test_what_can_be_found_is_the_whole_gallery_either_way(tmp_path: Path) -> None:
    judged = judged_set(publish(tmp_path, small_tables()).path)
    view = view_of(judged, TEXT_TO_IMAGE, ("hit@1",), ())
    assert view.query_ids.to_pylist() == sorted(query_of(name) for name in ("dog", "狗", "cat"))
    assert view.gallery_ids.to_pylist() == judged.images["image_id"].tolist()  # type: ignore[union-attr, index]
    assert view.asked.truth.irrelevant == {query_of("none")}, "asked, but nothing is judged"
    turned = view_of(judged, IMAGE_TO_TEXT, ("hit@1",), ())
    assert turned.is_turned and turned.asked.queries is None
    assert turned.query_ids.to_pylist() == sorted(image_of(name) for name in ("dog", "beach", "cat"))
    assert turned.gallery_ids.to_pylist() == judged.queries["query_id"].tolist()  # type: ignore[union-attr, index]
    assert turned.asked.truth.irrelevant == {image_of("tree")}


def test_bare_judgments_know_no_gallery(tmp_path: Path) -> None:
    path = tmp_path / "album.v2.qrels"
    path.write_text("q1 0 a 1\nq1 0 b 0\n")
    judged = judged_file(path)
    assert (judged.described["name"], judged.described["version"]) == ("album", 0)
    assert view_of(judged, TEXT_TO_IMAGE, ("hit@1",), ()).gallery_ids is None
    with pytest.raises(UserError, match="cannot be read"):
        judged_file(tmp_path / "nowhere")
