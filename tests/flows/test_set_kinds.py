"""The kinds of sets: one is added, none takes another's name, and the page speaks the definition's language."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import querytruth as qt
from builders.gallery.definition import GalleryDefinition
from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import run_topics_stage
from builders.publication import BuiltTables, propose_set_name
from flows import definition_loader, set_kinds
from flows.definition_checks import render_starter
from flows.definition_loader import load_definition
from flows.gallery_set import GALLERY_SET, build_gallery_tables
from flows.set_kinds import SET_KINDS, build_set, plan_set
from querytruth.errors import UserError
from querytruth.sets import manifest
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.published_files import newest_version
from tests.command_runner import invoke
from tests.images import draw_scene
from tests.worlds import build_of, draw_labelled_images, save_photo


class DiaryDefinition(GalleryDefinition):
    """A gallery whose images are named by their days."""

    kind: Literal["diary"] = "diary"  # type: ignore[assignment]


def build_diary_tables(definition: Any) -> BuiltTables:
    built = build_gallery_tables(definition)
    return replace(built, notes={**built.notes, "days": len(built.tables.images["taken_at"].str[:10].unique())})


def test_an_added_kind_is_built_shown_and_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = replace(GALLERY_SET, name="diary", build_tables=build_diary_tables)
    monkeypatch.setitem(set_kinds.SET_KINDS, "diary", kind)
    monkeypatch.setattr(manifest, "KINDS", [*manifest.KINDS, "diary"])
    monkeypatch.setitem(definition_loader.DEFINITION_CLASSES, "diary", DiaryDefinition)
    for n in range(4):
        save_photo(tmp_path / "photos" / f"{n}.jpg", n, day=n % 2 + 1)
    keys = {"kind": "diary", "name": "summer", "images": str(tmp_path / "photos"), "out": str(tmp_path / "sets")}
    built = qt.build(keys)
    assert qt.load(built.path).manifest["kind"] == "diary" and qt.load(built.path).manifest["notes"]["days"] == 2
    shown = invoke("show", built.path, "--page", tmp_path / "page.html")
    assert shown.exit_code == 0 and "4 images" in shown.output and (tmp_path / "page.html").stat().st_size > 1000
    assert invoke("rebuild", built.path, "--check").exit_code == 0


@pytest.fixture
def gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder with a published gallery called images."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    for number in range(3):
        draw_scene(number).save(tmp_path / "images" / f"{number}.png")
    build_set(load_definition(None, ["name=images", "images=images"], "gallery"))
    return tmp_path


def recall_keys(**more: Any) -> list[str]:
    keys = ["name=images", "images=images", "captions.model=captions_file", "captions.options.path=captions.csv"]
    return [*keys, *(f"{key}={value}" for key, value in more.items())]


@pytest.mark.thorough
def test_a_recall_set_does_not_take_over_the_folder_of_a_gallery(gallery: Path) -> None:
    (gallery / "captions.csv").write_text("file_name,caption\n0.png,a red kite over the sea\n")
    before = sorted(path.relative_to(gallery) for path in (gallery / "datasets").rglob("*"))
    for use in (build_set, plan_set):
        with pytest.raises(UserError) as refused:
            use(load_definition(None, recall_keys(), "recall"))
        assert str(refused.value) == (
            "images/v1 (build): is a gallery set; a recall set needs another name. Next: choose another name, such "
            "as --set name=images-captions"
        )
    assert sorted(path.relative_to(gallery) for path in (gallery / "datasets").rglob("*")) == before
    again = build_set(load_definition(None, ["name=images", "images=images"], "gallery"))
    assert not again.is_new, "the gallery itself goes on"


def test_topics_are_not_asked_for_in_the_folder_of_a_gallery(gallery: Path) -> None:
    definition = load_definition(None, ["name=images"], "generated")
    assert isinstance(definition, GeneratedDefinition)
    with pytest.raises(UserError, match="is a gallery set; a generated set needs another name"):
        run_topics_stage(definition, "topics.yaml")


def test_init_proposes_a_name_that_no_set_of_another_kind_has(gallery: Path) -> None:
    assert "name: images-captions" in render_starter("recall", None, "images", gallery).splitlines()
    assert "name: images" in render_starter("gallery", None, "images", gallery).splitlines()
    (gallery / "datasets" / "images").rename(gallery / "datasets" / "images-captions")
    assert propose_set_name("images", "recall", gallery / "datasets") == "images"
    assert newest_version(gallery / "datasets" / "images-captions") == 1
    assert propose_set_name("images-captions", "recall", gallery / "datasets") == "images-captions-captions"


@pytest.mark.thorough
def test_pages_of_builds_and_of_applied_decisions_are_in_the_language_of_the_definition(tmp_path: Path) -> None:
    words = draw_labelled_images(tmp_path)
    shown = SET_KINDS["precision"].write_version_page
    chinese = shown(build_of("precision", ["name=noise", *words], "page_language=zh"))
    english = shown(build_of("precision", ["name=noise-en", *words]))
    pages = [built.page for built in (chinese, english) if built.page is not None]
    assert ["张图片" in page.read_text("utf-8") for page in pages] == [True, False]
    first = qt.load(chinese.path)
    assert first.manifest["content_digest"] == qt.load(english.path).manifest["content_digest"]
    assert "page_language" not in first.manifest["configuration"]
    query = first.queries.iloc[0]
    append_decisions(first.path.parent, [QueryDecision(query["query_id"], query["text"], "drop", at="1")])
    applied = first.apply()
    assert applied.page is not None and 'lang="zh' in applied.page.read_text("utf-8")
