"""Summaries of stages: there as a whole, or a line that says what to run."""

from pathlib import Path

import pytest

from builders.generated.generation_journal import read_summary, write_summary
from querytruth.errors import UserError


def test_a_summary_comes_back(tmp_path: Path) -> None:
    write_summary(tmp_path / "deep" / "topics.json", {"b": 1, "a": "食物"})
    assert read_summary(tmp_path / "deep" / "topics.json", "") == {"a": "食物", "b": 1}
    assert (tmp_path / "deep" / "topics.json").read_text("utf-8").startswith('{\n "a": "食物"')


def test_where_it_cannot_be_written_the_next_step_is_named(tmp_path: Path) -> None:
    (tmp_path / "generated" / "topics.json").mkdir(parents=True)
    with pytest.raises(UserError, match=r"cannot be written.*then run the same command"):
        write_summary(tmp_path / "generated" / "topics.json", {})


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b"\xff"])
def test_without_a_sound_one_the_next_step_is_named(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "topics.json").write_bytes(data)
    with pytest.raises(UserError, match="Next: run querytruth topics"):
        read_summary(tmp_path / "topics.json", "run querytruth topics")
