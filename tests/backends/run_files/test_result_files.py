"""The folder of a result: whole or not there, and safe to open in a spreadsheet."""

import csv
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from backends.run_files.result_files import (
    PER_QUERY_CSV_FILE,
    PER_QUERY_FILE,
    RESULT_FILE,
    RESULT_FILE_NAMES,
    RUN_FILE,
    read_per_query,
    read_result,
    write_result,
)
from backends.run_files.run_reader import read_run
from builders.errors import UserError

PER = pd.DataFrame({"query_id": ["q1", "q2"], "text": ["=1+1", "一只狗"], "hit@1": [1.0, 0.0]})
SHOWN = pd.DataFrame({"query_id": ["q1", "q2"], "image_id": pd.Categorical(["b", "a"]), "score": [1.0, 0.5]})
TABLES = {RUN_FILE: SHOWN, PER_QUERY_FILE: PER, PER_QUERY_CSV_FILE: PER}


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    write_result(tmp_path / "r", {"direction": "text_to_image"}, TABLES, {"host": "x"})
    told = read_result(tmp_path / "r")
    assert told["direction"] == "text_to_image" and told["envelope"] == {"host": "x"}
    assert {name: file["rows"] for name, file in told["files"].items()} == dict.fromkeys(TABLES, 2)
    assert read_per_query(tmp_path / "r")["hit@1"].to_dict() == {"q1": 1, "q2": 0}
    assert read_run(tmp_path / "r" / RUN_FILE)["score"].tolist() == [1, 0.5]
    rows = list(csv.reader((tmp_path / "r" / PER_QUERY_CSV_FILE).read_text("utf-8-sig").splitlines()))
    assert rows == [["query_id", "text", "hit@1"], ["q1", "'=1+1", "1.0"], ["q2", "一只狗", "0.0"]]


def test_nothing_of_an_older_result_stays(tmp_path: Path) -> None:
    for name in RESULT_FILE_NAMES:
        (tmp_path / name).write_text("old")
    write_result(tmp_path, {}, TABLES, {})
    assert {path.name for path in tmp_path.iterdir()} == {RESULT_FILE, *TABLES}


def test_ids_are_texts_whatever_order_their_categories_have(tmp_path: Path) -> None:
    again = SHOWN.assign(image_id=SHOWN["image_id"].cat.reorder_categories(["b", "a"]))
    write_result(tmp_path / "one", {}, TABLES, {})
    write_result(tmp_path / "other", {}, TABLES | {RUN_FILE: again}, {})
    assert (tmp_path / "one" / RUN_FILE).read_bytes() == (tmp_path / "other" / RUN_FILE).read_bytes()
    assert {str(field.type) for field in pq.read_schema(tmp_path / "one" / RUN_FILE)} == {"string", "double"}


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="give another folder with --report"):
        write_result(tmp_path / "file" / "r", {}, TABLES, {})
    with pytest.raises(UserError, match="cannot be read"):
        read_per_query(tmp_path)
