"""A workbook is a document: tabs in an order, some hidden, merged cells, and numbers that look like something else."""

import time
import zipfile
from collections.abc import Callable, Iterable
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from querytruth.backends.files.column_profile import ReadingOptions, use_table_options
from querytruth.backends.files.spreadsheet_rows import NumberCell, read_sheet
from querytruth.backends.files.table_rows import iterate_rows, read_columns
from querytruth.errors import UserError


def write(path: Path, change: Callable[[Any], None]) -> Path:
    book = openpyxl.Workbook()
    change(book)
    book.save(path)
    return path


def test_no_text_is_lost_in_a_long_sheet(tmp_path: Path) -> None:
    texts = [f"query {number} " + "长" * (number % 200) for number in range(10_000)]
    path = write(tmp_path / "log.xlsx", lambda book: [book.active.append([text]) for text in texts])
    assert list(read_sheet(path, "import")[1]) == [(number, [text]) for number, text in enumerate(texts, 1)]


def test_the_first_tab_that_is_shown_and_filled_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    def fill(book: Any) -> None:
        for name, text in (("final", "a"), ("draft", "b"), ("secret", "c")):
            book.create_sheet(name).append(["text", text])
        book.move_sheet("final", 3), book.move_sheet("secret", -9)  # the parts keep their numbers
        book["secret"].sheet_state = "hidden"
        book.create_chartsheet("chart", 0)

    path = write(tmp_path / "t.xlsx", fill)
    assert read_columns(path) == ["text", "b"]
    for name in ("final", "secret"):
        with use_table_options(ReadingOptions(sheet=name)):
            assert read_columns(path) == ["text", {"final": "a", "secret": "c"}[name]]
    with (
        use_table_options(ReadingOptions(sheet="none")),
        pytest.raises(UserError, match="no sheet 'none'; its sheets: Sheet, draft, final"),
    ):
        read_columns(path)


def test_a_merged_cell_counts_for_each_of_its_rows_and_no_column_beside_it(tmp_path: Path) -> None:
    def fill(book: Any) -> None:
        sheet = book.active
        for row in (
            ["Judgments 2026"],
            ["query", "image", "grade"],
            ["dog", "a.jpg", 1],
            ["", "b.jpg", 0],
            ["", "c.jpg", 2],
        ):
            sheet.append(row)
        sheet.merge_cells("A1:C1")
        sheet.merge_cells("A3:A5")

    path = write(tmp_path / "t.xlsx", fill)
    rows = [row for _, row in iterate_rows(path, ["query", "image", "grade"])]
    assert [(row["query"], row["image"], row["grade"]) for row in rows] == [
        ("dog", "a.jpg", "1"), ("dog", "b.jpg", "0"), ("dog", "c.jpg", "2")
    ]  # fmt: skip


def test_a_cell_that_looks_otherwise_on_the_screen_is_marked(tmp_path: Path) -> None:
    cells = [date(2026, 3, 4), datetime.fromisoformat("2026-03-04T05:06"), 0.5, True, 24, "24", "=1+1", 1e6]
    path = write(tmp_path / "t.xlsx", lambda book: book.active.append(cells))
    ((_, row),) = read_sheet(path, "import")[1]
    assert row == ["2026-03-04", "2026-03-04 05:06:00", "0.5", "TRUE", "24", "24", "", "1000000"]
    assert [isinstance(cell, NumberCell) for cell in row] == [True] * 4 + [False] * 4


def test_what_unpacks_to_more_than_a_process_may_hold_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.xlsx", lambda book: book.active.cell(1_048_576, 16_384, "x"))
    with pytest.raises(UserError, match=r"not a readable \.xlsx \((?:out of memory|worker crashed)"):
        list(read_sheet(path, "import")[1])


ROW = '<row r="{0}"><c r="A{0}" t="inlineStr"><is><t>{1}</t></is></c></row>'


def rewrite(path: Path, rows: Iterable[str], strings: Iterable[str] = (), after: str = "") -> Path:
    """A workbook whose first sheet has these rows, below one that is sound, as they are; `strings`: shared ones."""
    plain = write(path.with_suffix(".plain"), lambda book: book.active.append(["x"]))
    with zipfile.ZipFile(plain) as sound, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name in sound.namelist():
            parts: Iterable[str] = [sound.read(name).decode()]
            if name == "xl/worksheets/sheet1.xml":
                head, tail = next(iter(parts)).split("<sheetData>")[0], f"</sheetData>{after}</worksheet>"
                parts = chain([f"{head}<sheetData>", ROW.format(1, "sound")], rows, [tail])
            elif name == "xl/sharedStrings.xml":
                parts = chain(
                    ['<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'], strings, ["</sst>"]
                )
            with book.open(name, "w", force_zip64=True) as member:
                for part in parts:
                    member.write(part.encode())
    return path


@pytest.mark.parametrize(
    ("rows", "after"),
    [([ROW.format("twelve", "x")], ""), ([ROW.format("7" * 4000, "x")], ""), ([ROW.format("-3", "x")], ""),
     (['<row r="2"><c r="A2" t="s"><v>½</v></c></row>'], ""), (['<row r="2"><c r="A2" t="s"><v>8E9</v></c></row>'], ""),
     (['<row r="2"><c r="A2"><v>-1e999</v></c></row>'], ""), (['<row r="2"><c r="A2"><v>nan</v></c></row>'], ""),
     ([ROW.format(2, "_xDFFF_ _xD83D_")], ""), ([ROW.format(2, "&undefined;")], ""), (["<row><c></row>"], ""),
     ([], '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'),
     ([], '<mergeCells><mergeCell ref="C9:A1"/><mergeCell ref="?"/></mergeCells>')],
)  # fmt: skip
def test_a_sheet_of_any_kind_is_rows_or_one_line(tmp_path: Path, rows: list[str], after: str) -> None:
    path = rewrite(tmp_path / "t.xlsx", rows, after=after)
    try:
        assert len([cells for _, cells in read_sheet(path, "import")[1]]) >= 1
    except UserError as error:
        assert "is not a readable .xlsx" in str(error)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rows", "strings"),
    [(["<row>", *["<c/>" * 100_000] * 100, "</row>"], []), (["<row/>" * 100_000] * 100, []),
     ([], ["<si/>" * 100_000] * 120),
     (['<row><c t="inlineStr"><is><t>', *["y" * 1_000_000] * 400, "</t></is></c></row>"], [])],
)  # fmt: skip
def test_a_sheet_that_unpacks_endlessly_stays_in_bounds(tmp_path: Path, rows: list[str], strings: list[str]) -> None:
    path, began = rewrite(tmp_path / "t.xlsx", rows, strings), time.monotonic()
    try:
        assert next(read_sheet(path, "import")[1])[1][0] == "sound"
    except UserError as error:
        assert "is not a readable .xlsx" in str(error)
    assert time.monotonic() - began < 60
