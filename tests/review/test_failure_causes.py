"""Likely causes of failures: each from the set's tables, none where these say nothing."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from querytruth.records import DUPLICATES_SCHEMA
from querytruth.review.failure_causes import (
    FailureCause,
    collect_failure_context,
    compute_text_similarity,
    find_failure_causes,
    find_hub_images,
)
from querytruth.review.query_selection import select_report_queries
from querytruth.sets.benchmark_set import Tables
from tests.review.evaluation_results import beach_tables, make_ranked_table
from tests.review.recall_sets import images_table, make_candidate_judgments, qrels_table, queries_table


def causes(
    tables: Tables | None, answers: dict[str, list[tuple[str, int]]], query_id: str, **more: Any
) -> list[FailureCause]:
    ranked = make_ranked_table(answers)
    if "score" in more:
        ranked["score"] = more["score"]
    shown = select_report_queries([query_id], ranked, None if tables is None else tables.qrels)
    return find_failure_causes(shown.queries[0], collect_failure_context(shown.queries, ranked, tables))


def codes(found: list[FailureCause]) -> list[str]:
    return [cause.code for cause in found]


def photos(**columns: list[Any]) -> pd.DataFrame:
    images = images_table(["a", "b", "c"])
    for name, values in columns.items():
        images[name] = values
    return images


def plain(images: pd.DataFrame | None = None, **changes: Any) -> Tables:
    """One query for image a, judged not to fit b."""
    asked = queries_table([{"query_id": "q", "text": "一只小船在湖上", "source_image_id": "img_a"}])
    truth = qrels_table([("q", "img_a", 1), ("q", "img_b", 0)])
    base = Tables(asked, photos() if images is None else images, truth)
    return replace(base, **changes)


WRONG = {"q": [("img_b", 0), ("img_a", 1)]}


def test_a_success_needs_no_cause() -> None:
    assert causes(plain(), {"q": [("img_a", 1), ("img_b", 0)]}, "q") == []


def test_where_the_tables_say_nothing_the_system_is_wrong() -> None:
    (cause,) = causes(plain(), WRONG, "q")
    assert cause.code == "none_found" and "the system is wrong" in cause.description


def test_nothing_came_back() -> None:
    assert codes(causes(plain(), {}, "q")) == ["nothing_came_back"]


def test_an_image_of_the_same_duplicate_group_should_be_right_too() -> None:
    images = photos(duplicate_group=["dup_1", "dup_1", None])
    assert codes(causes(plain(images), WRONG, "q")) == ["near_duplicate"]
    (cause,) = causes(plain(images), WRONG, "q")
    assert cause.ranks == (1,)
    apart = photos(duplicate_group=["dup_1", "dup_2", None])
    assert codes(causes(plain(apart), WRONG, "q")) == ["none_found"]


def test_an_image_of_the_same_bytes_should_be_right_too() -> None:
    assert codes(causes(plain(photos(sha256=["aa", "aa", "bb"])), WRONG, "q")) == ["near_duplicate"]


def test_a_duplicate_that_only_the_table_of_duplicates_knows() -> None:
    rows = [("dup_1", name, name, 9, 9, name == "img_a", None, None, None) for name in ("img_a", "img_b")]
    duplicates = pd.DataFrame(rows, columns=DUPLICATES_SCHEMA.names)
    assert codes(causes(plain(duplicates=duplicates), WRONG, "q")) == ["near_duplicate"]


@pytest.mark.parametrize(
    ("taken_at", "latitude", "twin"),
    [
        ("2024-05-01T10:00:30", 31.2001, True),
        ("2024-05-01T10:02:00", 31.2001, False),
        ("2024-05-01T10:00:30", 31.3, False),
        ("2024-05-01T10:00:30+08:00", 31.2001, False),
        ("2024-02-31T10:00:00", 31.2001, False),
    ],
)
def test_two_shots_of_one_moment(taken_at: str, latitude: float, twin: bool) -> None:
    images = photos(
        taken_at=["2024-05-01T10:00:00", taken_at, None],
        latitude=[31.2, latitude, None],
        longitude=[121.4, 121.4, None],
    )
    assert ("same_moment" in codes(causes(plain(images), WRONG, "q"))) == twin


def test_a_pair_that_the_set_itself_suspects_makes_the_query_ambiguous() -> None:
    set_ = plain(candidate_judgments=make_candidate_judgments(("q", "img_c", 0.9)))
    (cause,) = causes(set_, {"q": [("img_c", -1), ("img_a", 1)]}, "q")
    assert cause.code == "ambiguous_query" and cause.ranks == (1,) and "captions alike" in cause.description


def labelled() -> Tables:
    """Images a of a dog and a car, b of a dog alone, c of a cat."""
    rows = [("q_dog", ["Dog"]), ("q_car", ["Car"]), ("q_cat", ["Cat"]), ("q_two", ["Dog", "Car"])]
    asked = queries_table([{"query_id": name, "text": name, "labels": labels} for name, labels in rows])
    truth = [("q_dog", "img_a", 2), ("q_dog", "img_b", 2), ("q_car", "img_a", 1), ("q_cat", "img_c", 2)]
    return Tables(asked, photos(), qrels_table(sorted([*truth, ("q_two", "img_a", 2), ("q_two", "img_b", 0)])))


def test_all_labels_but_one_are_there() -> None:
    (cause,) = causes(labelled(), {"q_two": [("img_b", 0), ("img_a", 2)]}, "q_two")
    assert cause.code == "all_but_one_label" and "Car is missing" in cause.description and cause.ranks == (1,)


def test_evidence_stands_in_for_labels_that_no_query_asks_for_alone() -> None:
    set_ = labelled()
    alone = set_.queries[set_.queries["query_id"] == "q_two"]
    truth = set_.qrels.assign(evidence=["car missing" if grade == 0 else None for grade in set_.qrels["relevance"]])
    (cause,) = causes(replace(set_, queries=alone, qrels=truth), {"q_two": [("img_b", 0), ("img_a", 2)]}, "q_two")
    assert cause.code == "all_but_one_label" and "car missing" in cause.description


def test_an_image_that_other_queries_know_to_show_something_else() -> None:
    (cause,) = causes(labelled(), {"q_dog": [("img_c", -1), ("img_a", 2)]}, "q_dog")
    assert cause.code == "other_labels" and "rank 1 has Cat" in cause.description


def test_the_same_words_ask_for_another_image() -> None:
    set_ = plain()
    twin = {"query_id": "q_2", "text": "一只小船在湖上。", "source_image_id": "img_b"}
    asked = queries_table([{"query_id": "q", "text": "一只小船在湖上", "source_image_id": "img_a"}, twin])
    truth = qrels_table([("q", "img_a", 1), ("q", "img_b", 0), ("q_2", "img_b", 1)])
    (cause,) = causes(replace(set_, queries=asked, qrels=truth), WRONG, "q")
    assert cause.code == "ambiguous_words" and cause.description.endswith("一只小船在湖上。")
    far = asked.assign(text=["一只小船在湖上", "三辆红色的公交车"])
    assert codes(causes(replace(set_, queries=far, qrels=truth), WRONG, "q")) == ["none_found"]


def test_a_query_that_was_judged_not_to_fit_does_not_speak_for_an_image() -> None:
    asked = queries_table([{"query_id": name, "text": "一只小船在湖上"} for name in ("q", "q_2")])
    truth = qrels_table([("q", "img_a", 1), ("q", "img_b", 0), ("q_2", "img_a", 1), ("q_2", "img_b", 0)])
    assert codes(causes(plain(queries=asked, qrels=truth), WRONG, "q")) == ["none_found"]


def test_queries_for_labels_are_made_alike_which_is_no_reason() -> None:
    set_ = labelled()
    alike = replace(set_, queries=set_.queries.assign(text="一张图片"))
    assert codes(causes(alike, {"q_dog": [("img_c", -1), ("img_a", 2)]}, "q_dog")) == ["other_labels"]


def test_a_query_for_two_labels_does_not_say_which_of_them_an_image_shows() -> None:
    set_ = labelled()
    truth = qrels_table([("q_car", "img_a", 1), ("q_dog", "img_a", 2), ("q_two", "img_c", 1)])
    found = causes(replace(set_, qrels=truth), {"q_dog": [("img_c", -1), ("img_a", 2)]}, "q_dog")
    assert codes(found) == ["unjudged"], "nothing is known of what the third image shows"


def test_texts_that_came_back_are_compared_with_the_right_ones() -> None:
    """Image to text: a query is an image, what came back is a text."""
    texts = [("t_1", "Two dogs on the beach"), ("t_2", "Two dogs at the beach")]
    asked = queries_table([{"query_id": name, "text": text} for name, text in texts])
    truth = qrels_table([("img_a", "t_1", 1), ("img_b", "t_2", 1)])
    set_ = Tables(asked, photos(), truth)
    found = causes(set_, {"img_a": [("t_2", -1), ("t_1", 1)]}, "img_a")
    assert codes(found) == ["ambiguous_words"] and found[0].description.endswith("Two dogs at the beach")


def test_equal_scores_are_ordered_by_ids_alone() -> None:
    assert codes(causes(plain(), WRONG, "q", score=0.5)) == ["tied"]


def test_an_image_that_comes_back_for_everything() -> None:
    asked = [f"q_{n}" for n in range(40)]
    ranked = make_ranked_table({name: [("img_hub", 0), (f"img_{n}", 0)] for n, name in enumerate(asked)})
    assert find_hub_images(ranked, 41) == {"img_hub": 40}
    assert find_hub_images(ranked.assign(relevance=1), 41) == {}, "right for all of them"
    assert find_hub_images(ranked, 2) == {}, "in a gallery of two that is chance"
    answers = {**{name: [("img_b", 0), (f"img_x{n}", 0)] for n, name in enumerate(asked)}, **WRONG}
    (cause,) = causes(plain(), answers, "q")
    assert cause.code == "comes_for_everything" and "of 41 queries" in cause.description


def test_unjudged_results_before_the_first_right_one() -> None:
    (cause,) = causes(plain(), {"q": [("img_c", -1), ("img_a", 1), ("img_b", 0)]}, "q")
    assert cause == FailureCause("unjudged", "Never judged: does it fit?", (1,))


def test_few_judged_results_are_counted() -> None:
    (cause,) = causes(plain(), {"q": [("img_c", -1), ("img_d", -1), ("img_e", -1), ("img_a", 1)]}, "q")
    assert cause.code == "few_judged" and "only 1 of the first 4" in cause.description and cause.ranks == (1, 2, 3)


def test_a_set_that_judges_only_right_images_says_unjudged_where_nothing_else_is_known() -> None:
    set_ = plain()
    only = replace(set_, qrels=set_.qrels[set_.qrels["relevance"] > 0])
    answers = {"q": [("img_c", -1), ("img_a", 1)]}
    (cause,) = causes(only, answers, "q")
    assert cause.code == "unjudged" and "relevant images only" in cause.description
    twins = replace(only, images=photos(duplicate_group=["dup_1", None, "dup_1"]))
    assert codes(causes(twins, answers, "q")) == ["near_duplicate"]


def test_only_results_before_the_first_right_one_are_looked_at() -> None:
    images = photos(duplicate_group=["dup_1", None, "dup_1"])
    assert codes(causes(plain(images), {"q": [("img_b", 0), ("img_a", 1), ("img_c", -1)]}, "q")) == ["none_found"]


def test_without_a_set_ties_and_unjudged_results_are_seen() -> None:
    assert codes(causes(None, {"q": [("img_c", -1), ("img_a", 1)]}, "q")) == ["unjudged"]
    assert codes(causes(None, WRONG, "q")) == ["none_found"]


def test_the_order_of_the_tables_does_not_matter() -> None:
    set_ = beach_tables()
    answers = {"q_3": [("img_ship", -1), ("img_boat", -1)]}
    mixed = replace(set_, qrels=set_.qrels.iloc[::-1], queries=set_.queries.iloc[::-1], images=set_.images.iloc[::-1])
    assert causes(set_, answers, "q_3") == causes(mixed, answers, "q_3")


def test_likeness() -> None:
    assert (
        compute_text_similarity("A dog", "a  DOG") == 1
        and compute_text_similarity("猫", "狗") == 0
        and compute_text_similarity("", "") == 0
    )
    assert compute_text_similarity("abc", "abd") == pytest.approx(0.5)
