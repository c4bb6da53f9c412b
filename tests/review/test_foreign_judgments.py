"""Judgments that were made elsewhere become decisions, in whatever ids they name queries and images; or none does."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import querytruth as qt
from querytruth.errors import UserError
from querytruth.review.foreign_judgments import read_foreign_judgments
from querytruth.review.review_exports import build_review_export, read_filled_export, take_decisions
from querytruth.sets.review_csv import ReviewTableOptions, write_review_csv
from querytruth.sets.set_files import StoredSet
from tests.small_sets import image_id_of, publish_small_set, small_tables


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    tables = small_tables(graded=True)
    paths = {"dog": "2023/spring/a.jpg", "cat": "2023/summer/a.jpg", "tree": "2023/summer/b.jpg"}
    names = {image_id_of(name): path for name, path in paths.items()}
    images = tables.images.assign(file_name=tables.images["image_id"].map(names), source_id=None)
    images.loc[images["image_id"] == image_id_of("dog"), "source_id"] = "doc-17"
    queries = tables.queries.assign(source_id=[f"t{number}" for number in range(len(tables.queries))])
    aliases = pd.DataFrame({"query_id": [queries["query_id"].iloc[0]], "source_id": ["line-9"]})
    return publish_small_set(tmp_path, replace(tables, queries=queries, images=images, query_aliases=aliases))


def test_names_of_others_become_decisions_of_ours(stored: StoredSet, tmp_path: Path) -> None:
    first, second = stored.tables.queries["query_id"].iloc[:2]
    file = tmp_path / "judged.csv"
    file.write_text("Qid, file,GRADE\nt0,spring/a.jpg,2\nline-9,/mnt/photos/2023/summer/a.jpg,0\nt1,doc-17,1\n")

    reading = read_foreign_judgments(stored.path, file, "lin")
    assert not reading.problems
    found = reading.decisions

    given = {(one.query_id, one.image_id): one.relevance for one in found}
    dog, cat = image_id_of("dog"), image_id_of("cat")
    assert given == {(first, dog): 2, (first, cat): 0, (second, dog): 1}
    assert {one.reviewer for one in found} == {"lin"}
    (tmp_path / "judged.qrels").write_text("t0 0 spring/a.jpg 2\nline-9 0 summer/a.jpg 0\nt1 0 doc-17 1\nt1 0 b -1\n")
    again = read_foreign_judgments(stored.path, tmp_path / "judged.qrels", "lin").decisions
    assert {(one.query_id, one.image_id): one.relevance for one in again} == given
    assert take_decisions(stored.path.parent, found) == 0 and take_decisions(stored.path.parent, found) == 3


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("t0,a.jpg,1", r"1 names that match several images \(a.jpg matches img_\w+ or img_\w+\)"),
        ("t77,b.jpg,1", "line 2: unknown query 't77' in this set"),
        ("t0,z.jpg,1", "line 2: unknown image 'z.jpg' in this set"),
        ("t0,b.jpg,7", "line 2: unknown grade '7'; known grades: 0, 1, 2"),
        ("t0,b.jpg,1\nt0,b.jpg,2", "line 3: t0 and b.jpg have grade 1 in another row"),
    ],
)
def test_a_row_that_cannot_be_taken_takes_none(stored: StoredSet, tmp_path: Path, row: str, problem: str) -> None:
    file = tmp_path / "judged.csv"
    file.write_text(f"query,image,relevance\n{row}\n")

    with pytest.raises(UserError, match=problem):
        qt.load(stored.path).import_qrels(file)

    assert not (stored.path.parent / "decisions.jsonl").exists()


def test_rows_of_other_queries_can_be_left_out(stored: StoredSet, tmp_path: Path) -> None:
    file = tmp_path / "judged.tsv"
    file.write_text("query-id\tcorpus-id\tscore\nt0\tb.jpg\t1\nt9\tb.jpg\t1\n")

    assert qt.load(stored.path).import_qrels(file, allow_unknown=True) == 1
    file.write_text("query-id\tcorpus-id\tscore\nt9\tb.jpg\t1\n")
    with pytest.raises(UserError, match="contains no query and image of the set"):
        qt.load(stored.path).import_qrels(file, allow_unknown=True)


def test_a_row_that_a_person_adds_may_have_the_names_of_others(stored: StoredSet, tmp_path: Path) -> None:
    file = tmp_path / "judgments.csv"
    write_review_csv(build_review_export(stored.path, "judgments", 0), file)
    file.write_text(file.read_text("utf-8-sig") + "line-9,/mnt/2023/summer/b.jpg,,,,,,1,,\r\n", "utf-8-sig")

    (decision,) = read_filled_export(stored.path, file, "lin", ReviewTableOptions(), False).decisions

    assert decision.target == (stored.tables.queries["query_id"].iloc[0], image_id_of("tree"))
    with pytest.raises(UserError, match="is an export to fill in, not a file of judgments"):
        read_foreign_judgments(stored.path, file, "lin")
