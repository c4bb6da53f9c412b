"""A folder holds one kind of set: a name that another kind has is refused before anything is built."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import run_topics_stage
from builders.publication import propose_set_name
from flows.definition_checks import render_starter
from flows.definition_loader import load_definition
from flows.set_kinds import build_set, plan_set
from querytruth.errors import UserError
from querytruth.sets.published_files import newest_version


@pytest.fixture
def gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder with a published gallery called images."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    for number in range(3):
        noise = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((160, 120)).save(tmp_path / "images" / f"{number}.png")
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
