"""What is handed out for review: every query with its best images, and a sample of judgments that holds still."""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from querytruth.records import categorical_from_codes, from_arrow, to_arrow
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_application import apply_decisions
from querytruth.sets.judgment_rows import JudgmentAdditions
from querytruth.sets.ledger import Ledger
from querytruth.sets.review_tables import (
    ANSWER_COLUMNS,
    DIGEST_COLUMN,
    JUDGMENT_EXPORT_COLUMNS,
    QUERY_EXPORT_COLUMNS,
    ImportTolerances,
    ReviewExport,
    ReviewImportResult,
    count_decisions,
    describe_import,
    export_judgments,
    export_queries,
    read_filled_table,
)
from tests.review.recall_sets import images_table, qrels_table, queries_table, typed_tables

Judged = dict[tuple[str, str], int]


def world(judged: Judged, queries: int = 0) -> Tables:
    """Queries and images as the judgments name them, and some queries more that have none."""
    ids = sorted({query for query, _ in judged} | {f"q_{n:04}" for n in range(queries)})
    texts = [{"query_id": i, "text": f"text {i}", "style": "word", "labels": [i[2:], "b"]} for i in ids]
    names = sorted({image for _, image in judged})
    images = images_table([name.removeprefix("img_") for name in names]).assign(file_name=[f"{n}.jpg" for n in names])
    qrels = qrels_table([(*pair, judged[pair]) for pair in sorted(judged)], "rule").assign(evidence="why")
    return typed_tables(queries=queries_table(texts), images=images, qrels=qrels)


def pairs(export: ReviewExport) -> set[tuple[str, str]]:
    return set(zip(export.rows["query_id"], export.rows["image_id"], strict=True))


def drawn(judged: Judged, sample: int) -> set[tuple[str, str]]:
    return pairs(export_judgments(world(judged), "pets/v1", "d1", sample))


def random_world(rng: np.random.Generator, queries: int = 60) -> Judged:
    """Most queries have a few images, some have hundreds."""
    return {
        (f"q_{q:04}", f"img_{i:04}"): int(rng.integers(0, 3))
        for q in range(queries)
        for i in rng.choice(400, size=300 if q % 20 == 0 else int(rng.integers(1, 6)), replace=False)
    }


def test_a_query_shows_its_counts_and_its_best_images_first() -> None:
    judged = {("q_a", "img_1"): 1, ("q_a", "img_2"): 0, ("q_a", "img_3"): 2, ("q_a", "img_4"): 1, ("q_a", "img_5"): 1,
              ("q_b", "img_1"): 0}  # fmt: skip
    export = export_queries(world(judged, queries=1), "pets/v1", "d1")
    assert list(export.rows.columns) == [*QUERY_EXPORT_COLUMNS, *ANSWER_COLUMNS, DIGEST_COLUMN]
    shown = {row["query_id"]: row for row in export.rows.to_dict("records")}
    assert [shown["q_a"][c] for c in ("relevant", "not_relevant", "labels")] == ["4", "1", "a & b"]
    assert shown["q_a"]["examples"] == "img_3.jpg img_1.jpg img_4.jpg"
    assert [shown["q_b"][c] for c in ("relevant", "not_relevant", "examples")] == ["0", "1", ""]
    assert [shown["q_0000"][c] for c in ("relevant", "not_relevant", "examples")] == ["0", "0", ""]


def test_a_set_without_judgments_is_handed_out_too() -> None:
    tables = world({("q_a", "img_1"): 1}, queries=2)
    tables = Tables(tables.queries, tables.images, tables.qrels[:0])
    assert len(export_queries(tables, "pets/v1", "d1").rows) == 3
    assert export_judgments(tables, "pets/v1", "d1", 5).rows.empty


def test_a_judgment_shows_what_is_judged_and_by_whom() -> None:
    export = export_judgments(world({("q_a", "img_1"): 2}), "pets/v1", "d1", 10)
    assert list(export.rows.columns) == [*JUDGMENT_EXPORT_COLUMNS, "decision", "note", DIGEST_COLUMN]
    assert export.rows.iloc[0, :7].tolist() == ["q_a", "img_1", "text q_a", "2", "rule", "why", "img_1.jpg"]


def test_an_export_is_named_by_all_it_depends_on() -> None:
    tables = world({("q_a", "img_1"): 2})
    exports = [
        export_queries(tables, name, digest) for name, digest in (("a/v1", "d1"), ("a/v2", "d1"), ("a/v1", "d2"))
    ]
    exports += [export_judgments(tables, "a/v1", "d1", sample) for sample in (1, 2)]
    assert len({export.export_id for export in exports}) == 5
    assert export_queries(tables, "a/v1", "d1").rows.equals(exports[0].rows)
    assert not set(exports[0].rows[DIGEST_COLUMN]) & set(exports[1].rows[DIGEST_COLUMN])


