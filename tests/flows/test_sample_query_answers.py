"""The sample album's generated set: both stages from the transcript, people's answers through the real table, pictures
by the album's descriptions; and what of it is true of the drawn scenes."""

from pathlib import Path
from typing import Any

import pytest

from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import StageResult, load_chosen_objects, run_objects_stage, run_topics_stage
from flows.definition_loader import load_definition
from querytruth.errors import UserError
from querytruth.sample_album.album import CaptionRequirement
from querytruth.sample_album.album_files import (
    SAMPLE_DEFINITIONS_FOLDER,
    fill_in_answers,
)
from querytruth.sample_album.fitting_images import parse_requirement
from tests.flows.transcript_recording import TRANSCRIPT, load_replies, record_transcript


def sample(out: Path, album: Path) -> GeneratedDefinition:
    given = [
        f"out={out}",
        f"topics.options.replies={TRANSCRIPT}",
        f"topics.samples={SAMPLE_DEFINITIONS_FOLDER / 'topics.yaml'}",
        f"collect.options.index={album / 'descriptions.csv'}",
        f"collect.options.images={album / 'images'}",
        "render.size=64",
    ]
    definition: Any = load_definition(SAMPLE_DEFINITIONS_FOLDER / "generated.yaml", given, "generated")
    return definition  # type: ignore[no-any-return]


def both(definition: GeneratedDefinition) -> list[StageResult]:
    results = []
    for stage in (run_topics_stage, run_objects_stage):
        results.append(stage(definition, "generated.yaml"))
        fill_in_answers(results[-1].file, results[-1].stage)
    return results


def test_the_transcript_answers_every_question_and_rows_are_turned_away_for_real_reasons(tmp_path: Path) -> None:
    topics, objects = both(sample(tmp_path, tmp_path))
    assert topics.rows == {"accepted": 34, "cut_off": 1, "in_prompt": 3, "repeated": 1, "too_long": 1}
    told = {"accepted": 60, "in_prompt": 13, "known": 4, "too_long": 1, "too_similar": 21, "wrong_language": 1}
    assert objects.rows == told
    assert topics.ledger.stages[0].rejected == objects.ledger.stages[0].rejected == {"nothing_listed": 1}
    assert topics.health.warnings == objects.health.warnings == ()
    assert (topics.calls, objects.calls) == (0, 0)


def test_people_s_answers_go_through_the_table_that_they_have(tmp_path: Path) -> None:
    definition = sample(tmp_path, tmp_path)
    both(definition)
    kept = load_chosen_objects(definition, "generated.yaml")
    texts = set(kept["text"])
    assert {"划艇", "绿色的瓶子"} <= texts and not {"小船", "绿色瓶子", "红色苹果", "书柜", "吉他"} & texts
    assert set(kept["topic"]) == {"动物", "交通工具", "水果", "家具", "鞋子", "餐桌", "户外活动"}
    table = (tmp_path / "sample-queries" / "review" / "objects.csv").read_text("utf-8-sig")
    assert "the same as 红色的苹果" in table


def test_an_answer_to_a_row_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    topics = run_topics_stage(sample(tmp_path, tmp_path), "generated.yaml")
    with pytest.raises(UserError, match=r"has no row .*一只白色的小狗"):
        fill_in_answers(topics.file, "objects")


def test_the_transcript_is_what_recording_it_again_gives() -> None:
    assert record_transcript(load_replies()) == TRANSCRIPT.read_text("utf-8")


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("狗", CaptionRequirement("Dog", None, None)),
        ("红色的帆船", CaptionRequirement("Sailboat", "red", None)),
        ("绿色沙发", CaptionRequirement("Couch", "green", None)),
        ("穿红色上衣的人", CaptionRequirement("Person", "red", None)),
        ("一把香蕉", CaptionRequirement("Banana", None, None)),
        ("橙子", CaptionRequirement("Orange/Tangerine", None, None)),
        ("海滩", None),
        ("红色的企鹅", None),
    ],
)
def test_what_a_query_asks_of_a_scene(query: str, asked: CaptionRequirement | None) -> None:
    assert parse_requirement(query) == asked
