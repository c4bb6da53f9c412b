"""Which images of a folder the ids of an answer are: once each, and what is none keeps its rank."""

from pathlib import Path

import pytest

from querytruth.backends.search_systems import SearchHit
from querytruth.checks.answers import match_answers
from querytruth.errors import UserError
from querytruth.evaluation.system_answers import SystemAnswer
from tests.checks.golden_world import write_photos


def match(root: Path, ids: list[str], form: str = "image_id") -> list[str]:
    answer = SystemAnswer(tuple(SearchHit(name, 0.5) for name in ids))
    (found,) = match_answers([answer], root, form, "mine")
    return [hit.id.replace("no image: ", "?") for hit in found.hits]


def test_an_image_and_an_unknown_id_count_once_and_a_result_without_an_id_keeps_its_rank(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.jpg", "b.jpg"])
    assert match(tmp_path, ["x", "a.jpg", "x", "a.jpg", "", "", "b.jpg"]) == ["?x", "a.jpg", "?", "?", "b.jpg"]


def test_only_images_are_meant_by_an_id(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.jpg", "sub/my dog 1.jpg"])
    (tmp_path / "a.json").write_text("{}")
    assert match(tmp_path, ["a", "photos/sub/my%20dog%201.jpg"]) == ["a.jpg", "sub/my dog 1.jpg"]
    assert match(tmp_path, ["t/a.webp", "t/sub%2Fmy%20dog%201.webp"], "t/{file_stem}.webp") == [
        "a.jpg",
        "sub/my dog 1.jpg",
    ]


def test_scores_that_are_no_numbers_are_none(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.jpg"])
    hits = (SearchHit("a.jpg", float("nan")), SearchHit("b", float("inf")), SearchHit("c", -1.0))
    (found,) = match_answers([SystemAnswer(hits)], tmp_path, "image_id", "mine")
    assert [hit.score for hit in found.hits] == [None, None, -1.0]


def test_ids_of_another_kind_and_ids_of_several_images_are_refused(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.jpg", "one/b.jpg", "two/b.jpg"])
    with pytest.raises(UserError, match="matches several images"):
        match(tmp_path, ["b.jpg"])
    for form in ("sha1", "source_url", "image:{image_id}"):
        with pytest.raises(UserError, match="returned no image"):
            match(tmp_path, ["a.jpg"], form)
    assert match(tmp_path, []) == []
