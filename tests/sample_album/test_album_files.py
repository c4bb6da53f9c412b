"""What lies beside the album: questions about its drawn scenes, their phrasings, and a search log."""

from pathlib import Path

import pytest

from builders.lint import lint_tables
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.evaluation.judged_sets import build_evaluation_view, load_judged_set
from querytruth.sample_album.album import AlbumImage, read_album
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, write_sample_album
from querytruth.sample_album.scripted_person import judge_sample_log
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import read_set
from tests.flows.phrasing_recording import TRANSCRIPT, load_written_texts, record_phrasings

FAMILIES = ("count", "size", "spatial", "negation", "attribute")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder: Path = tmp_path_factory.mktemp("families")
    write_sample_album(folder)
    places = [f"annotations={folder / 'annotations.json'}", f"images={folder / 'images'}", f"out={folder}"]
    definition = load_definition(SAMPLE_DEFINITIONS_FOLDER / "families.yaml", places, "precision")
    return set_files.read_set(build_set(definition).path).tables


@pytest.mark.thorough
def test_all_families_are_asked_in_both_languages(tables: Tables) -> None:
    asked = tables.queries[tables.queries["family"].notna()]
    families = set(zip(asked["language"], asked["family"].str.split("/").str[0], strict=True))
    assert families == {(one, name) for one in ("zh", "en") for name in FAMILIES}
    assert asked["twin"].notna().all()


@pytest.mark.thorough
def test_numbers_and_absences_are_those_of_the_drawn_scenes(tables: Tables, album: list[AlbumImage]) -> None:
    """`facts` are what the scene was drawn from, and not its boxes."""
    scenes = {image.file_name: image.facts for image in album}
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    by_query = tables.queries.set_index("query_id")[["text", "family", "labels"]].to_dict("index")
    checked = 0
    for row in tables.qrels.itertuples():
        text, family, labels = by_query[row.query_id].values()
        if not isinstance(family, str) or family.startswith(("size", "spatial", "attribute")):
            continue
        seen = [sum(count for one, _, count in scenes[names[row.image_id]] if one == label) for label in labels]
        if not scenes[names[row.image_id]]:
            continue  # a faulty file, whose boxes are only claimed
        is_right = {"count/2": seen[0] == 2, "count/3+": seen[0] >= 3, "negation/without": seen[0] > 0 == seen[-1]}
        assert (row.relevance > 0) == is_right[family], (text, names[row.image_id])
        checked += 1
    assert checked > 1000


@pytest.mark.thorough
def test_colours_are_those_of_the_drawn_scenes(tables: Tables, album: list[AlbumImage]) -> None:
    """`facts` are what the scene was drawn from: a label in a colour. Of a person it is the colour of the clothes."""
    scenes = {image.file_name: image.facts for image in album}
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    by_query = tables.queries.set_index("query_id")[["text", "family", "labels"]].to_dict("index")
    grades = []
    for row in tables.qrels.itertuples():
        text, family, labels = by_query[row.query_id].values()
        if isinstance(family, str) and family.startswith("attribute/"):
            colour = family.removeprefix("attribute/").removeprefix("in ")
            seen = {shown for label, shown, _ in scenes[names[row.image_id]] if label == labels[0]}
            assert seen and (row.relevance > 0) == (colour in seen), (text, names[row.image_id])
            assert ("in " in family) == (labels[0] == "Person")
            grades.append(row.relevance)
    assert len(grades) > 1000 and 0 in grades


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
