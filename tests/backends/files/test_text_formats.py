"""CSV that a spreadsheet cannot run, JSON without NaN, and texts in whatever encoding they are."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.generated.generation_journal import read_summary
from querytruth.backends.files.text_formats import FileLink, detect_language, parse_json, write_csv
from querytruth.backends.models import stored_answers as transcripts
from querytruth.dual_encoder.checkpoints import read_model_description
from querytruth.errors import UserError
from querytruth.evaluation.result_files import read_result


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


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "a": 2}}]', b'{"a": [], "\\u0061": []}'])
def test_a_key_that_is_there_twice_is_named(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="key 'a' occurs twice"):
        parse_json(text)
    assert parse_json('{"a": {"a": 1}, "b": [{"a": 2}]}') == {"a": {"a": 1}, "b": [{"a": 2}]}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("result.json", lambda file: read_result(file.parent)),
        ("summary.json", lambda file: read_summary(file, "do it again")),
        ("querytruth-model.json", lambda file: read_model_description(file.parent)),
        ("transcript.jsonl", transcripts._read),
    ],
)
def test_every_reader_of_a_file_refuses_it(name: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    from querytruth.dual_encoder.checkpoints import DESCRIPTION

    file = tmp_path / (DESCRIPTION if name == "querytruth-model.json" else name)
    file.write_text('{"model": {"name": "m", "revision": "r"}, "format": 1, "format": 1}')
    with pytest.raises(UserError) as caught:
        read(file)
    assert name == "transcript.jsonl" or "twice" in caught.value.reason


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("red car", "en"),
        ("une voiture rouge à côté", "en"),
        ("红色汽车", "zh"),
        ("一辆 BMW 汽车", "zh"),
        ("欧文・斯通的书", "zh"),
        ("赤い車", "ja"),
        ("빨간 차", "ko"),
        ("красная машина", "ru"),
        ("سيارة حمراء", "ar"),
        ("🐶 7", "und"),
        ("2024", "und"),
    ],
)
def test_the_language_is_that_of_the_letters(text: str, language: str) -> None:
    assert detect_language(text) == language
