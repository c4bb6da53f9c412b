"""An image of a duplicate group counts as the one that is in the gallery, once."""

import pandas as pd
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.ground_truth import find_representatives, fold_run, fold_tables, index_qrels
from querytruth.evaluation.ranking import rank_run
from querytruth.sets.benchmark_set import Tables

GROUP = pd.DataFrame(
    {
        "duplicate_group": ["g1", "g1", "g1", "g2", "g2"],
        "image_id": ["large", "small", "cropped", "gone", "copy of gone"],
        "is_representative": [True, False, False, True, False],
    }
)
COPIES = pd.Series({"small": "large", "cropped": "large"})


def run_of(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"])


def test_copies_count_as_the_image_that_is_in_the_gallery() -> None:
    assert find_representatives(GROUP, pd.Series(["large", "other"])).to_dict() == {
        "small": "large",
        "cropped": "large",
    }
    without_the_largest = find_representatives(GROUP, pd.Series(["small", "cropped"]))
    assert without_the_largest.to_dict() == {"large": "cropped", "small": "cropped"}
    assert find_representatives(GROUP.iloc[:0], pd.Series(["large"])).empty


def test_a_run_with_three_copies_has_one_result_at_the_best_rank() -> None:
    run = run_of(
        ("q", "cropped", 0.9), ("q", "other", 0.8), ("q", "large", 0.7), ("q", "small", 0.6), ("r", "small", 1)
    )
    folded, count = fold_run(run.astype({"query_id": "category", "image_id": "category"}), COPIES)
    expected = [["q", "large", 0.9], ["q", "other", 0.8], ["r", "large", 1.0]]
    assert folded.astype({"query_id": "str", "image_id": "str"}).to_numpy().tolist() == expected
    assert count == 3


def test_a_run_without_copies_is_not_touched() -> None:
    run = run_of(("q", "large", 0.9))
    assert fold_run(run, COPIES)[0] is run


def test_an_image_that_a_run_lists_twice_is_still_an_error() -> None:
    truth = index_qrels(pd.DataFrame({"query_id": ["q"], "image_id": ["large"], "relevance": [1]}), ["large"])
    for repeated in ("large", "small"):
        run = run_of(("q", repeated, 0.9), ("q", repeated, 0.8), ("q", "cropped", 0.7))
        with pytest.raises(UserError, match="large is returned twice"):
            rank_run(fold_run(run, COPIES)[0], truth)


def test_of_grades_in_a_group_the_highest_counts() -> None:
    qrels = pd.DataFrame(
        {
            "query_id": ["q", "q", "q", "r"],
            "image_id": ["large", "other", "small", "cropped"],
            "relevance": pd.array([0, 1, 2, 1], dtype="int8"),
            "judged_by": "detector",
            "evidence": ["dog missing", "dog", "dog", "cat"],
        }
    ).astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    images = pd.DataFrame({"image_id": ["cropped", "large", "other", "small"]})
    folded = fold_tables(Tables(pd.DataFrame(), images, qrels), COPIES)
    assert folded.images["image_id"].tolist() == ["large", "other"]
    columns = ["query_id", "image_id", "relevance", "evidence"]
    expected = [["q", "other", 1, "dog"], ["q", "large", 2, "dog"], ["r", "large", 1, "cat"]]
    assert folded.qrels[columns].astype("object").to_numpy().tolist() == expected
    assert folded.qrels["relevance"].dtype == "int8"
