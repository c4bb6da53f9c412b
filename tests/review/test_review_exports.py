"""The CSV round trip through the page: what runs nowhere, what is refused whole, and what is taken."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from tests.review.server.pages import ORIGIN_HEADERS, ReviewClient, open_client
from tests.sets.test_review_csv import PAYLOADS, begins_risky, tables_of
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

Rows = list[list[str]]
BYTES = {**ORIGIN_HEADERS, "content-type": "application/octet-stream"}


def rows_of(data: bytes) -> Rows:
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def bytes_of(rows: Rows) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8-sig")


def send(
    page: ReviewClient, data: bytes, dry_run: bool = False, file: str = "queries.csv", **how: Any
) -> dict[str, Any]:
    params = {"file": file, "dry_run": dry_run, **how}
    answer = page.client.post("/api/csv", content=data, headers=BYTES, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def filled(page: ReviewClient, answers: dict[int, dict[str, str]], view: str = "queries") -> bytes:
    """The view's CSV as the page hands it out, with cells filled in by row number."""
    rows = rows_of(page.get(f"/csv/{view}.csv").content)
    for number, cells in answers.items():
        for name, value in cells.items():
            rows[number - 1][rows[0].index(name)] = value
    return bytes_of(rows)


@pytest.fixture
def page(tmp_path: Path) -> ReviewClient:
    return open_client(publish_small_set(tmp_path, small_tables()))


def test_a_dry_run_shows_what_the_file_decides_and_only_taking_it_takes_it(page: ReviewClient) -> None:
    data = filled(page, {2: {"decision": "drop", "note": "模糊"}, 4: {"new_text": "新的"}})
    shown = send(page, data, dry_run=True)
    assert shown["taken"] is False and shown["tally"] == "1 query drop, 1 query edit" and page.log == []
    assert [(d["decision"], d["new"], d["note"]) for d in shown["decisions"]] == [
        ("drop", "", "模糊"),
        ("edit", "新的", ""),
    ]
    assert send(page, data)["taken"] is True
    assert [(d.decision, d.reviewer, d.view) for d in page.log] == [("drop", "lin", "csv"), ("edit", "lin", "csv")]
    assert sum(page.queue("queries")["done"]) == 2, "the page knows them at once"


def test_judgments_go_the_same_way(page: ReviewClient) -> None:
    data = filled(page, {2: {"decision": "drop"}, 3: {"decision": "1"}}, "judgments")
    assert send(page, data, file="judgments.csv")["tally"] == "1 judgment drop, 1 judgment grade"
    assert page.get("/csv/ledger.csv").status_code == 422


def test_a_download_is_named_after_the_set_and_is_no_page(page: ReviewClient) -> None:
    headers = page.get("/csv/queries.csv").headers
    assert headers["content-disposition"] == 'attachment; filename="small-queries.csv"'
    assert headers["content-type"].startswith("text/csv") and headers["x-content-type-options"] == "nosniff"


def test_sixty_formulas_run_in_no_cell_and_come_back_unchanged(tmp_path: Path) -> None:
    assert len(PAYLOADS) >= 60
    page = open_client(publish_small_set(tmp_path, tables_of(PAYLOADS, PAYLOADS), images=False))
    for view in ("queries", "judgments"):
        data = page.get(f"/csv/{view}.csv").content
        assert not [cell for row in rows_of(data) for cell in row if begins_risky(cell)]
        assert send(page, data)["problems"] == [] and page.log == []


