"""Which queries of an evaluation a page shows: three bins, a bounded draw, and what was missed."""

from __future__ import annotations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from review.evaluation.comparison_selection import select_different
from review.evaluation.selection import BINS, bins_of, select_asked
from tests.review.evaluations import ANSWERS, judged_beach, ranked_table

IDS = [f"q_{n}" for n in range(1, 6)]


def answers(first_right: dict[str, int | None]) -> pd.DataFrame:
    """Eight results each, one of them right."""
    return ranked_table(
        {name: [(f"img_{n}", int(n == right)) for n in range(1, 9)] for name, right in first_right.items()}
    )


def test_the_bins_are_by_the_rank_of_the_first_right_picture() -> None:
    ranked = answers({"a": 1, "b": 2, "c": 5, "d": 6, "e": None})
    expected = {"a": "success", "b": "middle", "c": "middle", "d": "failure", "e": "failure", "f": "failure"}
    assert bins_of([*"abcdef"], ranked).to_dict() == expected, "f got no answer at all"


def test_the_best_of_several_right_pictures_counts() -> None:
    ranked = ranked_table({"a": [("img_1", 0), ("img_2", 1), ("img_3", 2)]})
    (asked,) = select_asked(["a"], ranked, None).every
    assert asked.bin == "middle" and asked.first == 2 and asked.right == 2


def test_a_query_shows_what_came_back_and_what_was_missed() -> None:
    shown = select_asked(IDS, ranked_table(ANSWERS), judged_beach().qrels)
    by_id = {one.query_id: one for one in shown.every}
    assert shown.there == {"success": 1, "middle": 2, "failure": 2}
    assert [result.item_id for result in by_id["q_2"].results] == ["img_ship", "img_dog"]
    assert [result.item_id for result in by_id["q_3"].missed] == ["img_dog"] and by_id["q_3"].missed[0].rank is None
    assert by_id["q_5"].results == () and by_id["q_5"].missed[0].item_id == "img_ship", "never answered"
    assert by_id["q_4"].right == 2 and [lost.item_id for lost in by_id["q_4"].missed] == ["img_boat"]
    assert by_id["q_4"].results[0].judged.relevance == 0 and by_id["q_2"].results[0].judged.relevance == -1


def test_missed_pictures_of_the_best_grade_come_first_then_those_that_came_back_late() -> None:
    ranked = ranked_table({"a": [(f"img_{n:02}", 0) for n in range(1, 11)] + [("img_late", 1)]})
    judged = [("a", "img_late", 1), ("a", "img_never", 1), ("a", "img_best", 2), ("a", "img_other", 1)]
    qrels = pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"])
    (asked,) = select_asked(["a"], ranked, qrels, missed=2).every
    assert [lost.item_id for lost in asked.missed] == ["img_best", "img_late"] and asked.further == 2
    assert asked.missed[1].rank == 11 and asked.first == 11


def test_a_large_evaluation_shows_a_set_number_of_queries() -> None:
    names = [f"q_{n:05}" for n in range(10_000)]
    ranked = answers({name: (1, 3, None)[n % 3] for n, name in enumerate(names)})
    shown = select_asked(names, ranked, None, queries={"success": 3, "middle": 4, "failure": 5}, results=6)
    assert [len(shown.asked[name]) for name in BINS] == [3, 4, 5]
    assert sum(shown.there.values()) == 10_000 and shown.listed == 8
    assert all(len(one.results) == 6 for one in shown.every)
    drawn = [one.query_id for one in shown.asked["failure"]]
    assert drawn != sorted(drawn)[:5] and max(drawn) > "q_02000", "by hash, not the first ones"


def test_a_larger_draw_holds_the_smaller_one() -> None:
    names = [f"q_{n:03}" for n in range(300)]
    ranked = answers(dict.fromkeys(names))
    few, many = (
        [one.query_id for one in select_asked(names, ranked, None, queries=dict.fromkeys(BINS, n)).every]
        for n in (5, 20)
    )
    assert many[:5] == few


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=4), st.sampled_from([1, 2, 5, 6, None]), max_size=12), st.integers()
)
def test_every_query_is_in_one_bin_whatever_the_order_of_rows(rights: dict[str, int | None], seed: int) -> None:
    ranked = answers(rights)
    shown = select_asked(list(rights), ranked, None)
    assert sum(shown.there.values()) == len(rights)
    mixed = ranked.sample(frac=1, random_state=abs(seed) % 1000)
    assert select_asked(list(rights)[::-1], mixed, None).asked == shown.asked


def test_judgments_in_categories_and_results_without_any_are_read() -> None:
    shown = select_asked(["q_1"], ranked_table({}), judged_beach().qrels)
    (asked,) = shown.every
    assert shown.listed == 0 and asked.bin == "failure" and asked.missed[0].item_id == "img_dog"
    assert asked.missed[0].judged.relevance == 1


def test_ids_are_named_once_in_the_order_of_the_page() -> None:
    ids = select_asked(IDS, ranked_table(ANSWERS), judged_beach().qrels).ids
    assert ids[:3] == ["q_1", "img_dog", "img_ship"] and len(ids) == len(set(ids)) == 8


def test_the_most_different_queries_have_both_rows_and_what_both_missed() -> None:
    one = ranked_table({"q_4": [("img_dog", 0)], "q_1": [("img_dog", 1)]})
    other = ranked_table({"q_4": [("img_ship", 1)]})
    differences = pd.Series({"q_4": -1.0, "q_1": 0.5, "q_2": 0.1})
    found = select_different(["q_4", "q_1", "q_2"], differences, one, other, judged_beach().qrels, queries=2)
    first, second = found.different
    assert [pair.one.query_id for pair in found.different] == ["q_4", "q_1"]
    assert first.better == "other" and second.better == "one"
    assert [lost.item_id for lost in first.missed] == ["img_boat"], "the other showed the ship"
    assert second.other.results == () and second.missed == ()
    assert "img_boat" in found.ids and len(found.asked) == 4
