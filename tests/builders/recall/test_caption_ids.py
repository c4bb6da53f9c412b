"""The ids of captions, and the names that the ledger has for them."""

from builders.recall.caption_rules import caption_ledger_item, caption_query_id


def test_the_ids_of_published_sets_stay_what_they_are() -> None:
    assert caption_query_id("img_a", "zh/caption", 0) == "q_729ddcefb2dd8e321fe0"
    assert caption_ledger_item("a.jpg", "img_a", "zh/caption", 0) == "a.jpg · zh/caption"
    assert caption_ledger_item("", "img_a", "zh/caption", 2) == "img_a · zh/caption 3"
