"""Rows that no build writes are refused where a table is read, with table and column."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from querytruth.errors import UserError
from querytruth.records import TABLE_SCHEMAS, check_rows

QUERY = {"query_id": "q_1", "text": "a cat", "language": "en", "style": "word", "level": 1, "labels": ["cat"]}
BOX = {"image_id": "i", "label": "cat", "counts_for": "[]", "left": 0.0, "top": 0.0, "right": 1.0, "bottom": 1.0}
PAIR = {"query_id": "q_1", "image_id": "i_1", "relevance": 1, "judged_by": "annotations"}


def check(name: str, *rows: dict[str, Any]) -> None:
    check_rows(name, pa.Table.from_pylist(list(rows), TABLE_SCHEMAS[name]))


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("queries", [QUERY, QUERY], "q_1 occurs twice"),
        ("images", [{"image_id": one, "width": 1, "height": 1} for one in ("i_2", "i_1", "i_2")], "i_2 occurs twice"),
        ("qrels", [PAIR, PAIR | {"relevance": 0}], "q_1, i_1 occurs twice"),
        ("qrels", [PAIR, PAIR | {"image_id": "i_0"}, PAIR], "q_1, i_1 occurs twice"),
        ("queries", [QUERY | {"labels": ["cat", None]}], "column labels: contains an empty label"),
        ("queries", [QUERY | {"labels": None, "family": "count/2"}], "a query with a family has no labels"),
        ("queries", [QUERY | {"labels": [], "family": "size/large"}], "a query with a family has no labels"),
        ("queries", [QUERY | {"style": "wo\u2028rd"}], "column style: contains a control"),
        ("queries", [QUERY | {"language": "e\nn"}], "column language: contains a control"),
        ("boxes", [BOX | {"top": float("nan")}], "column top: contains a value that is not a number"),
    ],
)
def test_a_row_that_no_build_writes_is_refused(name: str, rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check(name, *rows)


def test_rows_as_builds_write_them_pass() -> None:
    check("queries", QUERY, QUERY | {"query_id": "q_0", "labels": None})
    check("qrels", PAIR, PAIR | {"image_id": "i_0"}, PAIR | {"query_id": "q_0"})
    check("boxes", BOX, BOX)
    for name, schema in TABLE_SCHEMAS.items():
        check_rows(name, schema.empty_table())


@pytest.mark.parametrize("named", ["../w.safetensors", "/tmp/w.safetensors", "w.bin", "a/w.safetensors", "w.pt", 5])
def test_an_index_of_weights_names_plain_files_beside_it(tmp_path: Path, named: Any) -> None:
    import json

    from querytruth.backends.models.hub_models import check_weight_format

    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}))
    check_weight_format("m", tmp_path, "load model")
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": named}}))
    with pytest.raises(UserError, match=r"names .* which is not a \.safetensors file in the same folder"):
        check_weight_format("m", tmp_path, "load model")
