"""What changed between two versions: files in place of ids, values before and after, and why an image is gone."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from querytruth.review.difference_page import list_changes, render_difference_page
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import rejection_rows
from querytruth.sets.set_files import read_set
from querytruth.sets.version_difference import compare_versions
from tests.small_sets import image_id_of, publish_small_set, small_tables


def without_dog(tables: Tables) -> Tables:
    """The tables without one image, for a reason, and with another grade for one judgment."""
    gone = image_id_of("dog")
    qrels = tables.qrels[tables.qrels["image_id"] != gone].reset_index(drop=True)
    qrels.loc[0, "relevance"] = 0
    name = tables.images.loc[tables.images["image_id"] == gone, "file_name"].item()
    ledger = rejection_rows([name], "rejected", ["near_duplicate"]).assign(stage="duplicates", kind="image")
    images = tables.images[tables.images["image_id"] != gone]
    return Tables(tables.queries, images.reset_index(drop=True), qrels, pd.concat([tables.ledger, ledger]))


def test_changes_name_files_values_and_reasons(tmp_path: Path) -> None:
    before = read_set(publish_small_set(tmp_path, small_tables()).path).tables
    after = without_dog(before)
    difference = compare_versions(before, after)
    tables = {f"{one.kind} {one.change}": one for one in list_changes(before, after, difference, 20)}
    (row,) = tables["images removed"].rows
    assert row == ["holiday/dog 1.jpg", "near duplicate"] and tables["images removed"].image_ids == [image_id_of("dog")]
    changed = tables["judgments changed"]
    assert changed.columns == ["query", "image", "what"] and "→ 0" in changed.rows[0][-1]
    few = list(list_changes(before, after, difference, 0))
    assert all(one.rows == [] and one.total for one in few)


def test_the_page_shows_texts_as_texts(tmp_path: Path) -> None:
    stored = read_set(publish_small_set(tmp_path, small_tables()).path)
    queries = stored.tables.queries.assign(text=["<b>x</b>", *stored.tables.queries["text"][1:]])
    other = replace(stored.tables, queries=queries)
    difference = compare_versions(stored.tables, other)
    tables = list(list_changes(stored.tables, other, difference, 20))
    html = render_difference_page(stored, stored, tables, difference.comparability)
    assert "&lt;b&gt;x&lt;/b&gt;" in html and "<b>x" not in html and difference.comparability in html
