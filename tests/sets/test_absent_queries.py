"""Own queries without an answer: judged as deep as a pool, and nothing is right."""

import pandas as pd

from querytruth.sets.absent_queries import ABSENT_DEPTH, list_absent


def judge(query: str, *grades: int) -> list[tuple[str, str, int]]:
    return [(query, f"i{number}", grade) for number, grade in enumerate(grades)]


def find(queries: pd.DataFrame, *judged: tuple[str, str, int], gallery: int = 100) -> list[str]:
    return list_absent(queries, pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"]), gallery)


OWN = pd.DataFrame({"query_id": ["deep", "right", "shallow", "new"], "stratum": ["head", "torso", "tail", "tail"]})


def test_ten_wrong_images_and_no_right_one_mean_that_there_is_none() -> None:
    judged = [
        *judge("deep", *[0] * ABSENT_DEPTH),
        *judge("right", *[0] * ABSENT_DEPTH, 1),
        *judge("shallow", *[0] * (ABSENT_DEPTH - 1)),
    ]
    assert find(OWN, *judged) == ["deep"]


def test_a_small_gallery_is_judged_whole() -> None:
    assert find(OWN, *judge("shallow", 0, 0, 0), gallery=3) == ["shallow"]
    assert find(OWN, *judge("shallow", 0, 0), gallery=3) == []


def test_a_query_that_was_written_of_an_image_is_never_absent() -> None:
    written = pd.DataFrame({"query_id": ["deep", "other"], "stratum": [None, "head"]})
    assert find(written, *judge("deep", *[0] * ABSENT_DEPTH)) == []
    assert find(written[["query_id"]], *judge("deep", *[0] * ABSENT_DEPTH)) == []
