"""What becomes of entries that are doubled, dangling, empty or without an image; and what of the others."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.formats.imported_tables import ImportedSource, join_imported_tables
from querytruth.sets.benchmark_set import Tables, content_digest
from querytruth.sets.ledger import Ledger

SHA = {name: (name * 64)[:64] for name in "abcdef"}


def source(
    queries: list[tuple[str, str]],
    images: list[tuple[str, str]],
    qrels: list[tuple[str, str, int]],
    away: list[tuple[str, str, str, str]] | None = None,
) -> ImportedSource:
    asked = pd.DataFrame(queries, columns=["query", "text"], dtype="str")
    listed = pd.DataFrame(images, columns=["image", "file_name"], dtype="str")
    judged = pd.DataFrame(qrels, columns=["query", "image", "relevance"])
    judged = judged.assign(judged_by="publisher", evidence=None)
    return ImportedSource(asked.assign(language="en", style="query", level=1), listed, judged, away or [], False)


def image_frame(*found: str) -> pd.DataFrame:
    """A row per listed image: a letter is its bytes, anything longer the reason why there is none."""
    rows: list[dict[str, Any]] = []
    for name in found:
        good = len(name) == 1
        rows.append(
            {
                "path": f"/p/{name}" if good else None,
                "sha256": SHA[name] if good else None,
                "width": 8.0 if good else None,
                "height": 6.0 if good else None,
                "taken_at": None,
                "latitude": None,
                "longitude": None,
                "reason": None if good else name,
                "detail": None,
            }
        )
    return pd.DataFrame(rows)


def booked(ledger: Ledger) -> list[tuple[str, str, str, str]]:
    rows = ledger.rows()
    return [tuple(row) for row in rows[["stage", "item", "bucket", "reason"]].itertuples(index=False)]


def judged(tables: Tables) -> list[tuple[str, str, int]]:
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    rows = tables.qrels.itertuples()
    return sorted((texts[row.query_id], names[row.image_id], int(row.relevance)) for row in rows)


def test_what_is_sound_is_taken_with_ids_of_ours() -> None:
    ledger = Ledger()
    said = source([("1", "a dog"), ("2", "a cat")], [("x", "x.jpg"), ("y", "y.jpg")], [("1", "x", 2), ("2", "y", 0)])
    tables = join_imported_tables(said, None, ledger)
    assert judged(tables) == [("a cat", "y.jpg", 0), ("a dog", "x.jpg", 2)]
    assert tables.queries["query_id"].str.fullmatch("q_[0-9a-f]{20}").all()
    assert tables.images["image_id"].str.fullmatch("img_[0-9a-f]{20}").all()
    assert set(tables.qrels["evidence"]) == {"query 1", "query 2"}, "the publisher's ids, to find a run's rows again"
    assert booked(ledger) == []


def test_judgments_of_nothing_that_is_there_are_booked_one_by_one() -> None:
    ledger = Ledger()
    said = source([("1", "a dog")], [("x", "x.jpg")], [("1", "x", 1), ("1", "gone", 1), ("9", "x", 1)])
    assert judged(join_imported_tables(said, None, ledger)) == [("a dog", "x.jpg", 1)]
    assert booked(ledger) == [
        ("judgments", "1 gone", "quarantined", "unknown_image"),
        ("judgments", "9 x", "quarantined", "unknown_query"),
    ]


def test_the_second_under_an_id_is_booked_and_the_order_of_the_file_does_not_matter() -> None:
    rows = [("1", "b dog"), ("1", "a dog"), ("2", " ")]
    for queries in (rows, rows[::-1]):
        ledger = Ledger()
        said = source(queries, [("x", "x.jpg"), ("x", "x.jpg")], [("1", "x", 1)])
        assert judged(join_imported_tables(said, None, ledger)) == [("a dog", "x.jpg", 1)]
        assert booked(ledger) == [
            ("queries", "1", "rejected", "doubled_query"),
            ("queries", "2", "quarantined", "empty_text"),
            ("imported_images", "x", "rejected", "doubled_image"),
        ]


def test_a_pair_judged_twice_counts_once_and_the_higher_grade_stays() -> None:
    ledger = Ledger()
    said = source(
        [("1", "a dog")], [("x", "x.jpg"), ("y", "y.jpg")], [("1", "x", 0), ("1", "x", 2), ("1", "y", 1), ("1", "y", 1)]
    )
    assert judged(join_imported_tables(said, None, ledger)) == [("a dog", "x.jpg", 2), ("a dog", "y.jpg", 1)]
    assert [row[3] for row in booked(ledger)] == ["contradicting_judgment", "doubled_judgment"]


def test_a_grade_under_nought_is_not_relevant_and_one_too_high_is_none() -> None:
    ledger = Ledger()
    said = source([("1", "a dog")], [("x", "x"), ("y", "y")], [("1", "x", -2), ("1", "y", 1000)])
    assert judged(join_imported_tables(said, None, ledger)) == [("a dog", "x", 0)]
    assert [row[3] for row in booked(ledger)] == ["grade_out_of_range"]


def test_images_that_are_gone_take_their_judgments_and_then_their_queries_with_them() -> None:
    ledger = Ledger()
    said = source(
        [("1", "a dog"), ("2", "a cat"), ("3", "nothing")],
        [("x", "x.jpg"), ("y", "y.jpg"), ("z", "z.jpg")],
        [("1", "x", 1), ("1", "y", 1), ("2", "y", 1), ("2", "x", 0)],
    )
    tables = join_imported_tables(said, image_frame("a", "image_missing", "cannot_be_decoded"), ledger)
    assert judged(tables) == [("a dog", "x.jpg", 1)]
    assert set(tables.queries["text"]) == {"a dog", "nothing"}, "a query that never had an answer is for lint to find"
    assert booked(ledger) == [
        ("imported_images", "y", "rejected", "image_missing"),
        ("imported_images", "z", "quarantined", "cannot_be_decoded"),
        ("judgments", "1 y", "rejected", "image_not_accepted"),
        ("judgments", "2 x", "rejected", "query_not_accepted"),
        ("judgments", "2 y", "rejected", "image_not_accepted"),
        ("truth", "2", "rejected", "no_image_left"),
    ]
    assert [(stage.stage, stage.entered, stage.accepted) for stage in ledger.stages] == [
        ("queries", 3, 3),
        ("imported_images", 3, 1),
        ("judgments", 4, 1),
        ("truth", 3, 2),
    ]


def test_images_of_the_same_bytes_are_one_and_share_their_judgments() -> None:
    ledger = Ledger()
    said = source(
        [("1", "a dog"), ("2", "a hound")],
        [("x", "b.jpg"), ("y", "a.jpg")],
        [("1", "x", 1), ("2", "y", 1), ("1", "y", 1)],
    )
    tables = join_imported_tables(said, image_frame("a", "a"), ledger)
    assert judged(tables) == [("a dog", "a.jpg", 1), ("a hound", "a.jpg", 1)]
    assert list(tables.images["image_id"]) == [f"img_{'a' * 20}"]
    assert booked(ledger) == [
        ("imported_images", "x", "rejected", "same_bytes"),
        ("judgments", "1 y", "rejected", "doubled_judgment"),
    ]
    assert (tables.images["width"].iloc[0], tables.images["height"].iloc[0]) == (8, 6)


def test_what_a_reader_could_make_nothing_of_is_booked_and_known() -> None:
    ledger = Ledger()
    away = [("image", "y", "not_base64", "imgs.tsv line 2")]
    said = source([("1", "a dog")], [("x", "x")], [("1", "x", 1), ("1", "y", 1)], away)
    join_imported_tables(said, None, ledger)
    assert booked(ledger) == [
        ("imported_images", "y", "quarantined", "not_base64"),
        ("judgments", "1 y", "rejected", "image_not_accepted"),
    ]


def test_a_caption_knows_its_image() -> None:
    said = source([("1", "a dog")], [("x", "x")], [("1", "x", 1)])
    said = ImportedSource(said.queries.assign(style="caption"), said.images, said.qrels, (), False)
    tables = join_imported_tables(said, None, Ledger())
    assert list(tables.queries["source_image_id"]) == list(tables.images["image_id"])


@pytest.mark.parametrize("count", [0, 1])
def test_a_source_without_queries_is_a_gallery(count: int) -> None:
    said = source([("1", "a dog")][:count], [("x", "x")], [])
    tables = join_imported_tables(said, None, Ledger())
    assert (len(tables.queries), len(tables.images), len(tables.qrels)) == (count, 1, 0)
    tables.to_arrow_tables()


ids = st.sampled_from(["1", "2", "3", "4"])


@settings(max_examples=60)
@given(
    queries=st.lists(st.tuples(ids, st.sampled_from(["", "a", "b"])), max_size=6),
    images=st.lists(
        st.tuples(ids, st.sampled_from(["p", "q"]), st.sampled_from(["a", "b", "image_missing"])), max_size=6
    ),
    qrels=st.lists(st.tuples(ids, ids, st.integers(-2, 200)), max_size=8),
    turn=st.randoms(use_true_random=False),
)
@pytest.mark.slow
def test_every_entry_is_accounted_for_and_their_order_is_no_matter(
    queries: list[Any], images: list[Any], qrels: list[Any], turn: Any
) -> None:
    digests = set()
    for _ in range(2):
        listed = [image[:2] for image in images]
        ledger = Ledger()  # closes only where the sums are right
        tables = join_imported_tables(
            source(queries, listed, qrels), image_frame(*(image[2] for image in images)) if images else None, ledger
        )
        digests.add(content_digest(tables.to_arrow_tables()))
        for rows in (queries, images, qrels):
            turn.shuffle(rows)
    assert len(digests) == 1
