"""The sample album knows which of its captions fit several pictures: what the recall set says of that is true."""

from pathlib import Path

import pytest

from flows.definitions import load_definition
from flows.sample_album_files import SAMPLE_DEFINITIONS_FOLDER, check_sample_captions, write_sample_album
from flows.set_kinds import build_set
from flows.steps import BuildRun, active_run


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("drawn")
    with active_run(BuildRun()):
        write_sample_album(place / "album")
        given = [f"images={place / 'album' / 'pictures'}", f"out={place}", "render.size=64"]
        build_set(load_definition(SAMPLE_DEFINITIONS_FOLDER / "gallery.yaml", given, "gallery"))
    return place


def captions(place: Path, *more: str) -> tuple[Path, dict[str, int]]:
    given = [f"{part}.options.path={place / 'album' / part}.csv" for part in ("captions", "descriptions")]
    with active_run(BuildRun()):
        given = [*given, f"out={place}", "sizes=[]", *more]
        result = build_set(load_definition(SAMPLE_DEFINITIONS_FOLDER / "recall.yaml", given, "recall"))
    return result.path, result.manifest["notes"]["ambiguity"]["before"]


@pytest.mark.slow
def test_merged_the_ground_truth_is_the_true_one(drawn: Path) -> None:
    path, before = captions(drawn)
    check = check_sample_captions(path, drawn / "album")
    assert (before["queries"], before["ambiguous"], check.ambiguous) == (480, 72, 72)
    assert check.queries == check.exactly_judged == 452, "28 said the same of the same pictures as another one"


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
