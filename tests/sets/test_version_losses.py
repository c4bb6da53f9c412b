"""What a build does not have any more, and what took it: the most frequent reason and the fullest folder first."""

from collections.abc import Sequence

from querytruth.records import empty_frame
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.version_difference import find_losses


def gallery(folders: str, kept: str | None = None, ledger: Sequence[tuple[str, str, str]] = ()) -> Tables:
    """Images a, b, c … in these folders, of which `kept` are left; a row per (stage, image, reason)."""
    letters = "abcdefghij"[: len(folders)]
    frame = empty_frame("images").reindex(range(len(letters)))
    frame = frame.assign(
        image_id=list(letters), file_name=[f"{folder}/{n}" for folder, n in zip(folders, letters, strict=True)]
    )
    rows = empty_frame("ledger").reindex(range(len(ledger)))
    rows = rows.assign(
        stage=[row[0] for row in ledger], item_id=[row[1] for row in ledger], reason=[row[2] for row in ledger]
    )
    images = frame[frame["image_id"].isin(list(letters if kept is None else kept))]
    return Tables(empty_frame("queries"), images, empty_frame("qrels"), ledger=rows)


def test_the_most_frequent_reason_and_the_fullest_folder_come_first() -> None:
    ledger = [("filter", "a", "too_small"), ("filter", "b", "blurred"), ("filter", "c", "too_small")]
    lost = find_losses(gallery("xyyy"), gallery("xyyy", "", ledger))
    assert lost == ("images", 4, 4, "2 too small, 1 blurred, 1 not listed; 3 in y/")


def test_equal_numbers_are_in_the_order_of_their_names() -> None:
    ledger = [("filter", "a", "too_small"), ("filter", "b", "blurred")]
    assert find_losses(gallery("yx"), gallery("yx", "", ledger)).reasons == "1 blurred, 1 too small; 1 in x/"


def test_what_a_person_dropped_is_not_lost_and_what_a_rule_took_is() -> None:
    ledger = [("review", "a", "dropped"), ("filter", "b", "blurred")]
    assert find_losses(gallery("xxx"), gallery("xxx", "c", ledger)) == ("images", 1, 3, "1 blurred; 1 in x/")
    assert find_losses(gallery("xxx"), gallery("xxx")) == ("images", 0, 3, "")


def test_more_reasons_than_a_line_holds_are_left_out() -> None:
    ledger = [("filter", name, reason) for name, reason in zip("abcd", ("w", "x", "y", "z"), strict=True)]
    assert find_losses(gallery("oooo"), gallery("oooo", "", ledger)).reasons == "1 w, 1 x, 1 y; 4 in o/"


def test_a_ledger_without_rows_explains_nothing() -> None:
    assert find_losses(gallery("x"), gallery("x", "")).reasons == "1 not listed; 1 in x/"
    assert isinstance(find_losses(gallery("x"), gallery("x", "")).total, int)
