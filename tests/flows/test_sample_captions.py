"""The sample album knows its near-duplicates, its faults, and which of its captions fit several images: what the sets
say of these is true."""

from pathlib import Path

import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.sample_album.album import read_album
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, check_sample_captions, write_sample_album
from querytruth.sets import set_files


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("drawn")
    with active_run(BuildRun()):
        write_sample_album(place / "album")
        given = [f"images={place / 'album' / 'images'}", f"out={place}", "render.size=64"]
        build_set(load_definition(SAMPLE_DEFINITIONS_FOLDER / "gallery.yaml", given, "gallery"))
    return place


def captions(place: Path, *more: str) -> tuple[Path, dict[str, int]]:
    given = [f"{part}.options.path={place / 'album' / part}.csv" for part in ("captions", "descriptions")]
    with active_run(BuildRun()):
        given = [*given, f"out={place}", "sizes=[]", *more]
        result = build_set(load_definition(SAMPLE_DEFINITIONS_FOLDER / "recall.yaml", given, "recall"))
    return result.path, result.manifest["notes"]["ambiguity"]["before"]


@pytest.mark.thorough
def test_the_planted_near_duplicates_and_faults_are_found_and_no_others(drawn: Path) -> None:
    tables = set_files.read_set(set_files.find_set(str(drawn / "sample-gallery")), ("duplicates", "ledger")).tables
    groups = tables.duplicates.groupby("duplicate_group", observed=True)["item"].agg(set)
    album = read_album()
    assert sorted(map(sorted, groups)) == sorted(
        sorted([image.file_name, image.duplicate_of]) for image in album if image.duplicate_of
    )
    rejected = tables.ledger[tables.ledger["stage"] != "duplicates"]
    assert dict(zip(rejected["item"], rejected["reason"], strict=True)) == {
        "2023/autumn/park_9001.jpg": "cannot_be_decoded",
        "2023/winter/street_9002.jpg": "not_an_image",
        "2024/summer/beach_9003.jpg": "empty_file",
        "2024/autumn/lake_9004.jpg": "not_an_image",
        "2025/spring/meadow_9005.png": "too_many_pixels",
        "2025/summer/beach_9006.jpg": "too_large",
    }
    assert set(rejected["item"]) == {image.file_name for image in album if image.defect}


@pytest.mark.slow
def test_merged_the_ground_truth_is_the_true_one(drawn: Path) -> None:
    path, before = captions(drawn)
    check = check_sample_captions(path, drawn / "album")
    assert (before["queries"], before["ambiguous"], check.ambiguous) == (480, 72, 72)
    assert check.queries == check.exactly_judged == 452, "28 said the same of the same images as another one"


@pytest.mark.thorough
def test_marked_for_people_every_ambiguous_caption_is_found_and_no_other(drawn: Path) -> None:
    path, _ = captions(drawn, "ambiguity.policy=review", "name=marked")
    check = check_sample_captions(path, drawn / "album")
    assert (check.truly_ambiguous, check.reported, check.correctly_reported) == (72, 72, 72)


@pytest.mark.thorough
def test_by_captions_alone_most_are_found_and_none_wrongly(drawn: Path) -> None:
    path, _ = captions(drawn, "ambiguity.policy=review", "name=alone", "descriptions=null")
    check = check_sample_captions(path, drawn / "album")
    assert check.precision == 1 and 0.8 < check.recall < 1
