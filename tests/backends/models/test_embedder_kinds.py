"""Which embedder reads a model's folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from backends.models.embedder_kinds import MARKER_FILES, detect_embedder, load_embedder
from builders.errors import UserError
from tests.tiny_dual_encoders import save_dual_encoder


def test_a_folder_tells_its_kind_by_what_lies_in_it(tmp_path: Path) -> None:
    assert detect_embedder(str(tmp_path)) == "clip"
    for mark, kind in MARKER_FILES.items():
        folder = tmp_path / kind
        folder.mkdir()
        (folder / mark).write_text("{}")
        assert detect_embedder(str(folder)) == kind
        assert callable(import_module(f"backends.embedders.{kind}").load)


def test_the_model_is_loaded_by_its_embedder(tmp_path: Path) -> None:
    embedder = load_embedder(str(save_dual_encoder("chinese_clip", tmp_path / "mine")))
    assert (embedder.name, embedder.dimensions) == ("mine", 24)
    assert embedder.encode_texts(["一只狗"]).shape == (1, 24)


def test_a_name_that_is_no_model_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="is no folder here"):
        load_embedder("nobody/nothing")
