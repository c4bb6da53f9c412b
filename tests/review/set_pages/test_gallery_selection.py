"""What the page of a gallery shows of it: the same whenever the gallery is, and soon, however large it is."""

import time

import pandas as pd
import pytest

from builders.gallery.page import ThumbnailKey, select_gallery
from querytruth.records import LEDGER_SCHEMA, empty_frame
from querytruth.sets.benchmark_set import Tables
from tests.review.galleries import groups_table, images_table, make_gallery_tables, scan_table


def test_a_small_gallery_is_shown_whole_in_the_order_of_its_days() -> None:
    tables = make_gallery_tables(40)
    shown = select_gallery(tables)
    assert sorted(shown.image_ids) == sorted(tables.images["image_id"])
    times = tables.images.set_index("image_id")["taken_at"].loc[shown.image_ids]
    assert times.dropna().is_monotonic_increasing and times.iloc[-5:].isna().all()


def test_of_a_large_one_a_part_whatever_the_order_of_rows() -> None:
    tables = make_gallery_tables(400)
    shuffled = Tables(
        tables.queries,
        tables.images.sample(frac=1, random_state=1),
        tables.qrels,
        tables.ledger,
        tables.duplicates.sample(frac=1, random_state=2),
    )
    shown = select_gallery(tables)
    assert len(set(shown.image_ids)) == 150 and shown == select_gallery(shuffled)


def test_the_largest_groups_come_first_each_with_its_representative() -> None:
    shown = select_gallery(make_gallery_tables(100, *range(2, 72)))
    assert [size for size, *_ in shown.groups] == list(range(71, 11, -1)) and shown.group_total == 70
    _, members, further_names = shown.groups[0]
    assert [member.is_representative for member in members] == [True, *[False] * 5]
    assert members[0].key.kind == "image" and members[1].key.kind == "item"
    assert [member.matched_by for member in members[1:]] == ["bytes"] * 5, "the surest match first"
    assert len(further_names) == 40
    assert len(shown.thumbnail_keys) < 700, "so many that thumbnails one can look at stay within five megabytes"


def test_a_representative_that_was_not_selected_is_shown_as_a_listed_file() -> None:
    tables = make_gallery_tables(40, 3)
    kept = tables.images[tables.images["image_id"] != tables.duplicates["image_id"][0]]
    shown = select_gallery(Tables(tables.queries, kept, tables.qrels, tables.ledger, tables.duplicates))
    assert shown.groups[0][1][0].key == ThumbnailKey("item", "2024/photo00000.jpg")


def test_examples_of_every_reason_but_not_of_what_the_groups_show() -> None:
    away = {one.reason: one for one in select_gallery(make_gallery_tables()).rejection_reasons}
    assert list(away) == ["truncated", "too_wide", "duplicate"], "in the order of the stages"
    assert [one.count for one in away.values()] == [3, 9, 4]
    assert [len(one.examples) for one in away.values()] == [3, 6, 0]
    assert away["too_wide"].examples[0].description[1] == "threshold 5"


def test_a_file_that_is_named_like_an_image_does_not_take_its_thumbnail() -> None:
    tables = make_gallery_tables()
    image_id = str(tables.images["image_id"][0])
    ledger = tables.ledger.assign(item=tables.ledger["item"].replace("wide/0.jpg", image_id))
    keys = select_gallery(
        Tables(tables.queries, tables.images, tables.qrels, ledger, tables.duplicates), examples=9
    ).thumbnail_keys
    assert ThumbnailKey("image", image_id) in keys and ThumbnailKey("item", image_id) in keys


@pytest.mark.thorough
def test_a_large_gallery_is_chosen_from_in_seconds() -> None:
    number = 200_000
    frame = scan_table(number)
    ledger = pd.DataFrame({"item": frame["item"], "kind": "image", "stage": "select", "bucket": "rejected"})
    ledger = ledger.assign(reason="not_selected").reindex(columns=LEDGER_SCHEMA.names)
    for column in ("kind", "stage", "bucket", "reason"):
        ledger[column] = ledger[column].astype("category")
    tables = Tables(
        empty_frame("queries"), images_table(frame), empty_frame("qrels"), ledger, groups_table(frame, *[2] * 2000)
    )
    start = time.perf_counter()
    shown = select_gallery(tables)
    assert len(shown.image_ids) == 150 and len(shown.groups) == 60 and len(shown.rejection_reasons[0].examples) == 6
    assert time.perf_counter() - start < 10  # under one here; the bound is for a busy machine
