"""A kind of set is added as docs/architecture.md says: a definition, its steps, its record, and three rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import querytruth as qt
from builders.gallery.definition import GalleryDefinition
from builders.publication import BuiltTables
from flows import definition_loader, set_kinds
from flows.gallery_set import GALLERY_SET, build_gallery_tables
from querytruth.sets import manifest
from tests.command_runner import invoke
from tests.flows.test_gallery_set import photo


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
        photo(tmp_path / "photos" / f"{n}.jpg", n, day=n % 2 + 1)
    keys = {"kind": "diary", "name": "summer", "images": str(tmp_path / "photos"), "out": str(tmp_path / "sets")}
    built = qt.build(keys)
    assert qt.load(built.path).manifest["kind"] == "diary" and qt.load(built.path).manifest["notes"]["days"] == 2
    shown = invoke("show", built.path, "--page", tmp_path / "page.html")
    assert shown.exit_code == 0 and "4 images" in shown.output and (tmp_path / "page.html").stat().st_size > 1000
    assert invoke("rebuild", built.path, "--check").exit_code == 0
