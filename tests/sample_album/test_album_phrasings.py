"""The sample album's questions in other words: what was written by hand, and what becomes of it."""

from pathlib import Path

import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, write_sample_album
from querytruth.sets import set_files
from tests.flows.phrasing_recording import TRANSCRIPT, load_written_texts, record_phrasings

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.thorough  # sets are built


def test_the_transcript_answers_every_question_and_each_text_ends_as_intended(tmp_path: Path) -> None:
    write_sample_album(tmp_path)
    places = [f"annotations={tmp_path / 'annotations.json'}", f"images={tmp_path / 'images'}", f"out={tmp_path}"]
    definition = load_definition(SAMPLE_DEFINITIONS_FOLDER / "phrasings.yaml", places, "precision")
    built = build_set(definition)
    written = load_written_texts()
    intended = {one["text"]: one.get("outcome", "accepted") for texts in written.values() for one in texts}
    stages = {stage["stage"]: stage for stage in built.manifest["funnel"]}
    assert stages["reworded"]["accepted"] == stages["reworded"]["entered"] == len(written)
    assert stages["phrasings"]["entered"] == len(intended) and not stages["phrasings"]["pending"]
    tables = set_files.read_set(built.path).tables
    rejected = tables.ledger[tables.ledger["stage"] == "phrasings"]
    ended = dict.fromkeys(tables.queries.loc[tables.queries["style"] == "llm", "text"], "accepted")
    assert ended | dict(zip(rejected["text"], rejected["reason"], strict=True)) == intended
    for language, page in (("en", "precision.md"), ("zh", "zh/precision.md")):
        rows = rejected[rejected["language"] == language]
        lines = [f"{item}: {reason}\n" for item, reason in zip(rows["item"], rows["reason"], strict=True)]
        assert lines and "".join(lines) in (DOCS / page).read_text("utf-8"), "the page shows what was rejected"


def test_the_transcript_is_the_one_of_the_written_texts() -> None:
    assert TRANSCRIPT.read_text("utf-8") == record_phrasings()
