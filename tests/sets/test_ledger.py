"""The ledger of a build: nothing is lost between two stages, whatever the frames of rejections look like."""

import pandas as pd
import pytest

from querytruth.records import LEDGER_SCHEMA, list_rows, to_arrow
from querytruth.sets.ledger import ConservationError, Ledger, Rejection, rejection_rows, rejection_table


def test_a_stage_that_loses_an_item_is_a_defect() -> None:
    ledger = Ledger()
    with pytest.raises(ConservationError, match="3 images entered, but 2 are accounted for"):
        ledger.record_stage("filter", "image", 3, 1, rejection_rows(["a"], "rejected", "too_small"))
    with pytest.raises(ConservationError, match="unknown bucket 'lost'"):
        ledger.record_stage("filter", "image", 1, 0, rejection_rows(["a"], "lost", "too_small"))
    assert ledger.stages == [] and ledger.rows().empty


def test_rows_of_all_stages_are_one_table() -> None:
    ledger = Ledger()
    ids = pd.Series(["img_2", "img_1"], index=[7, 3])
    ledger.record_stage("scan", "image", 3, 2, rejection_rows(["z"], "quarantined", "not_an_image", detail="ends"))
    ledger.record_stage("rest", "image", 2, 0, rejection_rows(["b", "a"], "rejected", "not_selected", item_id=ids))
    ledger.record_stage("empty", "query", 5, 5, rejection_rows([], "rejected", "none"))
    late = rejection_table([Rejection("q", "pending", "busy", measure="tries", value=3, rank=2, language="en")])
    gone = rejection_rows(["c"], ["rejected"], ["x"], detail="y")
    ledger.record_stage("late", "query", 2, 0, late, gone[:0], gone)
    rows = ledger.rows()
    assert list(rows.columns) == LEDGER_SCHEMA.names
    wanted = ["item", "stage", "kind", "bucket", "reason", "item_id", "measure", "value", "rank", "detail"]
    assert [tuple(row[name] for name in wanted) for row in list_rows(rows)] == [
        ("z", "scan", "image", "quarantined", "not_an_image", None, None, None, None, "ends"),
        ("a", "rest", "image", "rejected", "not_selected", "img_1", None, None, None, None),
        ("b", "rest", "image", "rejected", "not_selected", "img_2", None, None, None, None),
        ("c", "late", "query", "rejected", "x", None, None, None, None, "y"),
        ("q", "late", "query", "pending", "busy", None, "tries", 3.0, 2.0, None),
    ]
    assert to_arrow("ledger", rows).schema == LEDGER_SCHEMA
    assert [stage.rejected for stage in ledger.stages] == [{}, {"not_selected": 2}, {}, {"x": 1}]
    assert ledger.stages[0].quarantined == {"not_an_image": 1}
