"""Which embedder reads a model's folder."""

from pathlib import Path

import pytest

from querytruth.backends.models.embedders import detect_embedder, load_image_text_embedder, load_text_embedder
from querytruth.errors import UserError
from tests.tiny_dual_encoders import save_dual_encoder


def test_a_folder_tells_its_kind_by_what_lies_in_it(tmp_path: Path) -> None:
    assert detect_embedder(str(tmp_path), "clip") == "clip"
    for marker, plugin in {"modules.json": "sentence_transformer", "dual_encoder.json": "dual_encoder"}.items():
        folder = tmp_path / plugin
        folder.mkdir()
        (folder / marker).write_text("{}")
        assert detect_embedder(str(folder), "clip") == plugin


def test_the_model_is_loaded_by_its_embedder(tmp_path: Path) -> None:
    embedder = load_image_text_embedder(str(save_dual_encoder("chinese_clip", tmp_path / "mine")))
    assert (embedder.name, embedder.dimensions) == ("mine", 24)
    assert embedder.encode_texts(["一只狗"]).shape == (1, 24)


def test_an_embedder_of_one_kind_is_refused_for_the_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"char_ngrams .*reads texts only, not images"):
        load_image_text_embedder("char_ngrams")
    trained = tmp_path / "trained"
    trained.mkdir()
    (trained / "dual_encoder.json").write_text("{}")
    with pytest.raises(UserError, match="trained"):
        load_text_embedder(str(trained))
