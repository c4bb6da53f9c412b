"""A stage's outcome as CSV: to look at, with nothing in it that a spreadsheet runs."""

import csv
import io
from pathlib import Path

import pytest

from querytruth.backends.files.text_formats import FileLink, write_csv
from querytruth.errors import UserError


def read(path: Path) -> list[list[str]]:
    text = path.read_bytes().decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


def test_cells_come_back_as_they_were_and_none_is_empty(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", ["a", "b"], [["猫, 狗", None], ['"x"\n', 12]])
    assert (tmp_path / "t.csv").read_bytes().startswith(b"\xef\xbb\xbfa,b\r\n")
    assert read(tmp_path / "t.csv") == [["a", "b"], ["猫, 狗", ""], ['"x"\n', "12"]]


@pytest.mark.parametrize("evil", ["=1+1", "@SUM(A1)", "\t=cmd|' /C calc'!A0", "\uff1d1", "\u200b-2"])
def test_no_cell_is_a_formula(tmp_path: Path, evil: str) -> None:
    write_csv(tmp_path / "t.csv", ["a"], [[evil]])
    assert read(tmp_path / "t.csv")[1] == [f"'{evil}"]


def test_what_no_file_can_hold_is_replaced(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", ["a"], [["x\x00\ud800"]])
    assert read(tmp_path / "t.csv")[1] == ["x\N{REPLACEMENT CHARACTER}?"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match=r"t\.csv \(write table\): cannot be written"):
        write_csv(tmp_path / "taken" / "t.csv", ["a"], [])


def test_a_link_that_is_too_long_for_a_spreadsheet_is_left_out(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", ["a"], [[FileLink("x" * 253)], [FileLink("x" * 254)]])
    assert read(tmp_path / "t.csv")[1:] == [[f'=HYPERLINK("./{"x" * 253}","open")'], [""]]
