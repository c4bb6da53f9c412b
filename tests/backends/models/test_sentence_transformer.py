"""Texts by their meaning: the real classes of sentence-transformers, with random weights, without a network."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from querytruth.backends.models.embedders import sentence_transformer
from querytruth.backends.models.embedders.sentence_transformer import SentenceTransformerOptions
from querytruth.errors import UserError
from tests.tiny_text_models import save_text_model

TEXTS = ["一只狗", "两只红色的猫，在海滩上。", "a dog", "", "海" * 100]


pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_text_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A model of one's own, to be broken."""
    return Path(shutil.copytree(folder, tmp_path / "copied"))


def load(folder: Path, batch: int = 2) -> sentence_transformer.SentenceEmbedder:
    return sentence_transformer.load(SentenceTransformerOptions(name=str(folder), device="cpu", batch=batch))


def test_rows_are_float32_of_length_one_in_order_and_free_of_their_neighbours(folder: Path) -> None:
    embedder = load(folder)
    rows = embedder.encode_texts(iter(TEXTS))
    assert (rows.shape, rows.dtype) == ((5, embedder.dimensions), np.dtype(np.float32)) == ((5, 24), np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    for text, row in zip(TEXTS, rows, strict=True):
        np.testing.assert_allclose(embedder.encode_texts([text])[0], row, atol=1e-6)
    np.testing.assert_allclose(load(folder, batch=64).encode_texts(TEXTS[::-1]), rows[::-1], atol=1e-6)
    assert len({tuple(row) for row in rows.round(4)}) == 5, "five texts, five vectors"
    assert embedder.encode_texts([]).shape == (0, 24)


def test_texts_are_encoded_plainly(copy: Path) -> None:
    """A prompt for queries, which some models bring, would make captions alike that share nothing else."""
    plain = load(copy).encode_texts(TEXTS)
    config = copy / "config_sentence_transformers.json"
    text = config.read_text().replace('"prompts": {', '"prompts": {"question": "狗 狗 狗", ')
    assert "question" in text
    config.write_text(text)
    np.testing.assert_array_equal(load(copy).encode_texts(TEXTS), plain)


def test_a_language_that_it_does_not_know_is_refused(tmp_path: Path) -> None:
    english = load(save_text_model(tmp_path, alphabet=""))
    assert english.unknown_token_share(["a dog"]) == 0
    assert english.unknown_token_share(["一只狗", "a dog"]) == pytest.approx(3 / 7)
    english.check_language(["a dog", "cars", "", " "])
    with pytest.raises(UserError, match=r"does not know 100% of the tokens of these texts") as told:
        english.check_language(["一只狗", "公园里"])
    assert "\n" not in str(told.value)
    assert sentence_transformer.DEFAULT_MODEL in told.value.next_step


def test_one_rare_character_in_many_texts_is_no_other_language(folder: Path) -> None:
    embedder = load(folder)
    embedder.check_language(["一只狗，公园里"] * 20 + ["鼹"])
    assert 0 < embedder.unknown_token_share(["一只狗，公园里"] * 20 + ["鼹"]) < 0.02


def test_a_tokenizer_without_words_knows_no_text(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    with pytest.raises(UserError):
        load(copy).check_language(TEXTS)


def test_the_fingerprint_names_weights_and_pooling_and_not_where_they_lie(folder: Path, tmp_path: Path) -> None:
    first = load(folder)
    copied = load(Path(shutil.copytree(folder, tmp_path / "elsewhere" / "model")))
    assert first.fingerprint == copied.fingerprint
    assert first.fingerprint.startswith("model@files:")
    assert load(save_text_model(tmp_path / "a", seed=1)).fingerprint != first.fingerprint
    assert load(save_text_model(tmp_path / "b", pooling="mean")).fingerprint != first.fingerprint


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "1_Pooling/config.json"])
def test_a_folder_that_lacks_a_file_is_refused_in_one_line(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(UserError, match="cannot be loaded") as told:
        load(copy)
    assert told.value.next_step == "give a folder with all files of the model"
    assert "\n" not in str(told.value)
