"""Images that people rescue on the page, followed by the next build: the sample album, and a few drawn ones."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from builders.publication import BuildResult, publish_decisions
from flows.rebuild import rebuild_tables
from querytruth.sample_album.album_files import write_sample_album
from querytruth.sets import set_files
from tests.flows.test_gallery_set import photo
from tests.images import draw_scene
from tests.review.server.pages import ReviewClient, open_client
from tests.worlds import build_of

WIDE = "2025/summer/beach_9006.jpg"  # of the album's own rejects the one that can be decoded


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("album")
    write_sample_album(folder, 40)
    return folder / "images"


def build(folder: Path, album: Path, rules: str = "select: {count: 20}") -> BuildResult:
    path = folder / "gallery.yaml"
    path.write_text(f"{{name: album, kind: gallery, images: {album}, out: {folder / 'sets'}, {rules}}}")
    return build_of("gallery", path)


def page_of(result: BuildResult) -> ReviewClient:
    return open_client(set_files.read_set(result.path))


def cards(page: ReviewClient, **wanted: str) -> dict[str, dict[str, Any]]:
    keys = page.get("/api/rejects/queue", params=wanted).json()["keys"][:48]
    return {card["name"]: card for card in page.get("/api/rejects/cards", params={"key": keys}).json()["cards"]}


def rescue(page: ReviewClient, card: dict[str, Any], note: str = "it belongs in") -> str:
    said = {"view": "rejects", "key": card["key"], "decision": "rescue", "note": note, "seen": card["shown"]["id"]}
    answer = page.post("/api/rejects/decide", said)
    assert answer.status_code == 200, answer.text
    return str(card["name"])


def items(result: BuildResult) -> set[str]:
    return set(set_files.read_set(result.path).tables.images["file_name"])


@pytest.mark.slow
def test_what_is_rescued_comes_on_top_of_what_the_build_chooses(tmp_path: Path, album: Path) -> None:
    first = build(tmp_path, album)
    page = page_of(first)
    left = sorted(cards(page, reason="not_selected").items())
    wanted = {rescue(page, cards(page, reason="too_large")[WIDE]), rescue(page, left[0][1])}
    waiting = publish_decisions(first.path)
    assert not waiting.is_new and waiting.waiting_count == 2, "they wait for a build"
    second = build(tmp_path, album)
    assert second.version == 2 and not second.stale
    assert items(second) == items(first) | wanted and len(items(second)) == 22
    assert not wanted & set(cards(page_of(second))), "no rejects any more"
    assert len(second.manifest["decisions"]["in_effect"]) == 2
    for one in (first, second):
        assert rebuild_tables(one.path).digest == one.manifest["content_digest"]
    assert publish_decisions(second.path).waiting_count == 0 and not build(tmp_path, album).is_new


@pytest.mark.slow
def test_who_is_rescued_takes_nobody_s_turn(tmp_path: Path) -> None:
    rules = "filter: {min_side: 200}, select: {count: 8}"
    for n in range(24):
        photo(tmp_path / "pile" / f"{n:02}.jpg", n, day=1 + n, size=(400, 300) if n % 2 else (160, 120))
    first = build(tmp_path, tmp_path / "pile", rules)
    page = page_of(first)
    wanted = {rescue(page, card) for card in cards(page, reason="too_small").values()}
    second = build(tmp_path, tmp_path / "pile", rules)
    assert len(wanted) == 12 and items(second) == items(first) | wanted and len(items(second)) == 20


@pytest.mark.slow
def test_undone_it_is_as_before_and_the_version_in_between_still_builds(tmp_path: Path, album: Path) -> None:
    first = build(tmp_path, album)
    rescue(page := page_of(first), cards(page, reason="too_large")[WIDE])
    second = build(tmp_path, album)
    answer = page_of(second).post("/api/rejects/undo", {"view": "rejects"}).json()["card"]
    assert answer["undone_name"] == WIDE and answer["undone"] == 1, "it is no reject of this version"
    assert publish_decisions(second.path).waiting_count == 1
    assert rebuild_tables(second.path).digest == second.manifest["content_digest"]
    third = build(tmp_path, album)
    assert third.manifest["content_digest"] == first.manifest["content_digest"] and third.version == 3


@pytest.mark.slow
def test_a_rescued_image_that_counts_as_another_is_listed_and_says_so_on_the_page(tmp_path: Path) -> None:
    pile = tmp_path / "pile"
    pile.mkdir()
    for n in range(3):
        draw_scene(n, (400, 300)).save(pile / f"{n}.jpg", quality=95)
    draw_scene(0, (400, 300)).resize((180, 135)).save(pile / "小.jpg", quality=90)
    first = build(tmp_path, pile, "filter: {min_side: 200}")
    rescue(page := page_of(first), cards(page)["小.jpg"])
    second = build(tmp_path, pile, "filter: {min_side: 200}")
    ((word, why),) = second.stale
    assert word.text == "小.jpg" and "same image" in why and second.manifest["decisions"]["in_effect"] == []
    card = cards(page_of(second))["小.jpg"]
    assert card["stage"] == "duplicates" and "same image" in card["own"]["stale"] and card["link"]
    assert rebuild_tables(second.path).digest == second.manifest["content_digest"], "the word moved it in the ledger"


@pytest.mark.slow
def test_a_rescued_image_that_is_gone_or_was_replaced_is_listed(tmp_path: Path, album: Path) -> None:
    pile = tmp_path / "pile"
    shutil.copytree(album, pile)
    first = build(tmp_path, pile)
    rescue(page := page_of(first), cards(page, reason="too_large")[WIDE])
    draw_scene(5, (5300, 300)).save(pile / WIDE)
    second = build(tmp_path, pile)
    assert [(word.text, "gone" in why) for word, why in second.stale] == [(WIDE, True)]
    assert second.manifest["content_digest"] == first.manifest["content_digest"]
    (pile / WIDE).unlink()
    assert [word.text for word, _ in build(tmp_path, pile).stale] == [WIDE]


@pytest.mark.slow
def test_two_files_of_the_same_bytes_are_rescued_as_one_image(tmp_path: Path) -> None:
    pile = tmp_path / "pile"
    pile.mkdir()
    draw_scene(0, (400, 300)).save(pile / "0.jpg")
    draw_scene(1, (100, 80)).save(pile / "a.jpg")
    shutil.copy(pile / "a.jpg", pile / "b.jpg")
    first = build(tmp_path, pile, "filter: {min_side: 200}")
    rescue(page := page_of(first), cards(page)["b.jpg"])
    second = build(tmp_path, pile, "filter: {min_side: 200}")
    assert items(second) == {"0.jpg", "a.jpg"} and not second.stale
    assert rebuild_tables(second.path).digest == second.manifest["content_digest"]
