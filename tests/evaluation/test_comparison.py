"""Systems side by side, reasons to distrust a figure, and shortcuts that questions of a family show."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.comparison import (
    EvaluationWarning,
    compare_systems,
    count_wins_ties_losses,
    find_ignored_families,
    find_most_different_queries,
    find_warnings,
    measure_shortcuts,
)
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.ranking import RankedRun, rank_run
from querytruth.evaluation.statistics import estimate_interval, find_p_of_difference


def figures(values: object, name: str = "hit@1") -> pd.DataFrame:
    column = np.asarray(values, dtype=float)
    return pd.DataFrame({name: column}, index=pd.Index([f"q{n:03}" for n in range(len(column))], name="query_id"))


def test_two_systems() -> None:
    good, bad = figures([1] * 30 + [0] * 12 + [1] * 50), figures([0] * 30 + [1] * 12 + [1] * 50)
    row = compare_systems({"good": good, "bad": bad}, ["hit@1"]).iloc[0]
    assert (row["wins"], row["ties"], row["losses"]) == (30, 50, 12)
    assert row["difference"] == pytest.approx(18 / 92)
    assert row["low"] < row["difference"] < row["high"]
    assert row["p"] == row["p_holm"] < 0.02
    assert 0 < row["detectable"] < 1


def test_all_pairs_are_corrected_together_metric_by_metric() -> None:
    rng = np.random.default_rng(1)
    systems = {
        name: figures(rng.random(40) + better).join(figures(rng.random(40), "rr"))
        for name, better in (("a", 0), ("b", 0.3), ("c", 0.6))
    }
    table = compare_systems(systems, ["hit@1", "rr"])
    assert table[["metric", "one", "other"]].to_numpy().tolist() == [
        [metric, one, other] for metric in ("hit@1", "rr") for one, other in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    first = table[table["metric"] == "hit@1"]
    assert first["p_holm"].min() == pytest.approx(3 * first["p"].min())
    assert table["p"].iloc[0] == find_p_of_difference(
        systems["a"]["hit@1"].to_numpy(), systems["b"]["hit@1"].to_numpy()
    )


def test_systems_of_different_queries_are_refused() -> None:
    with pytest.raises(UserError, match=r"b .*has figures for other queries than a"):
        compare_systems({"a": figures([1, 0]), "b": figures([1, 0, 1])}, ["hit@1"])


def test_wins_are_more_than_a_rounding_error() -> None:
    assert count_wins_ties_losses(np.array([0.1, 1e-12, -1e-12, 0, -0.2])) == {"wins": 1, "ties": 3, "losses": 1}


def test_the_queries_that_differ_most() -> None:
    differences = pd.Series([0.1, -0.9, 0.0, 0.9, 0.5], index=["q4", "q3", "q2", "q1", "q0"])
    assert find_most_different_queries(differences, 3) == ["q1", "q3", "q0"]
    assert find_most_different_queries(differences, 9) == ["q1", "q3", "q0", "q4"]


def codes(values: object, chance: float = 0.0) -> set[str]:
    return {warning.code for warning in warnings_of(values, {"hit@1": chance})}


def warnings_of(values: object, chance: dict[str, float], clusters: Any = None) -> list[EvaluationWarning]:
    interval = estimate_interval(figures(values).to_numpy(), clusters=clusters)
    return find_warnings(figures(values), ["hit@1"], chance, interval, clusters=clusters)


def test_warnings() -> None:
    middling = [1, 0] * 50
    assert codes(middling, 0.01) == set()
    assert codes([1] * 95 + [0] * 5, 0.01) == {"saturated"}
    assert codes([0] * 95 + [1] * 5, 0.001) == {"floor"}
    assert codes(middling, 0.45) == {"like_chance"}
    assert codes([1, 0] * 9, 0.01) == {"few_queries"}
    alike = warnings_of(middling, {}, np.repeat(["fruit", "cars"], 50))
    assert [(one.code, one.detail.partition(":")[0]) for one in alike] == [
        ("few_queries", "2 topics or images, not 100 queries, count")
    ]
    assert "95% of the queries" in warnings_of([1] * 95 + [0] * 5, {})[0].detail


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
