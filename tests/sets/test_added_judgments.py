"""A person writes a new row into judgments.csv: a right image that nobody had judged."""

import pandas as pd
import pytest

from querytruth.records import from_arrow, to_arrow
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_application import apply_decisions
from querytruth.sets.judgment_rows import JudgmentAdditions
from querytruth.sets.ledger import Ledger
from querytruth.sets.review_tables import (
    ImportTolerances,
    ReviewImportResult,
    describe_import,
    export_judgments,
    read_filled_table,
)
from tests.review.recall_sets import images_table, qrels_table, queries_table

NAMES = {"img_1": "spring/dog.jpg", "img_2": "summer/dog.jpg", "img_3": "summer/Cat.jpg", "img_4": "小狗.jpg"}


def album() -> Tables:
    """“狗” has one right image of four; the twin of the last one is not in the gallery."""
    images = images_table(["1", "2", "3", "4"]).assign(file_name=list(NAMES.values()))
    twins = pd.DataFrame(
        [("g", "img_4", "小狗.jpg", True), ("g", "img_9", "copies/puppy.jpg", False)],
        columns=["duplicate_group", "image_id", "item", "is_representative"],
    ).assign(width=9, height=9)
    frames = {
        "queries": queries_table([{"query_id": "q_dog", "text": "狗"}, {"query_id": "q_cat", "text": "猫"}]),
        "images": images,
        "qrels": qrels_table([("q_dog", "img_1", 2), ("q_cat", "img_3", 1)]),
        "duplicates": twins,
    }
    return Tables(**{name: from_arrow(to_arrow(name, frame)) for name, frame in frames.items()})


def imported(*rows: dict[str, str], sample: int = 500, **allowed: bool) -> ReviewImportResult:
    """The export with these rows below it; cells that are not given are empty."""
    tables = album()
    export = export_judgments(tables, "album/v1", "d", sample)
    filled = pd.concat([export.rows, pd.DataFrame(rows)], ignore_index=True).fillna("").astype("str")
    filled.index += 3
    additions = JudgmentAdditions(tables)
    return read_filled_table(export, filled, ImportTolerances(**allowed), "lin", "now", additions)


def problem(row: dict[str, str], **allowed: bool) -> str:
    reading = imported(row, **allowed)
    assert reading.decisions == [] and reading.added_count == 0
    (only,) = reading.problems
    return only


@pytest.mark.parametrize(
    "cells",
    [
        {"image_id": "img_2"},
        {"image_id": "summer/dog.jpg"},
        {"image": "summer/dog.jpg"},
        {"image": "Summer\\DOG.JPG"},
        {"image_id": "img_2", "image": "summer/dog.jpg", "text": "狗"},
    ],
)
@pytest.mark.thorough
def test_a_new_row_adds_an_image_by_id_or_by_name(cells: dict[str, str]) -> None:
    reading = imported({"query_id": "q_dog", "decision": "2", "note": "missed", **cells})
    (decision,) = reading.decisions
    assert (decision.target, decision.decision, decision.relevance) == (("q_dog", "img_2"), "grade", 2)
    assert (decision.text, decision.reviewer, decision.note) == ("狗", "lin", "missed")
    assert describe_import(reading) == "1 judgment grade; 1 added"
    after, _ = apply_decisions(album(), reading.decisions, Ledger())
    rows = after.qrels[after.qrels["query_id"] == "q_dog"]
    assert dict(zip(rows["image_id"], rows["relevance"], strict=True)) == {"img_1": 2, "img_2": 2}


def test_the_name_of_a_near_duplicate_adds_the_image_that_stands_for_it() -> None:
    (decision,) = imported({"query_id": "q_dog", "image": "puppy.jpg", "decision": "1"}).decisions
    assert decision.image_id == "img_4"


def test_a_name_of_several_images_is_refused_with_the_candidates() -> None:
    said = problem({"query_id": "q_dog", "image": "dog.jpg", "decision": "1"})
    assert said == (
        "row 5, image: 2 images have the name 'dog.jpg'; give the id: img_1 (spring/dog.jpg), img_2 (summer/dog.jpg)"
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"query_id": "狗", "image_id": "img_2", "decision": "1"}, "query_id: '狗' is not a query of the set"),
        ({"query_id": "q_dog", "image_id": "cow.jpg", "decision": "1"}, "image_id: 'cow.jpg' is not the id or"),
        ({"query_id": "q_dog", "decision": "1"}, "image_id: give the id or the file name of an image"),
        ({"query_id": "q_dog", "image_id": "img_2", "image": "Cat.jpg", "decision": "1"}, "image: it is img_3"),
        ({"query_id": "q_dog", "image_id": "img_2", "text": "猫", "decision": "1"}, "text: the text of q_dog is '狗'"),
        ({"query_id": "q_dog", "image_id": "img_2"}, r"decision: a new row needs a grade \(0, 1, 2\) or drop"),
        ({"query_id": "q_dog", "image_id": "img_2", "decision": "keep"}, "decision: a new row needs a grade"),
        (
            {"query_id": "q_dog", "image_id": "img_2", "decision": "7"},
            "decision: '7' is not one of keep, drop, 0, 1, 2",
        ),
        (
            {"query_id": "q_dog", "image": "spring/dog.jpg", "decision": "1"},
            "has its own row in the export; answer there",
        ),
        ({"query_id": "q_dog", "image_id": "img_2", "decision": "1", "row_digest": "r_1"}, "is not in the export"),
    ],
)
@pytest.mark.thorough
def test_a_new_row_that_cannot_be_meant_is_refused_with_its_number(row: dict[str, str], reason: str) -> None:
    assert pd.Series([problem(row)]).str.contains(f"^row 5, .*{reason}").all()


def test_rows_about_nothing_of_the_set_can_be_ignored_and_a_good_one_is_taken_beside_them() -> None:
    total, good = (
        {"query_id": "total", "note": "2 rows"},
        {"query_id": "q_cat", "image_id": "img_1", "decision": "drop"},
    )
    reading = imported(total, good, unknown=True)
    assert [d.target for d in reading.decisions] == [("q_cat", "img_1")] and reading.added_count == 1


def test_one_pair_added_twice_is_refused() -> None:
    row = {"query_id": "q_dog", "image_id": "img_2", "decision": "1"}
    assert imported(row, row).problems == ["row 6, query_id: 'q_dog img_2' occurs twice"]
    assert imported(row, row, doubled=True).added_count == 1
    other = {**row, "image_id": "summer/dog.jpg", "decision": "2"}
    assert imported(row, other, doubled=True).problems == ["row 6, query_id: 'q_dog img_2' occurs twice, not the same"]


def test_a_judged_pair_that_the_sample_left_out_is_judged_again_and_not_added() -> None:
    reading = imported({"query_id": "q_dog", "image_id": "img_1", "decision": "1"}, sample=0)
    assert len(reading.decisions) == 1 and reading.added_count == 0


def test_tables_that_no_row_can_be_added_to_refuse_it_as_before() -> None:
    tables = album()
    export = export_judgments(tables, "album/v1", "d", 0)
    filled = pd.DataFrame([{"query_id": "q_dog", "image_id": "img_2", "decision": "1"}], index=[3])
    filled = filled.reindex(columns=export.rows.columns, fill_value="")
    assert "is not in the export" in read_filled_table(export, filled, ImportTolerances()).problems[0]
