"""A handed-out table is found by what the filled-in one says of itself."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from querytruth.review.pool_views import exported_table_path, read_exported_table
from querytruth.sets import review_csv
from querytruth.sets.review_tables import ANSWER_COLUMNS, DIGEST_COLUMN, ReviewExport

ROWS = pd.DataFrame([["q_1", "狗"], ["q_2", "猫"]], columns=["query_id", "text"], dtype="str")
EXPORT = ReviewExport(
    "e_1", "tiny/v0", "queries", ROWS.assign(**dict.fromkeys([*ANSWER_COLUMNS, DIGEST_COLUMN], "")).astype("str")
)


def test_the_table_comes_back_as_it_was_kept_whatever_was_filled_in(tmp_path: Path) -> None:
    generated = tmp_path / "tiny" / "generated"
    review_csv.write_review_csv(EXPORT, exported_table_path(generated, "topics", "e_1"))
    review_csv.write_review_csv(replace(EXPORT, rows=EXPORT.rows.assign(decision="drop")), tmp_path / "filled.csv")
    filled = review_csv.read_review_csv(tmp_path / "filled.csv")
    found = read_exported_table(generated, "topics", filled)
    assert found is not None and (found.export_id, found.set_name, found.view) == ("e_1", "tiny/v0", "queries")
    pd.testing.assert_frame_equal(found.rows, EXPORT.rows)


def test_of_another_stage_another_set_or_another_export_there_is_none(tmp_path: Path) -> None:
    for name in ("tiny", "other"):
        review_csv.write_review_csv(EXPORT, exported_table_path(tmp_path / name / "generated", "topics", "e_1"))
    filled = review_csv.read_review_csv(exported_table_path(tmp_path / "tiny" / "generated", "topics", "e_1"))
    assert read_exported_table(tmp_path / "tiny" / "generated", "objects", filled) is None
    assert read_exported_table(tmp_path / "other" / "generated", "topics", filled) is None
    assert read_exported_table(tmp_path / "tiny" / "generated", "topics", replace(filled, export_id="e_2")) is None
