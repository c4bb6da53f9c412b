"""What `querytruth review` is given: a set, a table, or something else, of which it says what to open instead."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.review_targets import suggest_next_command
from querytruth.cli.app import main
from tests.review.pool_tables import object_table, topic_table, write_export

Said = Callable[..., tuple[object, str]]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Exit code and stderr, on one line, of `querytruth review …`."""

    def call(*words: object) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["querytruth", "review", *map(str, words), "--no-open"])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, " ".join(capsys.readouterr().err.split())

    return call


def test_a_table_keeps_no_names_so_a_reviewer_is_a_wrong_call(said: Said, tmp_path: Path) -> None:
    table = write_export(tmp_path, "topics", topic_table())
    code, told = said(table, "--reviewer", "lin")
    assert code == 2 and "it records no names" in told and "--reviewer" in told


def test_a_table_that_lost_its_encoding_is_to_be_saved_again_for_the_page_has_no_option(
    said: Said, tmp_path: Path
) -> None:
    table = write_export(tmp_path, "topics", topic_table())
    table.write_bytes(table.read_bytes().decode("utf-8-sig").encode("gb18030"))
    code, told = said(table)
    assert code == 1 and told.endswith("Next: save it as CSV UTF-8") and "--encoding" not in told


def test_a_definition_names_the_tables_and_the_set_that_there_are(said: Said, tmp_path: Path) -> None:
    definition = tmp_path / "g.yaml"
    definition.write_text(f"name: tiny\nkind: generated\nout: {tmp_path}\n")
    assert said(definition) == (1, f"error {definition} (review): is a definition, not a set. Next: build tiny first")
    tables = [write_export(tmp_path, "objects", object_table()), write_export(tmp_path, "topics", topic_table())]
    code, told = said(definition)
    assert code == 1 and told.endswith(f"Next: querytruth review {tables[0]} or querytruth review {tables[1]}")
    (tmp_path / "tiny" / "v3").mkdir()
    (tmp_path / "tiny" / "v3" / "manifest.json").write_text("{}")
    assert f"Next: querytruth review {tmp_path / 'tiny'} or querytruth review {tables[0]}" in said(definition)[1]


@pytest.mark.parametrize("text", ["", "- a\n", "name: [1]\n", "name: {\n"])
def test_a_file_that_names_no_set_is_one_line_too(said: Said, tmp_path: Path, text: str) -> None:
    (tmp_path / "g.yml").write_text(text)
    code, told = said(tmp_path / "g.yml")
    assert code == 1 and "is a definition, not a set. Next: give a set's name" in told
    assert "has no published version" in said(tmp_path / "missing.yaml")[1]


def test_a_gallery_goes_on_with_captions_or_with_what_was_said_of_images() -> None:
    assert suggest_next_command("album", ["Captions", "Decisions"]) == "querytruth build recall DEFINITION"
    assert suggest_next_command("album", ["Captions", "Duplicates", "Decisions"]).endswith(
        "images: querytruth build gallery DEFINITION"
    )
