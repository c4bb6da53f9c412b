"""One reader for tables of every format: the same rows come out, and what is wrong is one line with its place."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.backends.files.table_rows import TABLE_SUFFIXES, iterate_rows, read_columns
from querytruth.errors import UserError

HEADER = ["id", "text", "note"]
ROWS = [["1", "一只狗", "a, b"], ["2", 'a "dog"', ""], ["3", "x", "line"]]


def write_sheet(path: Path, rows: Sequence[Sequence[str]]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def write_text(delimiter: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        cells = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in (HEADER, *ROWS)]
        path.write_text("\r\n".join(delimiter.join(row) for row in cells) + "\r\n", "utf-8-sig")

    return write


def write_lines(path: Path) -> None:
    path.write_text("".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in ROWS))


def write_list(path: Path) -> None:
    path.write_text(json.dumps([dict(zip(HEADER, row, strict=True)) for row in ROWS]))


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([dict(zip(HEADER, row, strict=True)) for row in ROWS]), path)


WRITERS: dict[str, Callable[[Path], None]] = {
    ".csv": write_text(","),
    ".tsv": write_text("\t"),
    ".jsonl": write_lines,
    ".ndjson": write_lines,
    ".json": write_list,
    ".parquet": write_parquet,
    ".xlsx": lambda path: write_sheet(path, [HEADER, *ROWS, [], ["", ""]]),
}


@pytest.mark.parametrize("suffix", TABLE_SUFFIXES)
def test_a_table_is_read_alike_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    WRITERS[suffix](path)
    assert read_columns(path) == HEADER
    found = list(iterate_rows(path, ["id"], ["text"]))
    assert [[row["id"], row["text"]] for _, row in found] == [row[:2] for row in ROWS]
    assert all(place.startswith(str(path)) and place[-1].isdigit() for place, _ in found)
    with pytest.raises(UserError, match=r"t\S+.*\(rank\): has no column 'score' \(it has id, text, note\)"):
        list(iterate_rows(path, ["score"], stage="rank"))


WRONG = {
    "one.json": (b'{"id": 1, "text": "a"}', r"one\.json.*is not a JSON list of objects"),
    "again.json": (b'[{"id": 1, "id": 2, "text": "a"}]', r"again\.json.*is not a JSON list of objects"),
    "short.csv": (b"id,text\n1,a\n2\n", r"short\.csv line 3.*has 1 cells, but the header has 2"),
    "long.tsv": (b"id\ttext\n1\ta\tb\n", r"long\.tsv line 2.*has 3 cells, but the header has 2"),
    "twice.csv": (b"id,text,id\n", r"twice\.csv line 1.*has the column 'id' twice"),
    "gbk.csv": ("id,text\n1,狗\n".encode("gbk"), r"gbk\.csv.*is not UTF-8.*gb18030: “狗”.*tables.encoding: gb18030"),
    "nul.csv": (b"id,text\n1,a\x00b\n", r"nul\.csv line 2.*NUL"),
    "quote.csv": (b'id,text\n1,"a"b\n', r"quote\.csv line 2.*is not valid CSV"),
    "list.jsonl": (b"[1]\n", r"list\.jsonl line 1.*is not JSON"),
    "twice.jsonl": (b'{"id": 1, "id": 2, "text": ""}\n', r"twice\.jsonl line 1.*twice"),
    "deep.jsonl": (b"[" * 9999, r"deep\.jsonl line 1.*is not JSON"),
    "lacks.jsonl": (b'{"id": 1, "text": ""}\n{"id": 2}\n', r"lacks\.jsonl line 2.*has no column 'text'"),
    "cut.parquet": (b"PAR1 and nothing else", r"cut\.parquet.*is not a complete Parquet file"),
    "none.xlsx": (b"PK no sheet", r"none\.xlsx.*is not a readable \.xlsx"),
    "empty.csv": (b"", r"empty\.csv line 1.*has no column 'id' \(it has none\)"),
    "table.ods": (b"", r"table\.ods.*has an unknown suffix"),
    "page.csv": (b"<!DOCTYPE html>", r"page\.csv.*is a web page"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(WRONG[name][0])
    with pytest.raises(UserError, match=WRONG[name][1]) as refused:
        list(iterate_rows(tmp_path / name, ["id", "text"]))
    assert "\n" not in str(refused.value)


def test_another_encoding_is_read_where_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("id,text\n1,一只狗\n".encode("gb18030"))
    assert [row["text"] for _, row in iterate_rows(path, ["text"], encoding="gb18030")] == ["一只狗"]
    with pytest.raises(UserError, match="is not valid ascii"):
        list(iterate_rows(path, ["text"], encoding="ascii"))
