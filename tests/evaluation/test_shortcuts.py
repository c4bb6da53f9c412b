"""Shortcuts: what a question of a family returns, beside what its twin without the number or the absence returns."""

import pandas as pd

from querytruth.evaluation.comparison import find_ignored_families, measure_shortcuts
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.ranking import RankedRun, rank_run

IMAGES = [f"img_{n:02}" for n in range(30)]
QUESTIONS = 6
QUERIES = pd.DataFrame(
    [("dog", None, None, ["dog"])]
    + [(f"without_{n}", "negation/without", "dog", ["dog", f"label {n}"]) for n in range(QUESTIONS)],
    columns=["query_id", "family", "twin", "labels"],
)
QRELS = pd.DataFrame(
    [("dog", image, 1) for image in IMAGES]
    + [(f"without_{n}", image, int(image > "img_05")) for n in range(QUESTIONS) for image in IMAGES[:20]],
    columns=["query_id", "image_id", "relevance"],
)


def rank(negations: list[str]) -> RankedRun:
    """All dogs in order, and for each negation these images."""
    shown = {"dog": IMAGES} | {f"without_{n}": negations for n in range(QUESTIONS)}
    rows = [(query, image, -float(place)) for query, images in shown.items() for place, image in enumerate(images)]
    return rank_run(pd.DataFrame(rows, columns=["query_id", "image_id", "score"]), index_qrels(QRELS, IMAGES))


def test_the_same_ten_images_are_a_shortcut_in_any_order() -> None:
    deaf = measure_shortcuts(rank([*IMAGES[9::-1], *IMAGES[10:]]), QUERIES)
    assert deaf.to_numpy().tolist() == [[1.0, 1.0]] * QUESTIONS
    (warning,) = find_ignored_families(deaf, QUERIES)
    assert (warning.code, warning.metric) == ("ignored_family", "negation")
    assert "6 of 6 questions" in warning.detail


def test_some_of_the_wrong_images_that_stay_are_no_shortcut_and_are_measured() -> None:
    half = measure_shortcuts(rank([*IMAGES[:3], *IMAGES[10:]]), QUERIES)
    assert half.to_numpy().tolist() == [[0.0, 0.5]] * QUESTIONS, "three of the six wrong ones are still there"
    assert find_ignored_families(half, QUERIES) == []


def test_a_twin_whose_answer_has_nothing_wrong_shows_nothing() -> None:
    right = QRELS.assign(relevance=1)
    ranked = rank(IMAGES)
    agreeing = rank_run(
        pd.DataFrame({"query_id": ["dog", "without_0"], "image_id": ["img_07"] * 2, "score": [1.0, 1.0]}),
        index_qrels(right, IMAGES),
    )
    assert len(measure_shortcuts(agreeing, QUERIES)) == 0
    assert len(measure_shortcuts(ranked, QUERIES.drop(columns="twin"))) == 0


def test_five_questions_name_a_family_and_four_do_not() -> None:
    deaf = measure_shortcuts(rank(IMAGES), QUERIES)
    assert find_ignored_families(deaf.iloc[:5], QUERIES) and not find_ignored_families(deaf.iloc[:4], QUERIES)
