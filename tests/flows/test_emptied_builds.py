"""A build that is left with nothing: one line with what took it, and nothing published."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.gallery import render_steps as rendering
from builders.imported_set import ImportDefinition
from flows.definition_loader import load_definition
from flows.import_set import import_set
from flows.set_kinds import build_set
from querytruth.backends.images.image_sources import ImageSource
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from tests.worlds import define_gallery, define_recall

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
        recall = define_recall(tmp_path)
        return recall if kind == "recall" else define_gallery(tmp_path, tmp_path / "album")

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


def unmount_before(holder: Any, name: str) -> Spoil:
    """The images are gone when a step is to locate them."""

    def spoil(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
        locate = getattr(holder, name)

        def locate_after_unmount(*given: object) -> object:
            remove_images(place)
            return locate(*given)

        monkeypatch.setattr(holder, name, locate_after_unmount)

    return spoil


BEFORE_SCAN = unmount_before(ImageSource, "locate_all")
BEFORE_RENDERING = unmount_before(rendering, "locate_rendered")


def leave_only_jpeg_xl(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    remove_images(place)
    (place / "album").mkdir()
    for number in range(3):
        (place / "album" / f"{number}.jxl").write_bytes(JPEG_XL)


JPEG_XL_ALONE, GONE = "no image is left of 3 images (3 not an image)", "no image is left of 5 images (5 missing)"
NOT_RENDERED = "no image is left of 5 images (5 cannot be rendered)"
THOROUGH = [pytest.mark.thorough]


@pytest.mark.parametrize(
    ("kind", "spoil", "line"),
    [
        *(pytest.param(kind, leave_only_jpeg_xl, JPEG_XL_ALONE, marks=THOROUGH) for kind in ("gallery", "recall")),
        *(pytest.param(kind, BEFORE_SCAN, GONE, marks=THOROUGH) for kind in ("gallery", "recall")),
        *(pytest.param(kind, BEFORE_RENDERING, NOT_RENDERED, marks=THOROUGH) for kind in ("gallery", "recall")),
        ("precision", leave_only_jpeg_xl, "is not a folder"),
        ("precision", BEFORE_SCAN, "contains none of the 60 annotated images (60 missing)"),
        ("precision", BEFORE_RENDERING, "cannot_be_rendered (No such file or directory), the first of 60"),
    ],
)
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


@pytest.mark.parametrize(("rows", "line"), [("", "lists no images"), ("0.jpg,https://a/0,\n", "no queries are left")])
def test_a_publishers_table_without_content_publishes_nothing(tmp_path: Path, rows: str, line: str) -> None:
    source = tmp_path / "wukong_test.csv"
    source.write_text("dir,url,text\n" + rows, "utf-8")
    keys = {"format": "wukong_test", "annotations": source, "out": tmp_path / "sets"}
    with pytest.raises(UserError, match=line):
        import_set(ImportDefinition(kind="imported", name="wukong", **keys))
    assert not list((tmp_path / "sets").glob("*/v*"))