@pytest.mark.parametrize("sample", [0, 1, 7, 60, 100, 500, 5000])
def test_a_sample_has_the_size_asked_for(sample: int) -> None:
    judged = random_world(np.random.default_rng(1))
    found = drawn(judged, sample)
    assert len(found) == min(sample, len(judged)) and found <= set(judged)


@pytest.mark.parametrize("sample", [10, 60, 150])
def test_a_sample_is_spread_over_queries(sample: int) -> None:
    """However many images a query has, none has a second turn before each has had one."""
    judged = random_world(np.random.default_rng(2))
    sizes = pd.Series([query for query, _ in judged]).value_counts()
    taken = pd.Series([query for query, _ in drawn(judged, sample)]).value_counts().reindex(sizes.index, fill_value=0)
    assert taken.max() <= 1 or (taken[taken < taken.max() - 1] == sizes[taken < taken.max() - 1]).all()
    assert (taken > 0).sum() == min(sample, len(sizes))


def test_a_sample_grows_by_adding() -> None:
    judged = random_world(np.random.default_rng(3))
    samples = [drawn(judged, sample) for sample in (5, 40, 60, 61, 200, 900)]
    assert all(small < large for small, large in itertools.pairwise(samples))


@pytest.mark.parametrize("sample", [20, 60, 200])
@pytest.mark.thorough
def test_a_sample_holds_still_when_other_judgments_come_and_go(sample: int) -> None:
    judged = random_world(np.random.default_rng(4))
    before = drawn(judged, sample)
    others = {query for query, _ in judged} - {query for query, _ in before} or {"q_0000"}
    fewer = {pair: grade for pair, grade in judged.items() if pair in before or pair[0] not in others}
    assert drawn(fewer, sample) == before, "queries that were not drawn went"
    unseen = {pair: grade for pair, grade in judged.items() if pair in before}
    assert drawn(unseen, sample) == before, "all that was not drawn went"
    regraded = {pair: 2 - grade for pair, grade in judged.items()}
    assert drawn(regraded, sample) == before, "grades changed"
    one_more = judged | {(min(query for query, _ in before), "img_9999"): 1}
    assert len(drawn(one_more, sample) ^ before) <= 2, "one judgment came"
    one_less = {pair: grade for pair, grade in judged.items() if pair != min(before)}
    assert len(drawn(one_less, sample) ^ before) <= 3, "one judgment that was drawn went"


def test_a_sample_does_not_depend_on_the_order_of_rows_or_categories() -> None:
    tables = world(random_world(np.random.default_rng(5)))
    shuffled = tables.qrels.sample(frac=1, random_state=7).reset_index(drop=True)
    shuffled["query_id"] = shuffled["query_id"].cat.reorder_categories(
        sorted(shuffled["query_id"].cat.categories, reverse=True)
    )
    shuffled["image_id"] = shuffled["image_id"].cat.add_categories(["img_unused"])
    again = Tables(tables.queries, tables.images, shuffled)
    assert pairs(export_judgments(again, "a/v1", "d", 99)) == pairs(export_judgments(tables, "a/v1", "d", 99))


def test_a_binary_set_takes_no_grade_that_it_does_not_know() -> None:
    export = export_judgments(world({("q_a", "img_1"): 1}), "pets/v1", "d1", 10, grades=(0, 1))
    filled = export.rows.assign(decision="2").set_axis([3])
    assert read_filled_table(export, filled, ImportTolerances()).problems == [
        "row 3, decision: '2' is not one of keep, drop, 0, 1"
    ]
    assert read_filled_table(export, filled.assign(decision="1"), ImportTolerances()).decisions[0].relevance == 1


def test_what_a_row_decides_carries_what_the_person_saw() -> None:
    export = export_judgments(world({("q_a", "img_1"): 2}), "pets/v1", "d1", 10)
    filled = export.rows.assign(decision="keep", note=" sure ").set_axis([3])
    (decision,) = read_filled_table(export, filled, ImportTolerances(), "lin", "2026-01-01").decisions
    expected = (("q_a", "img_1"), "text q_a", "keep", 2)
    assert (decision.target, decision.text, decision.decision, decision.relevance) == expected
    assert (decision.note, decision.reviewer, decision.at) == ("sure", "lin", "2026-01-01")
    assert (decision.view, decision.source) == ("csv", export.export_id)
    assert count_decisions([decision, decision]) == {"judgment keep": 2}


def suspicious() -> Tables:
    """Two judged pairs; three that may be right, of which one is judged by now and one names a query that went."""
    tables = world({("q_a", "img_1"): 1, ("q_a", "img_2"): 0, ("q_b", "img_3"): 1})
    rows = [("q_b", "img_1", 0.6), ("q_a", "img_2", 0.9), ("q_a", "img_3", 0.8), ("q_gone", "img_1", 0.7)]
    frame = pd.DataFrame(rows, columns=["query_id", "image_id", "score"]).assign(evidence="三只狗")
    frame = frame.astype({"score": "float32"})
    return replace(tables, candidate_judgments=from_arrow(to_arrow("candidate_judgments", frame)))


