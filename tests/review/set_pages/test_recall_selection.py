"""What the page of a recall set chooses to show: the same whenever the set is."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from builders.benchmark_set import Tables
from builders.records import categorical, empty
from review.set_pages.recall_page import select_described
from review.set_pages.recall_selection import RecallSelection
from tests.review.recall_sets import (
    LEDGER,
    ambiguity,
    beach,
    example,
    images_table,
    pairs_of,
    qrels_table,
    queries_table,
)


def shown_with(selection: RecallSelection) -> dict[str | None, list[str]]:
    return {one.image_id: [asked.query_id for asked in one.asked] for one in selection.described}


def test_all_that_is_asked_of_a_picture_stands_with_it_chinese_and_captions_first() -> None:
    selection = select_described(beach(), {})
    assert shown_with(selection) == {"img_boat": ["q_4"], "img_dog": ["q_3", "q_2", "q_1"], "img_ship": ["q_5"]}
    assert selection.there == 3


def test_a_picture_that_was_judged_not_relevant_is_none_of_them() -> None:
    set_ = beach()
    judged = replace(set_, qrels=qrels_table([*pairs_of(set_), ("q_5", "img_boat", 0)]))
    assert select_described(judged, {}) == select_described(set_, {})


def test_where_its_own_picture_is_not_right_or_not_there_another_stands_for_it() -> None:
    """As in a smaller gallery, which may hold a picture that the query was merged with and not its own."""
    set_ = beach()
    smaller = replace(set_, images=set_.images[set_.images["image_id"] != "img_boat"])
    assert shown_with(select_described(smaller, {}))["img_ship"] == ["q_4", "q_5"]
    refused = replace(
        set_, qrels=set_.qrels[~((set_.qrels["query_id"] == "q_4") & (set_.qrels["image_id"] == "img_boat"))]
    )
    assert shown_with(select_described(refused, {}))["img_ship"] == ["q_4", "q_5"]


def test_pictures_of_ambiguous_captions_need_thumbnails_too_even_of_queries_that_went() -> None:
    notes = {"ambiguity": ambiguity(example("q_9", image_id="img_empty", outcome="dropped"))}
    ids = select_described(beach(), notes).image_ids
    assert len(ids) == len(set(ids)) and set(ids) == {"img_boat", "img_dog", "img_ship", "img_empty"}
    assert "img_empty" not in select_described(beach(), {}).image_ids


@pytest.mark.parametrize("number", [1, 3, 50, 500])
def test_as_many_pictures_as_wished(number: int) -> None:
    names = [f"{n:03}" for n in range(100)]
    asked = [{"query_id": f"q_{name}", "text": name, "source_image_id": f"img_{name}"} for name in names]
    rows = [(f"q_{name}", f"img_{name}", 1) for name in names]
    set_ = Tables(queries_table(asked), images_table(names), qrels_table(rows))
    found = select_described(set_, {}, pictures=number)
    assert len(found.described) == len(found.image_ids) == min(number, 100) and found.there == 100


def test_a_reason_shows_a_few_of_its_replies_however_many_there_are() -> None:
    rows = [(f"{n}.jpg", "caption", "clean", "rejected", "empty", f"reply {n}") for n in range(9000)]
    set_ = replace(beach(), ledger=pd.DataFrame(rows, columns=LEDGER))
    (refused,) = select_described(set_, {}).refused
    assert refused.count == 9000 and len(refused.examples) == 4


def test_a_large_set_takes_no_longer_than_reading_it() -> None:
    many = 100_000
    queries, pictures = [f"q_{n:06}" for n in range(2 * many)], [f"img_{n:06}" for n in range(many)]
    asked = pd.DataFrame({"query_id": queries, "text": "一艘船", "language": ["zh", "en"] * many, "style": "caption"})
    asked = asked.assign(level=1, labels=None, source_image_id=np.repeat(pictures, 2))
    codes = np.arange(2 * many, dtype=np.int32)
    qrels = pd.DataFrame({
        "query_id": categorical(queries, codes), "image_id": categorical(pictures, codes // 2),
        "relevance": np.ones(2 * many, dtype=np.int8), "judged_by": categorical(["model"], np.zeros(2 * many, np.int8)),
        "evidence": categorical([], np.full(2 * many, -1, np.int8)),
    })  # fmt: skip
    images = empty("images").reindex(range(many)).assign(image_id=pictures)
    start = time.process_time()
    assert len(select_described(Tables(asked, images, qrels), {}).image_ids) == 96
    assert time.process_time() - start < 10  # a second or two; the bound is for a busy machine
