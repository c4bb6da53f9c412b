"""The search log of the album: its private lines stay where they are, and its judgments are those of the scenes."""

from pathlib import Path

import pytest

from builders.lint import lint_tables
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.evaluation.judged_sets import build_evaluation_view, load_judged_set
from querytruth.sample_album.album import read_album
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, write_sample_album
from querytruth.sample_album.scripted_person import judge_sample_log
from querytruth.sets.set_files import read_set


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
