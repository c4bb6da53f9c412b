"""Files that change after they were scanned, and rendered files that go bad: no other pixels get an image's id."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.gallery import steps
from builders.gallery.render_steps import load_shown_images, locate_rendered, render_images
from builders.publication import BuildResult
from builders.recall.definition import RecallDefinition
from builders.recall.steps import load_published_gallery
from flows.definition_loader import parse_definition
from flows.set_kinds import build_set
from querytruth.backends.images import rendering as image_rendering
from querytruth.backends.images import worker_processes
from querytruth.backends.images.scan_parts import scan_store_folder
from querytruth.backends.models.vector_store import VectorStore
from querytruth.backends.steps import BuildRun, active_run
from querytruth.definitions import RenderOptions
from querytruth.errors import UserError
from querytruth.records import image_id_of_bytes
from querytruth.sets import image_vectors as embedding
from querytruth.sets import set_files
from querytruth.sets.published_files import newest_version
from tests.worlds import draw_photo


@pytest.fixture
def pile(tmp_path: Path) -> Path:
    for seed in range(4):
        draw_photo(tmp_path / "pile" / f"{seed}.jpg", seed)
    return tmp_path / "pile"


def build(pile: Path, **keys: Any) -> BuildResult:
    definition = {"name": "album", "images": str(pile), "out": str(pile.parent / "sets"), **keys}
    return build_set(parse_definition(definition, "gallery", "test"))


def change_before_rendering(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    def changed_first(*arguments: Any) -> Any:
        change()
        return render_images(*arguments)

    monkeypatch.setattr(steps, "render_images", changed_first)


def test_a_file_that_is_replaced_between_scan_and_rendering_is_quarantined(
    pile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_before_rendering(monkeypatch, lambda: draw_photo(pile / "2.jpg", 9))
    published = build(pile)
    stored = set_files.read_set(published.path)
    assert sorted(stored.tables.images["file_name"]) == ["0.jpg", "1.jpg", "3.jpg"]
    stage = next(stage for stage in stored.manifest["funnel"] if stage["stage"] == "render")
    assert (stage["entered"], stage["accepted"]) == (4, 3)
    assert stage["quarantined"] == {"changed_since_scan": 1}
    row = stored.tables.ledger.set_index("item").loc["2.jpg"]
    assert row["reason"] == "changed_since_scan" and "--rescan" in row["detail"]
    assert len(list((pile.parent / "sets" / "album" / ".rendered").rglob("*.jpg"))) == 3


@pytest.mark.thorough
def test_a_rendered_file_that_goes_bad_is_rendered_again_for_the_next_version(pile: Path) -> None:
    first = build(pile)
    name = set_files.read_set(first.path).tables.images["path"].iloc[0]
    whole = (first.path / name).read_bytes()
    damaged = bytearray(whole)
    damaged[-40] ^= 1
    (first.path / name).write_bytes(damaged)  # the file in .rendered is the same one, by its hard link
    draw_photo(pile / "new.jpg", 7)
    second = build(pile)
    assert second.version == 2 and (second.path / name).read_bytes() == whole
    assert list(set_files.verify_set(second.path)) == []
    assert [problem.partition(":")[0] for problem in set_files.verify_set(first.path)] == [name]


def test_a_damaged_rendering_is_not_published(pile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged_after(*arguments: Any) -> Any:
        rendered = render_images(*arguments)
        (rendered[2] / rendered[0]["path"].iloc[0]).write_bytes(b"")
        return rendered

    monkeypatch.setattr(steps, "render_images", damaged_after)
    with pytest.raises(UserError, match=r"\.jpg \(publish\): is damaged"):
        build(pile)
    assert newest_version(pile.parent / "sets" / "album") is None


@pytest.mark.thorough
def test_no_model_is_asked_about_a_damaged_or_changed_image(pile: Path) -> None:
    rendered, listed = build(pile), build(pile, name="listed", render=None)
    gallery = load_published_gallery(RecallDefinition(name="upon", gallery=str(rendered.path)))
    assert len(load_shown_images(gallery.tables.images, gallery.rendered_folder)) == 4
    damaged = rendered.path / gallery.tables.images["path"].iloc[0]
    shutil.copy(rendered.path / gallery.tables.images["path"].iloc[1], damaged)
    with pytest.raises(UserError, match=f"{damaged.name}.*is damaged: its checksum differs"):
        load_shown_images(gallery.tables.images, gallery.rendered_folder)
    gallery = load_published_gallery(RecallDefinition(name="upon", gallery=str(listed.path)))
    draw_photo(pile / "3.jpg", 9)
    with pytest.raises(UserError, match=r"3\.jpg.*changed since it was scanned"):
        load_shown_images(gallery.tables.images, gallery.rendered_folder)


class MeanColour:
    """An embedder of images whose vector is their mean colour."""

    dimensions, fingerprint, name, revision = 3, "mean", "mean", "1"

    def encode_images(self, images: Any) -> Any:
        return np.array([np.asarray(image).mean(axis=(0, 1)) for image in images], np.float32).reshape(-1, 3)


def test_the_vector_of_a_changed_file_is_not_stored_under_the_old_id(
    pile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "load_image_text_embedder", lambda _name: MeanColour())
    places = sorted(pile.glob("*.jpg"))
    ids = [image_id_of_bytes(set_files.file_sha256(place)[0]) for place in places]
    draw_photo(places[2], 9)
    frame = pd.DataFrame({"image_id": ids})
    pairs, _ = embedding.find_similar_pairs(frame, list(map(str, places)), "mean", 0.1, pile.parent)
    assert {tuple(pair) for pair in pairs} == {(0, 1), (0, 3), (1, 3)}, "all are similar, but the changed one"


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_location: str, _limit: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def map_here(work: Any, items: Any, **_more: Any) -> Any:
        return map(work, items)

    monkeypatch.setattr(image_rendering, "read_bounded", fail)
    monkeypatch.setattr(worker_processes, "map_in_workers", map_here)
    images = pd.DataFrame({"image_id": ["img_00"], "file_name": ["a.jpg"]})
    source = tmp_path / "photos" / "a.jpg"
    with pytest.raises(UserError, match="Input/output error") as caught, active_run(BuildRun()):
        render_images(images, [str(source)], ["0" * 64], RenderOptions(), tmp_path / "set")
    assert str(source) in str(caught.value)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def test_scans_and_rendered_images_are_not_written_through_a_link(tmp_path: Path, outside: Path) -> None:
    for name in (".scan", ".rendered"):
        (tmp_path / name).symlink_to(outside)
    with pytest.raises(UserError, match=r"\.scan .*is a link"):
        scan_store_folder(tmp_path)
    with pytest.raises(UserError, match=r"\.rendered .*is a link"):
        locate_rendered(pd.Series(["img_00"]), RenderOptions(), tmp_path)


def test_vectors_are_not_written_through_a_link(tmp_path: Path, outside: Path) -> None:
    store = VectorStore(tmp_path / ".vectors", "a model")
    store.add(["img_00"], np.ones((1, 4), np.float32))
    (kept,) = (tmp_path / ".vectors").iterdir()
    kept.rename(tmp_path / "moved")
    kept.symlink_to(outside)
    with pytest.raises(UserError, match="is a link"):
        VectorStore(tmp_path / ".vectors", "a model")
    assert not list(outside.iterdir())
