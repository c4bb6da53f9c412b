"""What the page of a recall set chooses to show: the same whenever the set is."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from builders.recall.page import RecallSelection, select_recall
from querytruth.records import categorical_from_codes, empty_frame
from querytruth.sets.benchmark_set import Tables
from tests.review.ledgers import LedgerRow, make_ledger
from tests.review.recall_sets import (
    images_table,
    make_ambiguity,
    make_ambiguity_example,
    pairs_of,
    qrels_table,
    queries_table,
    recall_beach_tables,
)


def shown_with(selection: RecallSelection) -> dict[str | None, list[str]]:
    return {one.image_id: [asked.query_id for asked in one.queries] for one in selection.images}


def test_all_that_is_asked_of_an_image_stands_with_it_chinese_and_captions_first() -> None:
    selection = select_recall(recall_beach_tables(), {})
    assert shown_with(selection) == {"img_boat": ["q_4"], "img_dog": ["q_3", "q_2", "q_1"], "img_ship": ["q_5"]}
    assert selection.image_total == 3


def test_an_image_that_was_judged_not_relevant_is_none_of_them() -> None:
    set_ = recall_beach_tables()
    judged = replace(set_, qrels=qrels_table([*pairs_of(set_), ("q_5", "img_boat", 0)]))
    assert select_recall(judged, {}) == select_recall(set_, {})


def test_where_its_own_image_is_not_right_or_not_there_another_stands_for_it() -> None:
    """As in a smaller gallery, which may hold an image that the query was merged with and not its own."""
    set_ = recall_beach_tables()
    smaller = replace(set_, images=set_.images[set_.images["image_id"] != "img_boat"])
    assert shown_with(select_recall(smaller, {}))["img_ship"] == ["q_4", "q_5"]
    refused = replace(
        set_, qrels=set_.qrels[~((set_.qrels["query_id"] == "q_4") & (set_.qrels["image_id"] == "img_boat"))]
    )
    assert shown_with(select_recall(refused, {}))["img_ship"] == ["q_4", "q_5"]


def test_images_of_ambiguous_captions_need_thumbnails_too_even_of_queries_that_went() -> None:
    notes = {"ambiguity": make_ambiguity(make_ambiguity_example("q_9", image_id="img_empty", outcome="dropped"))}
    ids = select_recall(recall_beach_tables(), notes).image_ids
    assert len(ids) == len(set(ids)) and set(ids) == {"img_boat", "img_dog", "img_ship", "img_empty"}
    assert "img_empty" not in select_recall(recall_beach_tables(), {}).image_ids


@pytest.mark.parametrize("number", [1, 3, 50, 500])
def test_as_many_images_as_wished(number: int) -> None:
    names = [f"{n:03}" for n in range(100)]
    asked = [{"query_id": f"q_{name}", "text": name, "source_image_id": f"img_{name}"} for name in names]
    rows = [(f"q_{name}", f"img_{name}", 1) for name in names]
    set_ = Tables(queries_table(asked), images_table(names), qrels_table(rows))
    found = select_recall(set_, {}, images=number)
    assert len(found.images) == len(found.image_ids) == min(number, 100) and found.image_total == 100


def test_a_reason_shows_a_few_of_its_replies_however_many_there_are() -> None:
    rows: list[LedgerRow] = [
        (f"{n}.jpg", "caption", "clean", "rejected", "empty", {"text": f"reply {n}"}) for n in range(9000)
    ]
    set_ = replace(recall_beach_tables(), ledger=make_ledger(rows))
    (refused,) = select_recall(set_, {}).rejected_replies
    assert refused.count == 9000 and len(refused.examples) == 4


@pytest.mark.thorough
def test_a_large_set_takes_no_longer_than_reading_it() -> None:
    many = 100_000
    queries, image_ids = [f"q_{n:06}" for n in range(2 * many)], [f"img_{n:06}" for n in range(many)]
    asked = pd.DataFrame({"query_id": queries, "text": "一艘船", "language": ["zh", "en"] * many, "style": "caption"})
    asked = asked.assign(level=1, labels=None, source_image_id=np.repeat(image_ids, 2))
    codes = np.arange(2 * many, dtype=np.int32)
    qrels = pd.DataFrame({
        "query_id": categorical_from_codes(queries, codes),
        "image_id": categorical_from_codes(image_ids, codes // 2),
        "relevance": np.ones(2 * many, dtype=np.int8),
        "judged_by": categorical_from_codes(["model"], np.zeros(2 * many, np.int8)),
        "evidence": categorical_from_codes([], np.full(2 * many, -1, np.int8)),
    })  # fmt: skip
    images = empty_frame("images").reindex(range(many)).assign(image_id=image_ids)
    start = time.process_time()
    assert len(select_recall(Tables(asked, images, qrels), {}).image_ids) == 240
    assert time.process_time() - start < 10  # a second or two; the bound is for a busy machine
