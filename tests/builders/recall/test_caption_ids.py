"""Captions by the names that the ledger has for them."""

import pandas as pd

from builders.recall.caption_ids import (
    caption_ledger_item,
    caption_query_id,
    query_ids_by_item,
)


def test_every_caption_is_found_by_its_name_in_the_ledger() -> None:
    images = pd.DataFrame({"image_id": ["img_a", "img_b"], "file_name": ["夏天/a · 1.jpg", None]})
    found = query_ids_by_item(images, ["zh/caption", "en/keywords"], 2)
    assert found == {
        "夏天/a · 1.jpg · zh/caption": caption_query_id("img_a", "zh/caption", 0),
        "夏天/a · 1.jpg · zh/caption 2": caption_query_id("img_a", "zh/caption", 1),
        "夏天/a · 1.jpg · en/keywords": caption_query_id("img_a", "en/keywords", 0),
        "夏天/a · 1.jpg · en/keywords 2": caption_query_id("img_a", "en/keywords", 1),
        "img_b · zh/caption": caption_query_id("img_b", "zh/caption", 0),
        "img_b · zh/caption 2": caption_query_id("img_b", "zh/caption", 1),
        "img_b · en/keywords": caption_query_id("img_b", "en/keywords", 0),
        "img_b · en/keywords 2": caption_query_id("img_b", "en/keywords", 1),
    }
    assert len(set(found.values())) == 8


def test_the_ids_of_published_sets_stay_what_they_are() -> None:
    assert caption_query_id("img_a", "zh/caption", 0) == "q_729ddcefb2dd8e321fe0"
    assert caption_ledger_item("a.jpg", "img_a", "zh/caption", 0) == "a.jpg · zh/caption"
    assert caption_ledger_item("", "img_a", "zh/caption", 2) == "img_a · zh/caption 3"


def test_a_name_that_two_images_share_names_neither() -> None:
    images = pd.DataFrame({"image_id": ["img_a", "img_b", "img_c"], "file_name": ["x.jpg", "x.jpg", "y.jpg"]})
    assert query_ids_by_item(images, ["en/caption"], 1) == {
        "y.jpg · en/caption": caption_query_id("img_c", "en/caption", 0)
    }
    assert query_ids_by_item(images.iloc[:0], ["en/caption"], 1) == {}
