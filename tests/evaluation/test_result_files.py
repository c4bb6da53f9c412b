"""The folder of a result: whole or not there, and safe to open in a spreadsheet."""

import csv
import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.result_files import (
    PER_QUERY_CSV_FILE,
    PER_QUERY_FILE,
    RESULT_FILE,
    RESULT_FILE_NAMES,
    RUN_FILE,
    check_result_table,
    find_run_file,
    read_per_query,
    read_result,
    write_result,
)
from querytruth.evaluation.run_files import read_run

PER = pd.DataFrame({"query_id": ["q1", "q2"], "text": ["=1+1", "一只狗"], "hit@1": [1.0, 0.0]})
SHOWN = pd.DataFrame({"query_id": ["q1", "q2"], "image_id": pd.Categorical(["b", "a"]), "score": [1.0, 0.5]})
CONTENT = {
    "system": {"name": "lexical", "kind": "baseline"},
    "set": {"name": "album", "content_digest": "a" * 64, "version": 1},
    "direction": "text_to_image",
    "counts": {"queries_missing": 0},
    "figures": [{"metric": "hit@1", "value": 0.5, "low": 0.1, "high": None}],
    "slices": [],
    "warnings": [],
}
TABLES = {RUN_FILE: SHOWN, PER_QUERY_FILE: PER, PER_QUERY_CSV_FILE: PER}


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    write_result(tmp_path / "r", CONTENT, TABLES, {"host": "x"})
    told = read_result(tmp_path / "r")
    assert told["direction"] == "text_to_image" and told["envelope"] == {"host": "x"}
    assert {name: file["rows"] for name, file in told["files"].items()} == dict.fromkeys(TABLES, 2)
    assert read_per_query(tmp_path / "r", told)["hit@1"].to_dict() == {"q1": 1, "q2": 0}
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


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("system", "lexical", r"`system`|Expected `object`"),
        ("figures", [{"metric": 3}], "metric"),
        ("files", {"run.parquet": {"rows": 1, "sha256": "../../x"}}, "sha256"),
        ("counts", {"queries_with_a_tie_at_the_cut": [1]}, "queries_with_a_tie_at_the_cut"),
    ],
)
def test_a_result_from_a_stranger_is_checked_key_by_key(key: str, value: object, message: str, tmp_path: Path) -> None:
    write_result(tmp_path, CONTENT, TABLES, {})
    file = tmp_path / RESULT_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(UserError, match=message):
        read_result(tmp_path)


def test_a_changed_figure_in_a_result_is_refused_and_so_is_a_result_without_its_digest(tmp_path: Path) -> None:
    write_result(tmp_path, CONTENT, TABLES, {})
    file = tmp_path / RESULT_FILE
    file.write_text(file.read_text().replace('"value": 0.5', '"value": 0.9'))
    with pytest.raises(UserError, match=r"result\.json \(read result\): is damaged: its checksum does not match"):
        read_result(tmp_path)
    content = json.loads(file.read_text())
    del content["result_digest"]
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="result_digest"):
        read_result(tmp_path)


@pytest.mark.parametrize("name", [RESULT_FILE, RUN_FILE, PER_QUERY_FILE])
def test_a_link_in_a_result_is_not_followed(name: str, tmp_path: Path) -> None:
    write_result(tmp_path / "r", CONTENT, TABLES, {})
    (tmp_path / "r" / name).rename(tmp_path / "outside")
    (tmp_path / "r" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match=rf"{name} \(read result\): is a link"):
        find_run_file(tmp_path / "r") if name == RUN_FILE else per_query(tmp_path / "r")


@pytest.mark.parametrize("text", ["[" * 90_000, '{"a": 1e999}', '{"a": 12345678901234567890}', "<html>", r'"\ud800"'])
def test_what_is_no_result_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / RESULT_FILE).write_text(text)
    with pytest.raises(UserError, match=r"result\.json"):
        read_result(tmp_path)


def test_tables_that_are_not_those_of_the_result_are_refused(tmp_path: Path) -> None:
    write_result(tmp_path, CONTENT, TABLES, {})
    result = read_result(tmp_path)
    assert find_run_file(tmp_path) == tmp_path / RUN_FILE and find_run_file(tmp_path / "r.trec") == tmp_path / "r.trec"
    for name, read in ((RUN_FILE, lambda: find_run_file(tmp_path)), (PER_QUERY_FILE, lambda: per_query(tmp_path))):
        data = bytearray((tmp_path / name).read_bytes())
        data[len(data) // 2] ^= 1
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=rf"{name}.*is damaged"):
            read()
        (tmp_path / name).unlink()
        with pytest.raises(UserError, match=name):
            read()
    with pytest.raises(UserError, match=r"left_out\.csv.*is not in result\.json"):
        check_result_table(tmp_path, "left_out.csv", result)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (PER.drop(columns="hit@1"), "lacks figures"),
        (PER.drop(columns="query_id"), "lacks figures"),
        (PER.assign(**{"hit@1": ["1", "0"]}), "lacks figures"),
        (pd.concat([PER, PER]), "contains a query twice"),
    ],
)
def test_figures_that_do_not_fit_the_result_are_refused(table: pd.DataFrame, message: str, tmp_path: Path) -> None:
    write_result(tmp_path, CONTENT, TABLES | {PER_QUERY_FILE: table}, {})
    with pytest.raises(UserError, match=message):
        per_query(tmp_path)


def per_query(folder: Path) -> pd.DataFrame:
    return read_per_query(folder, read_result(folder))