WHOLE = {
    "gbk": (lambda data: data.decode("utf-8-sig").encode("gb18030"), "encoding"),
    "no bom, as LibreOffice saves it": (lambda data: data[3:], None),
    "utf-16": (lambda data: data.decode("utf-8-sig").encode("utf-16"), None),
    "semicolons": (lambda data: data.replace(b",", b";"), "was exported as"),
    "cut in half": (lambda data: data[: len(data) // 2], "missing"),
    "empty": (lambda _data: b"", "does not name an export"),
    "a workbook": (lambda _data: b"PK\x03\x04" + bytes(range(256)), "not a readable .xlsx"),
    "a page": (lambda _data: b"<html>", "does not name an export"),
    "another set": (lambda data: data.replace(b"small/v1", b"other/v1", 1), "is an export of other/v1"),
    "a path as a set": (lambda data: data.replace(b"small/v1", b"../../v1", 1), "does not name an export"),
    "another export": (lambda data: data.replace(b"export e_", b"export e_0", 1), "has export id"),
}  # fmt: skip


@pytest.mark.parametrize("case", WHOLE)
@pytest.mark.thorough
def test_a_file_that_is_damaged_as_a_whole_is_one_sentence(case: str, page: ReviewClient) -> None:
    damage, says = WHOLE[case]
    found = send(page, damage(filled(page, {2: {"decision": "drop", "note": "模糊"}})), file="../<b>my file</b>.csv")
    assert bool(found["problems"]) == bool(says)
    if says:
        assert says in " ".join(found["problems"]) and page.log == [] and "/tmp" not in found["problems"][0]


def with_rows(data: bytes, change: Any) -> bytes:
    rows = rows_of(data)
    change(rows)
    return bytes_of(rows)


def add_a_row(rows: Rows) -> None:
    rows.append(["q_0000", *rows[2][1:]])


def change_a_text(rows: Rows) -> None:
    rows[3][rows[0].index("text")] += "!"


OVERLOOKED = {
    "allow_missing": lambda rows: rows.pop(),
    "allow_doubled": lambda rows: rows.append(rows[1]),
    "allow_unknown": add_a_row,
    "allow_changed": change_a_text,
}


@pytest.mark.parametrize("flag", OVERLOOKED)
@pytest.mark.thorough
def test_each_flag_overlooks_one_thing_and_is_offered_with_it(flag: str, page: ReviewClient) -> None:
    data = with_rows(filled(page, {2: {"decision": "drop"}}), OVERLOOKED[flag])
    refused = send(page, data)
    assert refused["offers"] == [flag] and len(refused["problems"]) == 1 and not refused["taken"]
    others = {name: True for name in [*OVERLOOKED, "allow_other_export"] if name != flag}
    assert send(page, data, **others)["problems"] == refused["problems"] and page.log == []
    shown = send(page, data, dry_run=True, **{flag: True})
    assert shown["problems"] == [] and shown["tally"] == "1 query drop" and page.log == []
    assert send(page, data, **{flag: True})["taken"] and [one.decision for one in page.log] == ["drop"]


@pytest.mark.thorough
def test_nothing_is_taken_while_any_problem_is_left(page: ReviewClient) -> None:
    data = with_rows(filled(page, {2: {"decision": "drop"}}), lambda rows: (rows.pop(), change_a_text(rows)))
    assert send(page, data)["offers"] == ["allow_missing", "allow_changed"]
    left = send(page, data, allow_missing=True)
    assert left["offers"] == ["allow_changed"] and len(left["problems"]) == 1 and page.log == []
    assert send(page, data, allow_missing=True, allow_changed=True)["taken"] and len(page.log) == 1
    wrong = send(page, filled(page, {2: {"decision": "burn"}}))
    assert wrong["offers"] == [] and wrong["problems"], "a wrong answer cannot be overlooked"


@pytest.mark.thorough
def test_an_encoding_is_asked_for_where_the_file_does_not_say_it(page: ReviewClient) -> None:
    data = filled(page, {2: {"decision": "drop", "note": "模糊"}}).decode("utf-8-sig").encode("gb18030")
    refused = send(page, data)
    assert refused["offers"] == ["encoding"] and page.log == []
    assert "was exported as" in send(page, data, encoding="latin-1")["problems"][0]
    assert send(page, data, encoding="gb18030")["taken"] and page.log[0].note == "模糊"
    answer = page.client.post("/api/csv", content=data, headers=BYTES, params={"encoding": "punycode"})
    assert answer.status_code == 422
    assert page.client.post("/api/csv", content=data, headers=BYTES, params={"allow_all": True}).status_code == 422


def test_an_older_version_s_file_can_be_taken_if_a_person_says_so(page: ReviewClient) -> None:
    data = filled(page, {2: {"decision": "keep"}})
    send(page, filled(page, {3: {"decision": "drop"}}))
    newer = open_client(page.publish())
    before = newer.log
    assert send(newer, data)["offers"] == ["allow_other_export"] and newer.log == before
    assert send(newer, data, allow_other_export=True)["taken"] and len(newer.log) == len(before) + 1


@pytest.mark.thorough
def test_a_missed_image_is_added_as_a_new_row_by_its_file_name(page: ReviewClient) -> None:
    """All columns as exported, the digest empty; the import says that it was added, and it is in the next version."""
    rows = rows_of(page.get("/csv/judgments.csv").content)
    cells = {"query_id": query_id_of("狗"), "image": "dog 1.jpg", "decision": "2", "note": "我看到狗"}
    added = bytes_of([*rows, [cells.get(name, "") for name in rows[0]]])
    assert send(page, added, dry_run=True, file="judgments.csv")["tally"] == "1 judgment grade; 1 added"
    assert send(page, added, file="judgments.csv")["taken"] is True
    assert [(d.image_id, d.relevance) for d in page.log] == [(image_id_of("dog"), 2)]
    after = page.publish().tables.qrels
    row = after[(after["query_id"] == query_id_of("狗")) & (after["image_id"] == image_id_of("dog"))].iloc[0]
    assert (row["relevance"], row["judged_by"], row["evidence"]) == (2, "human", "我看到狗")
