"""Which queries of an evaluation a page shows: three bins, a bounded draw, and what was missed."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.review.comparison_page import select_largest_differences
from querytruth.review.query_selection import BINS, assign_bins, select_report_queries
from tests.review.evaluation_results import ANSWERS, beach_tables, make_ranked_table

IDS = [f"q_{n}" for n in range(1, 6)]


def answers(first_right: dict[str, int | None]) -> pd.DataFrame:
    """Eight results each, one of them right."""
    return make_ranked_table(
        {name: [(f"img_{n}", int(n == right)) for n in range(1, 9)] for name, right in first_right.items()}
    )


def test_the_bins_are_by_the_rank_of_the_first_right_image() -> None:
    ranked = answers({"a": 1, "b": 2, "c": 5, "d": 6, "e": None})
    expected = {"a": "success", "b": "middle", "c": "middle", "d": "failure", "e": "failure", "f": "failure"}
    assert assign_bins([*"abcdef"], ranked).to_dict() == expected, "f got no answer at all"


def test_the_best_of_several_right_images_counts() -> None:
    ranked = make_ranked_table({"a": [("img_1", 0), ("img_2", 1), ("img_3", 2)]})
    (asked,) = select_report_queries(["a"], ranked, None).queries
    assert asked.bin == "middle" and asked.first_relevant_rank == 2 and asked.relevant_count == 2


def test_a_query_shows_what_came_back_and_what_was_missed() -> None:
    shown = select_report_queries(IDS, make_ranked_table(ANSWERS), beach_tables().qrels)
    by_id = {one.query_id: one for one in shown.queries}
    assert shown.bin_sizes == {"success": 1, "middle": 2, "failure": 2}
    assert [result.item_id for result in by_id["q_2"].results] == ["img_ship", "img_dog"]
    assert [result.item_id for result in by_id["q_3"].missed_relevant] == ["img_dog"] and by_id["q_3"].missed_relevant[
        0
    ].rank is None
    assert by_id["q_5"].results == () and by_id["q_5"].missed_relevant[0].item_id == "img_ship", "never answered"
    assert by_id["q_4"].relevant_count == 2 and [lost.item_id for lost in by_id["q_4"].missed_relevant] == ["img_boat"]
    assert by_id["q_4"].results[0].judgment.relevance == 0 and by_id["q_2"].results[0].judgment.relevance == -1


def test_missed_images_of_the_best_grade_come_first_then_those_that_came_back_late() -> None:
    ranked = make_ranked_table({"a": [(f"img_{n:02}", 0) for n in range(1, 11)] + [("img_late", 1)]})
    judged = [("a", "img_late", 1), ("a", "img_never", 1), ("a", "img_best", 2), ("a", "img_other", 1)]
    qrels = pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"])
    (asked,) = select_report_queries(["a"], ranked, qrels, missed=2).queries
    assert [lost.item_id for lost in asked.missed_relevant] == [
        "img_best",
        "img_late",
    ] and asked.hidden_missed_count == 2
    assert asked.missed_relevant[1].rank == 11 and asked.first_relevant_rank == 11


def test_a_larger_draw_holds_the_smaller_one() -> None:
    names = [f"q_{n:03}" for n in range(300)]
    ranked = answers(dict.fromkeys(names))
    few, many = (
        [one.query_id for one in select_report_queries(names, ranked, None, queries=dict.fromkeys(BINS, n)).queries]
        for n in (5, 20)
    )
    assert many[:5] == few


@settings(max_examples=40)
@given(
    st.dictionaries(st.text(min_size=1, max_size=4), st.sampled_from([1, 2, 5, 6, None]), max_size=12), st.integers()
)
@pytest.mark.thorough
def test_every_query_is_in_one_bin_whatever_the_order_of_rows(rights: dict[str, int | None], seed: int) -> None:
    ranked = answers(rights)
    shown = select_report_queries(list(rights), ranked, None)
    assert sum(shown.bin_sizes.values()) == len(rights)
    mixed = ranked.sample(frac=1, random_state=abs(seed) % 1000)
    assert select_report_queries(list(rights)[::-1], mixed, None).queries_by_bin == shown.queries_by_bin


def test_judgments_in_categories_and_results_without_any_are_read() -> None:
    shown = select_report_queries(["q_1"], make_ranked_table({}), beach_tables().qrels)
    (asked,) = shown.queries
    assert shown.run_depth == 0 and asked.bin == "failure" and asked.missed_relevant[0].item_id == "img_dog"
    assert asked.missed_relevant[0].judgment.relevance == 1


def test_ids_are_named_once_in_the_order_of_the_page() -> None:
    ids = select_report_queries(IDS, make_ranked_table(ANSWERS), beach_tables().qrels).ids
    assert ids[:3] == ["q_1", "img_dog", "img_ship"] and len(ids) == len(set(ids)) == 8


def test_the_most_different_queries_have_both_rows_and_what_both_missed() -> None:
    one = make_ranked_table({"q_4": [("img_dog", 0)], "q_1": [("img_dog", 1)]})
    other = make_ranked_table({"q_4": [("img_ship", 1)]})
    differences = pd.Series({"q_4": -1.0, "q_1": 0.5, "q_2": 0.1})
    found = select_largest_differences(["q_4", "q_1", "q_2"], differences, one, other, beach_tables().qrels, queries=2)
    first, second = found.differences
    assert [pair.one.query_id for pair in found.differences] == ["q_4", "q_1"]
    assert first.better == "other" and second.better == "one"
    assert [lost.item_id for lost in first.missed_by_both] == ["img_boat"], "the other showed the ship"
    assert second.other.results == () and second.missed_by_both == ()
    assert "img_boat" in found.ids and len(found.queries) == 4
