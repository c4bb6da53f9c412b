"""Rows of a spreadsheet as Excel and LibreOffice write it: each text stands once, in a part of its own."""

import zipfile
from pathlib import Path

from querytruth.backends.files.spreadsheet_rows import iterate_sheet_rows

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def test_no_text_is_lost_where_the_parser_reads_ahead(tmp_path: Path) -> None:
    """The parser takes some kilobytes at once: a text across the end of a piece is there in part while those before it
    are given out."""
    texts = [f"query {number} " + "长" * (number % 200) for number in range(4000)]
    shared = "".join(f'<si><t xml:space="preserve">{text}</t></si>' for text in texts)
    cells = "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>{n - 1}</v></c></row>' for n in range(1, len(texts) + 1))
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        archive.writestr("xl/sharedStrings.xml", f"<sst {MAIN}>{shared}</sst>")
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet {MAIN}><sheetData>{cells}</sheetData></worksheet>")
    assert [cells for _number, cells in iterate_sheet_rows(tmp_path / "log.xlsx")] == [[text] for text in texts]
