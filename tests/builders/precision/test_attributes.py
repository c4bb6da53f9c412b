"""The forms in which annotation files list attributes."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders.precision.annotation_records import parse_attributes, read_attributes
from builders.precision.attributes import AttributeChoice, choose_attributes, is_number


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
        ({"wet": "true", "open": "No", "old": "yes", "worn": "none"}, ["wet", "old"], False),
        ({"colour": None}, [], False),
        ({"colour": ["red"]}, [], False),
        (["\ud800"], [], False),
    ],
)
def test_attributes_of_a_box(value: Any, names: list[str], is_complete: bool) -> None:
    pairs, complete = parse_attributes(value)
    assert ([name for _, name in pairs], complete) == (names, is_complete)


def test_a_file_has_the_attributes_of_all_its_records(tmp_path: Path) -> None:
    records: list[Any] = [{"attributes": ["red"]}, {}, 7, {"attributes": {"wet": True, "colour": "red"}}]
    file = tmp_path / "boxes.json"
    file.write_text(json.dumps({"images": [], "annotations": records, "info": {"attributes": ["blue"]}}))
    read = read_attributes(file, AttributeChoice())
    assert [(number, read.names[code]) for number, code in zip(read.record, read.code, strict=True)] == [
        (0, "red"),
        (3, "wet"),
        (3, "red"),
    ]
    assert read.listed.tolist() == [0, 3]


def _ask(tmp_path: Path, choice: AttributeChoice, *values: Any) -> tuple[list[str], dict[tuple[str, str], int]]:
    """The names that are asked for, and what was left out, of a file with these attributes."""
    file = tmp_path / "boxes.json"
    file.write_text(json.dumps({"annotations": [{"attributes": value} for value in values]}), "utf-8")
    read = read_attributes(file, choice)
    assert read.listed.tolist() == list(range(len(values))), "what is left out makes no list incomplete"
    return sorted(read.names), dict(read.left_out)


CVAT = {"occluded": True, "keyframe": "true", "truncated": "1", "score": "0.93", "track_id": 5, "colour": "red"}


def test_what_an_annotation_tool_notes_is_no_attribute_and_is_counted(tmp_path: Path) -> None:
    """Else there would be questions for "1 chair" and "keyframe banana"."""
    names, left_out = _ask(tmp_path, AttributeChoice(), CVAT, CVAT, ["wet", "isOccluded", "2", "fake"])
    assert names == ["fake", "red", "wet"]
    assert left_out == {
        ("occluded", "bookkeeping"): 2,
        ("keyframe", "bookkeeping"): 2,
        ("truncated", "number"): 2,
        ("score", "number"): 2,
        ("isoccluded", "bookkeeping"): 1,
        ("2", "number"): 1,
    }


def test_a_definition_names_allows_and_excludes_attributes(tmp_path: Path) -> None:
    worn = {"is_occluded": True, "colour": "Dark_Red", "wet": True}
    assert _ask(tmp_path, choose_attributes(None, ["is occluded"], []), worn)[0] == ["dark red", "is occluded", "wet"]
    assert _ask(tmp_path, choose_attributes(["Colour"], [], []), worn)[0] == ["dark red"]
    assert _ask(tmp_path, choose_attributes(["is_occluded"], [], []), worn)[0] == ["is occluded"]
    names, left_out = _ask(tmp_path, choose_attributes(None, [], ["dark red", "wet"]), worn)
    assert names == [] and left_out[("colour", "excluded")] == left_out[("wet", "excluded")] == 1


@pytest.mark.parametrize("text", ["1", "0.93", "0,93", "1e-3", "-2", "93 %", "3/4", "１２", "三", "#7", "2024-05-01"])
def test_a_number_is_one_in_any_spelling(text: str) -> None:
    assert is_number(text)


@pytest.mark.parametrize("text", ["red", "4-door", "e", "三条纹", "dark red", "-"])
def test_a_word_is_no_number(text: str) -> None:
    assert not is_number(text)
