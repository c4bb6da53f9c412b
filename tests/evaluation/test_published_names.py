"""Names of a run that a publisher gave: several of one image count once, several of one query only the first."""

import pandas as pd

from querytruth.evaluation.published_names import NameMatch, rename_ids

MATCH = NameMatch({"a.jpg": "i1", "old/a.jpg": "i1", "line 1": "q1", "line 9": "q1"})


def run(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"]).astype({"query_id": "str", "image_id": "str"})


def rows(table: pd.DataFrame) -> list[tuple[str, str, float]]:
    return [tuple(row) for row in table.astype({"query_id": "str", "image_id": "str"}).to_numpy().tolist()]


def test_an_image_under_two_names_counts_once_at_its_best_score_and_in_every_query() -> None:
    found = rename_ids(run(("q1", "a.jpg", 1.0), ("q1", "old/a.jpg", 2.0), ("q2", "old/a.jpg", 3.0)), "image_id", MATCH)
    assert rows(found) == [("q1", "i1", 2.0), ("q2", "i1", 3.0)]


def test_of_two_names_of_a_query_the_results_of_the_first_count() -> None:
    found = rename_ids(run(("line 9", "x", 5.0), ("line 1", "y", 1.0), ("q2", "x", 2.0)), "query_id", MATCH)
    assert rows(found) == [("q1", "y", 1.0), ("q2", "x", 2.0)]
