"""The forms in which annotation files list attributes."""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.annotations.attribute_values import parse_attributes, read_attributes


@pytest.mark.parametrize(
    ("value", "names", "is_complete"),
    [
        (["red", "Dark_Red ", "red"], ["red", "dark red"], True),
        ([], [], True),
        (None, [], False),
        ("red", [], False),
        (["red", 3], ["red"], False),
        ({"colour": "red", "wet": True, "broken": False, "track_id": 7}, ["red", "wet"], True),
        ({"colour": "unknown", "wet": True}, ["wet"], False),
        ({"colour": None}, [], False),
        ({"colour": ["red"]}, [], False),
        (["\ud800"], [], False),
    ],
)
def test_attributes_of_a_box(value: Any, names: list[str], is_complete: bool) -> None:
    assert parse_attributes(value) == (names, is_complete)


def test_a_file_has_the_attributes_of_all_its_records(tmp_path: Path) -> None:
    records: list[Any] = [{"attributes": ["red"]}, {}, 7, {"attributes": {"wet": True, "colour": "red"}}]
    file = tmp_path / "boxes.json"
    file.write_text(json.dumps({"images": [], "annotations": records, "info": {"attributes": ["blue"]}}))
    read = read_attributes(file)
    assert [(number, read.names[code]) for number, code in zip(read.record, read.code, strict=True)] == [
        (0, "red"),
        (3, "wet"),
        (3, "red"),
    ]
    assert read.listed.tolist() == [0, 3]
