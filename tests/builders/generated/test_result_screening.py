"""Why people's words on queries and results changed nothing, each in a few words."""

import pandas as pd
import pytest

from builders.generated.result_screening import summarize_overrides
from querytruth.sets.decision_records import Override
from querytruth.sets.ledger import Ledger, rejection_rows

KEPT = pd.DataFrame({"query_id": ["q_1", "q_1"], "url": ["http://a/1", "http://a/2"]})


def book(*away: tuple[str, str, str, str]) -> Ledger:
    """Rows of stage, item, bucket and reason."""
    ledger = Ledger()
    for stage, item, bucket, reason in away:
        kind = "query" if item.startswith("q_") else "result"
        ledger.record_stage(stage, kind, 1, 0, rejection_rows([item], bucket, reason))
    return ledger


def words(*items: str) -> dict[str, Override]:
    return {item: Override(item, "rescue", item, "", "why") for item in items}


def test_what_is_in_the_set_is_in_effect_though_another_query_turned_it_away() -> None:
    rescues = words("http://a/2", "q_1")
    told = summarize_overrides(rescues, KEPT, book(("images", "http://a/2", "rejected", "not_needed")))
    assert (
        told.in_effect == sorted(one.decision_id for one in (rescues["http://a/2"], rescues["q_1"])) and not told.stale
    )


@pytest.mark.parametrize(
    ("item", "away", "why"),
    [
        ("q_2", None, "nobody accepted that query"),
        ("q_2", ("search", "rejected", "results_not_reported"), "rejected again: results_not_reported"),
        ("q_2", ("queries", "rejected", "too_few_images"), "no suitable image"),
        ("q_2", ("queries", "pending", "too_few_images"), "may still arrive"),
        ("http://b/1", None, "it is not among the first results"),
        ("http://b/1", ("images", "rejected", "not_needed"), "enough"),
        ("http://b/1", ("images", "rejected", "query_dropped"), "its query was rejected"),
        ("http://b/1", ("images", "rejected", "near_duplicate"), "shows the same"),
        ("http://b/1", ("images", "pending", "timeout"), "may still arrive"),
        ("http://b/1", ("images", "quarantined", "not_found"), "rejected again: not_found"),
        ("http://b/1", ("results", "rejected", "repeated_url"), "better rank"),
    ],
)
def test_what_is_not_says_why(item: str, away: tuple[str, str, str] | None, why: str) -> None:
    ledger = book((away[0], item, *away[1:])) if away else book()
    ((word, said),) = summarize_overrides(words(item), KEPT, ledger).stale
    assert word.item == item and why in said


def test_the_last_stage_tells() -> None:
    ledger = book(("results", "http://b/1", "rejected", "repeated_url"), ("images", "http://b/1", "pending", "timeout"))
    assert "may still arrive" in summarize_overrides(words("http://b/1"), KEPT, ledger).stale[0][1]
    assert summarize_overrides({}, KEPT, ledger).stale == ()