def test_pairs_that_wait_for_a_judgment_are_handed_out_first_however_small_the_sample() -> None:
    for sample in (0, 1, 9):
        export = export_judgments(suspicious(), "pets/v1", "d1", sample)
        waiting = export.rows.iloc[:2]
        assert list(zip(waiting["query_id"], waiting["image_id"], strict=True)) == [("q_a", "img_3"), ("q_b", "img_1")]
        assert len(export.rows) == 2 + min(sample, 3) and "" not in set(export.rows["relevance"][2:])
    row = waiting.iloc[0]
    assert row[JUDGMENT_EXPORT_COLUMNS].tolist() == ["q_a", "img_3", "text q_a", "", "", "三只狗", "img_3.jpg"]


@pytest.mark.parametrize(("answer", "relevance"), [("keep", 1), ("drop", 0), ("2", 2)])
def test_an_answer_to_a_waiting_pair_is_in_the_next_version_and_waits_no_more(answer: str, relevance: int) -> None:
    tables = suspicious()
    export = export_judgments(tables, "pets/v1", "d1", 0)
    filled = export.rows.assign(decision=[answer, ""]).set_axis([3, 4])
    reading = read_filled_table(export, filled, ImportTolerances(), "lin", "2026-01-01")
    after, _ = apply_decisions(tables, reading.decisions, Ledger())
    row = after.qrels[(after.qrels["query_id"] == "q_a") & (after.qrels["image_id"] == "img_3")].iloc[0]
    assert (row["relevance"], row["judged_by"]) == (relevance, "human")
    assert pairs(export_judgments(after, "pets/v2", "d2", 0)) == {("q_b", "img_1")}


def test_queries_without_labels_are_handed_out_too() -> None:
    tables = world({("q_a", "img_1"): 1})
    captions = replace(tables, queries=from_arrow(to_arrow("queries", tables.queries.assign(labels=None))))
    assert export_queries(captions, "beach/v1", "d1").rows["labels"].tolist() == [""]


@pytest.mark.slow
def test_eleven_million_judgments_are_handed_out_in_the_time_of_sorting_them() -> None:
    rng, many = np.random.default_rng(0), 11_000_000
    queries, images = [f"q_{n}" for n in range(60_000)], [f"img_{n}" for n in range(40_000)]
    tables = world({}, queries=1)
    qrels = pd.DataFrame(
        {
            "query_id": categorical_from_codes(queries, np.sort(rng.integers(0, len(queries), many)).astype("int32")),
            "image_id": categorical_from_codes(images, rng.integers(0, len(images), many).astype("int32")),
            "relevance": rng.integers(0, 3, many).astype("int8"),
            "judged_by": categorical_from_codes(["rule"], np.zeros(many, dtype="int8")),
            "evidence": categorical_from_codes([], np.full(many, -1, dtype="int8")),
        }
    )
    table = pd.DataFrame({"query_id": queries, "text": queries, "language": "en", "style": "word", "level": 1})
    image_rows = pd.DataFrame({"image_id": images, "path": images, "file_name": images})
    tables = Tables(table.assign(labels=None), image_rows, qrels)

    def seconds(work: Callable[[], object]) -> float:
        start = time.process_time()  # of the processor: other tests run beside this one
        work()
        return time.process_time() - start

    queries_first = [qrels[name].cat.codes.to_numpy()[::-1] for name in ("image_id", "query_id")]
    sorting = seconds(lambda: np.lexsort(queries_first))
    assert seconds(lambda: export_queries(tables, "a/v1", "d")) < 3 * sorting
    assert seconds(lambda: export_judgments(tables, "a/v1", "d", 500)) < sorting


NAMES = {"img_1": "spring/dog.jpg", "img_2": "summer/dog.jpg", "img_3": "summer/Cat.jpg", "img_4": "小狗.jpg"}


def album() -> Tables:
    """“狗” has one right image of four; the twin of the last one is not in the gallery."""
    images = images_table(["1", "2", "3", "4"]).assign(file_name=list(NAMES.values()))
    twins = pd.DataFrame(
        [("g", "img_4", "小狗.jpg", True), ("g", "img_9", "copies/puppy.jpg", False)],
        columns=["duplicate_group", "image_id", "item", "is_representative"],
    ).assign(width=9, height=9)
    queries = queries_table([{"query_id": "q_dog", "text": "狗"}, {"query_id": "q_cat", "text": "猫"}])
    qrels = qrels_table([("q_dog", "img_1", 2), ("q_cat", "img_3", 1)])
    return typed_tables(queries=queries, images=images, qrels=qrels, duplicates=twins)


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
