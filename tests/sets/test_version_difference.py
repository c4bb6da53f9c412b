"""Two versions side by side: what changed, whether figures compare, and what took what is gone."""

import dataclasses
from collections.abc import Sequence

import pandas as pd
import pytest

from querytruth.records import empty_frame
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.version_difference import VersionDifference, compare_versions, find_losses
from tests.review.recall_sets import qrels_table, queries_table


def tables(judgments: list[tuple[str, str, int, str]], queries: dict[str, str], images: list[str]) -> Tables:
    texts = [{"query_id": q, "text": t, "language": "en", "style": "word", "labels": [t]} for q, t in queries.items()]
    image_rows = empty_frame("images").reindex(range(len(images))).assign(image_id=images, width=1, height=1)
    judges, evidence = (pd.Categorical(column) for column in ([row[3] for row in judgments], ["seen"] * len(judgments)))
    qrels = qrels_table([row[:3] for row in judgments]).assign(judged_by=judges, evidence=evidence)
    return Tables(queries_table(texts), image_rows, qrels)


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


@pytest.mark.parametrize(
    ("folders", "kept", "by_stage", "lost", "reasons"),
    [
        ("xyyy", "", {"f": "a too_small, b blurred, c too_small"}, 4, "2 too small, 1 blurred, 1 not listed; 3 in y/"),
        ("yx", "", {"filter": "a too_small, b blurred"}, 2, "1 blurred, 1 too small; 1 in x/"),
        ("xxx", "c", {"review": "a dropped", "filter": "b blurred"}, 1, "1 blurred; 1 in x/"),
        ("xxx", "abc", {}, 0, ""),
        ("oooo", "", {"filter": "a w, b x, c y, d z"}, 4, "1 w, 1 x, 1 y; 4 in o/"),
        ("x", "", {}, 1, "1 not listed; 1 in x/"),
    ],
    ids=["most frequent first", "in order", "a person's drop is no loss", "none", "three reasons", "not listed"],
)  # fmt: skip
def test_losses_have_their_reasons_and_the_fullest_folder(
    folders: str, kept: str, by_stage: dict[str, str], lost: int, reasons: str
) -> None:
    ledger = [(stage, *row.split()) for stage, rows in by_stage.items() for row in rows.split(", ")]

    assert find_losses(gallery(folders), gallery(folders, kept, ledger)) == ("images", lost, len(folders), reasons)
