"""Two versions side by side: exactly what changed, and whether figures compare."""

import dataclasses

import pandas as pd

from querytruth.records import categorical_from_codes, empty_frame
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.version_difference import VersionDifference, compare_versions


def tables(judgments: list[tuple[str, str, int, str]], queries: dict[str, str], images: list[str]) -> Tables:
    rows = pd.DataFrame(
        [
            {"query_id": q, "text": t, "language": "en", "style": "word", "level": 1, "labels": [t]}
            for q, t in queries.items()
        ]
    )
    image_rows = empty_frame("images").reindex(range(len(images))).assign(image_id=images, width=1, height=1)
    judged = pd.DataFrame(judgments, columns=["query_id", "image_id", "relevance", "judged_by"])
    columns = {c: judged[c].astype("str").astype("category") for c in ("query_id", "image_id", "judged_by")}
    evidence = categorical_from_codes(["seen"], [0] * len(judged))
    return Tables(rows, image_rows, judged.assign(**columns, evidence=evidence))


BEFORE = tables(
    [
        ("q1", "a", 1, "detector"),
        ("q1", "b", 2, "detector"),
        ("q2", "a", 1, "detector"),
        ("q2", "b", 0, "rule"),
    ],
    {"q1": "dog", "q2": "cat"},
    ["a", "b"],
)


def test_nothing_changed() -> None:
    found = compare_versions(BEFORE, BEFORE)
    assert found.is_empty and VersionDifference().is_empty
    assert "comparable" in found.comparability


def test_each_kind_of_judgment_change_is_listed_once() -> None:
    after = tables(
        [("q1", "a", 2, "human"), ("q1", "b", 2, "detector"), ("q2", "b", 0, "human")],
        {"q1": "dog", "q2": "cat"},
        ["a", "b"],
    )
    found = compare_versions(BEFORE, after)
    assert found.judgments_changed == [
        {"query_id": "q1", "image_id": "a", "relevance": (1, 2), "judged_by": ("detector", "human")}
    ]
    assert found.judgments_confirmed == [
        {"query_id": "q2", "image_id": "b", "relevance": (0, 0), "judged_by": ("rule", "human")}
    ]
    assert found.judgments_removed == [{"query_id": "q2", "image_id": "a", "relevance": 1, "judged_by": "detector"}]
    assert not found.judgments_added and not found.queries_changed
    assert found.comparability.startswith("judgments differ")


def test_a_dropped_query_takes_its_judgments_with_it_uncounted() -> None:
    after = tables([("q1", "a", 1, "detector"), ("q1", "b", 2, "detector")], {"q1": "dog"}, ["a", "b"])
    found = compare_versions(BEFORE, after)
    assert [row["query_id"] for row in found.queries_removed] == ["q2"]
    assert not found.judgments_removed
    assert found.judgments_with_them == 2
    assert found.comparability.startswith("the queries differ")


def test_a_new_text_and_a_new_image_are_told() -> None:
    after = tables(
        [
            *[(r.query_id, r.image_id, r.relevance, r.judged_by) for r in BEFORE.qrels.itertuples()],
            ("q1", "c", 1, "detector"),
        ],
        {"q1": "puppy", "q2": "cat"},
        ["a", "b", "c"],
    )
    found = compare_versions(BEFORE, after)
    assert found.queries_changed == [{"query_id": "q1", "text": ("dog", "puppy"), "labels": (["dog"], ["puppy"])}]
    assert found.images_added == ["c"]
    assert found.judgments_with_them == 1
    assert found.comparability.startswith("the galleries differ")
    back = compare_versions(after, BEFORE)
    assert back.images_removed == ["c"]
    assert dataclasses.asdict(back)["queries_changed"][0]["text"] == ("puppy", "dog")
