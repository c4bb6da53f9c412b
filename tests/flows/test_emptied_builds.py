"""A build that is left with nothing: one line with what took it, and nothing published."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.gallery import render_steps as rendering
from builders.imported_set import ImportDefinition
from flows.definition_loader import load_definition
from flows.import_set import import_set
from flows.set_kinds import build_set
from querytruth.backends.images.image_sources import ImageSource
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from tests.flows.image_web import FakeImageWeb, allow_loopback, collect_with_decisions
from tests.flows.image_web import make_definition as make_collection
from tests.loopback import loopback
from tests.worlds import CAPTIONS, define_recall

JPEG_XL = b"\x00\x00\x00\x0cJXL \r\n\x87\n" + b"\x00" * 64  # of a kind that is not read
Make = Callable[..., Path]
MakeDefinition = Callable[[str], Path]
Spoil = Callable[[pytest.MonkeyPatch, Path], None]


@pytest.fixture
def define(tmp_path: Path, make_world: Make) -> MakeDefinition:
    """A definition of each kind, with images in the folder `album` or `photos`."""

    def make(kind: str) -> Path:
        if kind == "precision":
            return make_world(images=True)
        recall = define_recall(tmp_path, CAPTIONS)
        if kind == "recall":
            return recall
        keys = {"name": "album", "kind": "gallery", "images": "album", "out": str(tmp_path / "sets")}
        (tmp_path / "gallery.yaml").write_text(json.dumps(keys))
        return tmp_path / "gallery.yaml"

    return make


def refused_line(kind: str, file: Path, *overrides: str) -> str:
    """The one line of a build that publishes nothing."""
    definition = load_definition(file, list(overrides), kind)
    with active_run(BuildRun()), pytest.raises(UserError) as refused:
        build_set(definition)
    assert "\n" not in str(refused.value) and "Next: " in str(refused.value)
    assert not list(definition.out.glob("*/v*"))
    return str(refused.value)


def remove_images(place: Path) -> None:
    for name in ("album", "photos"):
        shutil.rmtree(place / name, ignore_errors=True)


def unmount_before_the_scan(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    locate = ImageSource.locate_all

    def locate_after_unmount(self: ImageSource, items: list[str]) -> object:
        remove_images(place)
        return locate(self, items)

    monkeypatch.setattr(ImageSource, "locate_all", locate_after_unmount)


def unmount_before_rendering(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    locate = rendering.locate_rendered

    def locate_after_unmount(*given: object) -> object:
        remove_images(place)
        return locate(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(rendering, "locate_rendered", locate_after_unmount)


def leave_only_jpeg_xl(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    remove_images(place)
    (place / "album").mkdir()
    for number in range(3):
        (place / "album" / f"{number}.jxl").write_bytes(JPEG_XL)


@pytest.mark.parametrize("kind", ["gallery", "recall"])
@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (leave_only_jpeg_xl, "no image is left of 3 images (3 not an image)"),
        (unmount_before_the_scan, "no image is left of 5 images (5 missing)"),
        (unmount_before_rendering, "no image is left of 5 images (5 cannot be rendered)"),
    ],
)
@pytest.mark.thorough
def test_images_none_of_which_can_be_read_publish_nothing(
    kind: str, spoil: Spoil, line: str, define: MakeDefinition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = define(kind)
    spoil(monkeypatch, tmp_path)
    assert line in refused_line(kind, file)


@pytest.mark.parametrize("kind", ["gallery", "recall"])
def test_a_filter_that_keeps_none_publishes_nothing(kind: str, define: MakeDefinition) -> None:
    line = refused_line(kind, define(kind), "filter.min_side=4000")
    assert "no image is left of 5 images (5 too small)" in line and "Next: loosen `filter`" in line


@pytest.mark.parametrize("kind", ["gallery", "recall"])
@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("list.csv", "path\n", "contains no images"),
        ("list.txt", "", "contains no images"),
        ("list.txt", "gone.jpg\n", "no image is left of 1 image (1 missing)"),
    ],
)
def test_a_table_without_an_image_publishes_nothing(
    kind: str, name: str, text: str, line: str, define: MakeDefinition, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    assert line in refused_line(kind, define(kind), f"images={tmp_path / name}")


def test_captions_of_other_images_publish_nothing(tmp_path: Path) -> None:
    assert "got no reply to any of the 5 questions" in refused_line("recall", define_recall(tmp_path, {}))


@pytest.mark.parametrize(
    ("emptied", "line"),
    [
        ("images", "contains none of the 0 annotated images"),
        ("annotations", "no query is left of 5 labels (5 no images)"),
        ("categories", "is not a list of categories"),
    ],
)
def test_annotations_without_content_publish_nothing(
    emptied: str, line: str, define: MakeDefinition, tmp_path: Path
) -> None:
    file = define("precision")
    data = json.loads((tmp_path / "instances.json").read_text())
    data |= {emptied: [], "annotations": []}
    (tmp_path / "instances.json").write_text(json.dumps(data))
    assert line in refused_line("precision", file)


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (leave_only_jpeg_xl, "is not a folder"),
        (unmount_before_the_scan, "contains none of the 60 annotated images (60 missing)"),
        (unmount_before_rendering, "cannot_be_rendered (No such file or directory), the first of 60"),
    ],
)
def test_annotated_images_that_go_away_publish_nothing(
    spoil: Spoil, line: str, define: MakeDefinition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = define("precision")
    spoil(monkeypatch, tmp_path)
    assert line in refused_line("precision", file)


@pytest.mark.parametrize("kind", ["gone", "page", "half"])
@pytest.mark.thorough
def test_a_collection_without_a_usable_image_publishes_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_loopback(monkeypatch)
    collect_with_decisions(tmp_path, "web", 2)
    expected = pytest.raises(UserError, match="no query has enough images")
    with loopback(FakeImageWeb([kind] * 3)) as server, active_run(BuildRun()), expected:
        build_set(make_collection(tmp_path, server.url, first=3, keep=1))
    assert not list(tmp_path.glob("**/v1"))


@pytest.mark.parametrize(("rows", "line"), [("", "lists no images"), ("0.jpg,https://a/0,\n", "no queries are left")])
def test_a_publishers_table_without_content_publishes_nothing(tmp_path: Path, rows: str, line: str) -> None:
    source = tmp_path / "wukong_test.csv"
    source.write_text("dir,url,text\n" + rows, "utf-8")
    keys = {"format": "wukong_test", "annotations": source, "out": tmp_path / "sets"}
    with pytest.raises(UserError, match=line):
        import_set(ImportDefinition(kind="imported", name="wukong", **keys))
    assert not list((tmp_path / "sets").glob("*/v*"))
