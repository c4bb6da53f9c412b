"""What lies beside the album: questions about its drawn scenes, their phrasings, and a search log."""

from pathlib import Path

import pytest

from builders.lint import lint_tables
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.evaluation.judged_sets import build_evaluation_view, load_judged_set
from querytruth.sample_album.album import read_album
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, write_sample_album
from querytruth.sample_album.scripted_person import judge_sample_log
from querytruth.sets import set_files
from querytruth.sets.set_files import read_set
from tests.flows.phrasing_recording import TRANSCRIPT, load_written_texts, record_phrasings

FAMILIES = ("count", "size", "spatial", "negation", "attribute")


@pytest.mark.thorough
def test_all_families_are_asked_in_both_languages(tmp_path: Path) -> None:
    write_sample_album(tmp_path)
    places = [f"annotations={tmp_path / 'annotations.json'}", f"images={tmp_path / 'images'}", f"out={tmp_path}"]
    definition = load_definition(SAMPLE_DEFINITIONS_FOLDER / "families.yaml", places, "precision")
    queries = set_files.read_set(build_set(definition).path).tables.queries
    asked = queries[queries["family"].notna()]
    families = set(zip(asked["language"], asked["family"].str.split("/").str[0], strict=True))
    assert families == {(one, name) for one in ("zh", "en") for name in FAMILIES}
    assert asked["twin"].notna().all()


@pytest.mark.thorough
def test_the_queries_of_the_log_are_judged_as_the_scenes_are_drawn(tmp_path: Path) -> None:
    write_sample_album(tmp_path / "album")
    places = [f"images={tmp_path / 'album' / 'images'}", f"out={tmp_path / 'sets'}", "render.size=64"]
    first = build_set(load_definition(SAMPLE_DEFINITIONS_FOLDER / "log.yaml", places, "queries"))
    assert sorted(first.manifest["funnel"][-3]["quarantined"]) == ["email", "telephone", "web_address"]

    judged = judge_sample_log(first.path, read_album())

    stored = read_set(judged.path)
    assert len(stored.tables.queries) == 60 and not [
        one for one in lint_tables(stored.tables) if one.check == "unjudged_query"
    ]
    view = build_evaluation_view(load_judged_set(judged.path), "text_to_image", ["hit@1"], [])
    assert 3 <= len(view.list_absent()) < 20 and len(view.query_ids) + len(view.list_absent()) == 60
    assert view.spec.log_sample is not None and len(view.spec.log_sample) == 60


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_the_transcript_is_the_one_of_the_written_texts() -> None:
    assert TRANSCRIPT.read_text("utf-8") == record_phrasings()
