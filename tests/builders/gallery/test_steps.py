"""What people say of near-duplicates, followed by the next build: the sample album, decided on the page."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builders.publication import BuildResult, publish_decisions
from flows.definition_loader import load_definition
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set
from querytruth.backends.models.embedders import clip
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sample_album.album_files import write_sample_album
from querytruth.sets import set_files
from tests.images import draw_scene
from tests.review.server.pages import ReviewClient, open_client
from tests.tiny_dual_encoders import save_dual_encoder
from tests.worlds import build_of


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("album")
    write_sample_album(folder, 40)
    return folder / "images"


def page_of(result: BuildResult) -> ReviewClient:
    return open_client(set_files.read_set(result.path))


def items(result: BuildResult) -> set[str]:
    return set(set_files.read_set(result.path).tables.images["file_name"])


def say(page: ReviewClient, key: str, decision: str) -> Any:
    return page.post("/api/duplicates/decide", {"view": "duplicates", "key": key, "decision": decision, "note": ""})


@pytest.mark.thorough
def test_two_decisions_make_the_next_version_and_nothing_else_changes(tmp_path: Path, album: Path) -> None:
    first = build(tmp_path, album, rules="")
    page = page_of(first)
    keys = page.get("/api/duplicates/queue").json()["keys"]
    assert len(keys) >= 2
    cards = [page.get("/api/duplicates/cards", params={"key": key}).json()["cards"][0] for key in keys[:2]]
    say(page, keys[0], "different")
    say(page, keys[1], "same")
    waiting = publish_decisions(first.path)
    assert not waiting.is_new and waiting.waiting_count == 2, "they wait for a build"
    second = build(tmp_path, album, rules="")
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
    assert publish_decisions(second.path).waiting_count == 0 and not build(tmp_path, album, rules="").is_new


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


WIDE = "2025/summer/beach_9006.jpg"  # of the album's own rejects the one that can be decoded


def build(folder: Path, album: Path, rules: str = "select: {count: 20}") -> BuildResult:
    path = folder / "gallery.yaml"
    path.write_text(f"{{name: album, kind: gallery, images: {album}, out: {folder / 'sets'}, {rules}}}")
    return build_of("gallery", path)


def cards(page: ReviewClient, **wanted: str) -> dict[str, dict[str, Any]]:
    keys = page.get("/api/rejects/queue", params=wanted).json()["keys"][:48]
    return {card["name"]: card for card in page.get("/api/rejects/cards", params={"key": keys}).json()["cards"]}


def rescue(page: ReviewClient, card: dict[str, Any], note: str = "it belongs in") -> str:
    said = {"view": "rejects", "key": card["key"], "decision": "rescue", "note": note, "seen": card["shown"]["id"]}
    answer = page.post("/api/rejects/decide", said)
    assert answer.status_code == 200, answer.text
    return str(card["name"])


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
    assert word.text == "小.jpg" and "duplicate" in why and second.manifest["decisions"]["in_effect"] == []
    card = cards(page_of(second))["小.jpg"]
    assert card["stage"] == "duplicates" and "duplicate" in card["own"]["stale"] and card["link"]
    assert rebuild_tables(second.path).digest == second.manifest["content_digest"], "the word moved it in the ledger"


@pytest.mark.slow
def test_a_rescued_image_that_is_gone_or_was_replaced_is_listed(tmp_path: Path, album: Path) -> None:
    pile = tmp_path / "pile"
    shutil.copytree(album, pile)
    first = build(tmp_path, pile)
    rescue(page := page_of(first), cards(page, reason="too_large")[WIDE])
    draw_scene(5, (5300, 300)).save(pile / WIDE)
    second = build(tmp_path, pile)
    assert [(word.text, "missing" in why) for word, why in second.stale] == [(WIDE, True)]
    assert second.manifest["content_digest"] == first.manifest["content_digest"]
    (pile / WIDE).unlink()
    assert [word.text for word, _ in build(tmp_path, pile).stale] == [WIDE]


@pytest.mark.thorough
def test_an_embedder_finds_what_hashes_do_not_and_encodes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = tmp_path / "album", save_dual_encoder("clip", tmp_path / "model")
    folder.mkdir()
    for n in range(4):
        draw_scene(n).save(folder / f"{n}.png")
    draw_scene(0).crop((20, 15, 160, 120)).save(folder / "crop of 0.png")
    (folder / "torn.png").write_bytes((folder / "0.png").read_bytes()[:300])
    # What the model says of the crop is the test's to set: a random model has no opinion of its own.
    encoded: list[int] = []
    real = clip.ClipEmbedder.encode_images

    def told(self: clip.ClipEmbedder, images: object) -> object:
        shown = list(images)  # type: ignore[call-overload]
        encoded.append(len(shown))
        vectors = real(self, shown)
        alike = [number for number, image in enumerate(shown) if image.size == (140, 105)]
        originals = [number for number, p in enumerate(shown) if p.size == (160, 120) and _is(p, 0)]
        vectors[:] = np.eye(len(vectors), vectors.shape[1], dtype=np.float32)
        for number in alike:
            vectors[number] = vectors[originals[0]]
        return vectors

    monkeypatch.setattr(clip.ClipEmbedder, "encode_images", told)
    keys = ["name=album", f"images={folder}", f"out={tmp_path / 'sets'}", "render=null"]
    embedder = [f"near_duplicates.embedder={model}"]
    with active_run(BuildRun()):
        without = build_set(load_definition(None, keys, "gallery"))
        found = build_set(load_definition(None, [*keys, *embedder], "gallery"))
        again = build_set(load_definition(None, [*keys, *embedder, "near_duplicates.cosine=0.9"], "gallery"))
    assert (without.manifest["counts"]["images"], found.manifest["counts"]["images"]) == (5, 4)
    duplicates = set_files.read_set(found.path).tables.duplicates
    assert duplicates.set_index("item")["matched_by"].to_dict()["crop of 0.png"] == "embedding"
    assert encoded == [5], "five images in one go, and none of them again"
    (told_model,) = found.manifest["models"]
    assert told_model["role"] == "near-duplicates" and told_model["revision"]
    assert {"near_duplicates.cosine"} < {cut["name"] for cut in again.manifest["thresholds"]}


def _is(image: Image.Image, seed: int) -> bool:
    difference = np.asarray(image, dtype=int) - np.asarray(draw_scene(seed), dtype=int)
    return bool(np.abs(difference).mean() < 10)


@pytest.mark.thorough
def test_a_cut_among_random_images_is_refused_and_left_out_it_is_derived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = tmp_path / "album", save_dual_encoder("clip", tmp_path / "model")
    folder.mkdir()
    for n in range(100):
        draw_scene(n).save(folder / f"{n}.png")

    def see_all_alike(self: clip.ClipEmbedder, images: object) -> object:
        rows = np.random.default_rng(1).standard_normal((len(list(images)), self.dimensions)) + 6  # type: ignore[call-overload]
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    monkeypatch.setattr(clip.ClipEmbedder, "encode_images", see_all_alike)
    keys = ["name=album", f"images={folder}", f"out={tmp_path / 'sets'}", "render=null"]
    keys.append(f"near_duplicates.embedder={model}")
    with active_run(BuildRun()):
        with pytest.raises(
            UserError, match=r"0\.95 is in the range of random pairs of model: .* 10% .*remove near_duplicates\.cosine"
        ):
            build_set(load_definition(None, [*keys, "near_duplicates.cosine=0.95"], "gallery"))
        built = build_set(load_definition(None, keys, "gallery")).manifest
    cuts = {cut["name"]: cut["value"] for cut in built["thresholds"]}
    assert 0.95 < cuts["near_duplicates.cosine.background.high"] < cuts["near_duplicates.cosine"] < 1
    assert built["counts"]["images"] > 90, "hashes find three alike, the embedder none"
