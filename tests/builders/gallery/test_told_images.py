"""What people say of near-duplicates, followed by the next build: the sample album, decided on the page."""

from pathlib import Path
from typing import Any

import pytest

from builders.publication import BuildResult, publish_decisions
from flows.definition_loader import load_definition
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set
from querytruth.sample_album.album_files import write_sample_album
from querytruth.sets import set_files
from tests.review.server.pages import ReviewClient, open_client
from tests.worlds import build_of


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("album")
    write_sample_album(folder, 40)
    return folder / "images"


def build(folder: Path, album: Path, **more: Any) -> BuildResult:
    path = folder / "gallery.yaml"
    path.write_text(f"{{name: album, kind: gallery, images: {album}, out: {folder / 'sets'}}}")
    return build_of("gallery", path)


def page_of(result: BuildResult) -> ReviewClient:
    return open_client(set_files.read_set(result.path))


def items(result: BuildResult) -> set[str]:
    return set(set_files.read_set(result.path).tables.images["file_name"])


def say(page: ReviewClient, key: str, decision: str) -> Any:
    return page.post("/api/duplicates/decide", {"view": "duplicates", "key": key, "decision": decision, "note": ""})


@pytest.mark.thorough
def test_two_decisions_make_the_next_version_and_nothing_else_changes(tmp_path: Path, album: Path) -> None:
    first = build(tmp_path, album)
    page = page_of(first)
    keys = page.get("/api/duplicates/queue").json()["keys"]
    assert len(keys) >= 2
    cards = [page.get("/api/duplicates/cards", params={"key": key}).json()["cards"][0] for key in keys[:2]]
    say(page, keys[0], "different")
    say(page, keys[1], "same")
    waiting = publish_decisions(first.path)
    assert not waiting.is_new and waiting.waiting_count == 2, "they wait for a build"
    second = build(tmp_path, album)
    assert second.version == 2 and not second.stale
    assert items(second) - items(first) == {cards[0]["other"]["name"]} and items(first) <= items(second)
    tables = set_files.read_set(second.path).tables
    assert cards[0]["other"]["name"] not in set(tables.ledger["item"]) | set(tables.duplicates["item"])
    assert cards[1]["other"]["name"] in set(tables.duplicates["item"])
    before, after = (
        {stage["stage"]: stage for stage in one.manifest["funnel"]}["duplicates"] for one in (first, second)
    )
    assert after["accepted"] == before["accepted"] + 1 and after["entered"] == before["entered"]
    assert len(second.manifest["decisions"]["in_effect"]) == 2
    assert rebuild_tables(second.path).digest == second.manifest["content_digest"]
    assert rebuild_tables(first.path).digest == first.manifest["content_digest"], "that one holds none of them"
    assert publish_decisions(second.path).waiting_count == 0 and not build(tmp_path, album).is_new


@pytest.mark.thorough
def test_undone_it_is_as_before_and_the_version_in_between_still_builds(tmp_path: Path, album: Path) -> None:
    first = build(tmp_path, album)
    page = page_of(first)
    key = page.get("/api/duplicates/queue").json()["keys"][0]
    say(page, key, "different")
    second = build(tmp_path, album)
    page = page_of(second)
    (apart,) = page.get("/api/duplicates/queue", params={"state": "decided"}).json()["keys"]
    assert apart.startswith("apart/"), "they are in no group together, and can be decided anew"
    assert page.post("/api/duplicates/undo", {"view": "duplicates"}).json()["card"]["own"] is None
    assert publish_decisions(second.path).waiting_count == 1
    assert rebuild_tables(second.path).digest == second.manifest["content_digest"]
    third = build(tmp_path, album)
    assert third.manifest["content_digest"] == first.manifest["content_digest"] and third.version == 3


@pytest.mark.thorough
def test_a_decision_on_an_image_that_is_gone_is_listed(tmp_path: Path, album: Path) -> None:
    first = build(tmp_path, album)
    page = page_of(first)
    key = page.get("/api/duplicates/queue").json()["keys"][0]
    say(page, key, "different")
    other = page.get("/api/duplicates/cards", params={"key": key}).json()["cards"][0]["other"]
    less = tmp_path / "less"
    for file in album.rglob("*"):
        if file.is_file() and file.relative_to(album).as_posix() != other["name"]:
            copy = less / file.relative_to(album)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    again = build(tmp_path, less)
    ((decision, why),) = again.stale
    assert other["image_id"] in decision.text and "missing" in why
    applied = publish_decisions(again.path)
    assert (applied.stale, applied.waiting_count) == (again.stale, 0), "applying on top of it forgets neither"


@pytest.mark.thorough
def test_a_precision_set_marks_as_people_say_and_apply_keeps_what_was_built(tmp_path: Path, album: Path) -> None:
    path = tmp_path / "precision.yaml"
    path.write_text(
        f"{{name: judged, kind: precision, annotations: {album.parent / 'annotations.json'}, images: {album}, "
        f"labels: from_annotations, searchable: {{min_images: 2}}, out: {tmp_path / 'sets'}}}"
    )
    first = build_set(load_definition(path, [], "precision"))
    page = page_of(first)
    key = page.get("/api/duplicates/queue").json()["keys"][0]
    card = say(page, key, "different").json()["card"]
    second = build_set(load_definition(path, [], "precision"))
    groups = [set_files.read_set(one.path).tables.images.set_index("image_id") for one in (first, second)]
    parted = [card["one"]["image_id"], card["other"]["image_id"]]
    assert groups[0].loc[parted, "duplicate_group"].nunique() == 1
    assert groups[1].loc[parted, "duplicate_group"].isna().all() and len(groups[0]) == len(groups[1]), "all stay"
    query = set_files.read_set(second.path).tables.queries.iloc[0]
    page_of(second).decide(query["query_id"], query["text"], "drop")
    third = publish_decisions(second.path)
    assert third.version == 3 and third.waiting_count == 0
    assert set(second.manifest["decisions"]["in_effect"]) < set(third.manifest["decisions"]["in_effect"])
    assert rebuild_tables(third.path).digest == third.manifest["content_digest"]
