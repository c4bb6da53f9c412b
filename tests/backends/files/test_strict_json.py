"""A key that is there twice is an error wherever querytruth reads JSON: `json` would keep the last value."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.generated.generation_journal import read_summary
from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.models import stored_answers as transcripts
from querytruth.dual_encoder.checkpoints import read_model_description
from querytruth.errors import UserError
from querytruth.evaluation.result_files import read_result
from querytruth.sets.decision_records import parse_decision


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


def test_a_decision_with_two_verdicts_is_none() -> None:
    with pytest.raises(ValueError, match="occurs twice"):
        parse_decision('{"query_id": "q_1", "verdict": "accept", "verdict": "reject"}')
