"""Images and texts as vectors: the real classes of transformers, with random weights, without a network."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from querytruth.backends.models.embedders import clip
from querytruth.errors import UserError
from tests.tiny_dual_encoders import KINDS, LETTERS, MAX_TOKENS, save_dual_encoder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_dual_encoder(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Path:
    return folders[request.param]


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A CLIP of one's own, to be broken."""
    return Path(shutil.copytree(folders["clip"], tmp_path / "copied"))


def load(folder: Path, batch: int = 4) -> clip.ClipEmbedder:
    return clip.load(clip.ClipOptions(name=str(folder), device="cpu", batch=batch))


def images(*sizes: tuple[int, int]) -> list[Image.Image]:
    rng = np.random.default_rng(7)
    return [Image.fromarray(rng.integers(0, 255, (height, width, 3), np.uint8)) for width, height in sizes]


SEVEN = images((32, 32), (60, 20), (20, 60), (1, 1), (64, 48), (50, 3), (3, 50))


@pytest.mark.thorough
def test_every_image_and_text_becomes_a_float32_row_of_length_one(folder: Path) -> None:
    embedder = load(folder)
    for rows, count in ((embedder.encode_images(SEVEN), 7), (embedder.encode_texts(["a dog", "a cat", "car"]), 3)):
        assert (rows.shape, rows.dtype) == ((count, embedder.dimensions), np.dtype(np.float32))
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert embedder.dimensions in (24, 32)
    assert embedder.encode_images([]).shape == embedder.encode_texts([]).shape == (0, embedder.dimensions)


@pytest.mark.thorough
def test_order_is_kept_and_neighbours_do_not_matter(folder: Path) -> None:
    embedder = load(folder)
    together = embedder.encode_images(SEVEN)
    alone = np.concatenate([embedder.encode_images([image]) for image in SEVEN])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(embedder.encode_images(SEVEN[::-1]), together[::-1], atol=1e-5)
    assert len({tuple(row) for row in together.round(4)}) == 7, "seven images, seven vectors"
    texts = ["a dog", "", "two cats and a dog and a car", "车"]
    one_by_one = np.concatenate([embedder.encode_texts([text]) for text in texts])
    np.testing.assert_allclose(embedder.encode_texts(texts), one_by_one, atol=1e-5)


@pytest.mark.thorough
def test_the_number_of_images_computed_at_once_never_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a smaller batch differ in the last bits: whether two images are alike would depend on the others."""
    embedder = load(folder, batch=4)
    computed: list[int] = []
    features = embedder._model.get_image_features

    def counted(**inputs: Any) -> Any:
        computed.append(len(inputs["pixel_values"]))
        return features(**inputs)

    monkeypatch.setattr(embedder._model, "get_image_features", counted)
    assert len(embedder.encode_images(SEVEN)) == 7
    embedder.encode_images(SEVEN[:1])
    assert computed == [4, 4, 4]


@pytest.mark.thorough
def test_images_are_read_a_batch_at_a_time(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    embedder, opened, seen = load(folders["clip"], batch=2), list[Image.Image](), list[int]()
    rows = embedder._normalized_features
    monkeypatch.setattr(embedder, "_normalized_features", lambda *given: seen.append(len(opened)) or rows(*given))
    embedder.encode_images(opened.append(image) or image for image in SEVEN[:6])
    assert seen == [2, 4, 6]


@pytest.mark.thorough
def test_arrays_are_images_too_even_three_pixels_high(folder: Path) -> None:
    """Three rows could be taken for three colours."""
    embedder = load(folder)
    arrays = [np.asarray(image) for image in SEVEN]
    np.testing.assert_array_equal(embedder.encode_images(arrays), embedder.encode_images(SEVEN))
    larger = [image.resize((image.width * 4, image.height * 4), Image.Resampling.NEAREST) for image in SEVEN]
    near = (embedder.encode_images(SEVEN) * embedder.encode_images(larger)).sum(axis=1)
    assert near.min() > 0.8, "an image enlarged stays about the same"


@pytest.mark.thorough
def test_a_text_that_is_too_long_is_cut(folder: Path) -> None:
    embedder = load(folder)
    long = " ".join(LETTERS)
    rows = embedder.encode_texts([long, long + " and more", long[: 4 * MAX_TOKENS]])
    np.testing.assert_allclose(rows, rows[[0, 0, 0]], atol=1e-6)
    assert abs(rows[0] - embedder.encode_texts(["z y x"])[0]).max() > 1e-3


@pytest.mark.thorough
def test_weights_in_half_precision_are_computed_in_full(copy: Path) -> None:
    from transformers import CLIPModel

    whole = load(copy).encode_images(SEVEN)
    CLIPModel.from_pretrained(copy).half().save_pretrained(copy)
    rows = load(copy).encode_images(SEVEN)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(rows, whole, atol=0.01)


def test_siglip_reads_texts_filled_up_to_the_limit(folders: dict[str, Path]) -> None:
    import torch

    embedder = load(folders["siglip"])
    ids = [[LETTERS.index(letter) + 3 for letter in "dog"] + [0] * (MAX_TOKENS - 3)]
    with torch.inference_mode():
        row = embedder._model.get_text_features(input_ids=torch.tensor(ids)).pooler_output[0].numpy()
    np.testing.assert_allclose(embedder.encode_texts(["dog"])[0], row / np.linalg.norm(row), atol=1e-6)


def test_the_fingerprint_names_these_weights_and_not_where_they_lie(folders: dict[str, Path], tmp_path: Path) -> None:
    first = load(folders["clip"])
    copied = load(shutil.copytree(folders["clip"], tmp_path / "elsewhere" / folders["clip"].name))
    assert first.fingerprint == copied.fingerprint == f"{folders['clip'].name}@{first.revision}"
    other = load(save_dual_encoder("clip", tmp_path / folders["clip"].name, seed=1))
    assert other.fingerprint != first.fingerprint
    assert str(tmp_path) not in other.fingerprint


def test_a_model_of_the_hubs_cache_is_known_by_its_commit_and_asked_for_nowhere(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    cached = tmp_path / "models--someone--tiny"
    shutil.copytree(folders["clip"], cached / "snapshots" / COMMIT)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    embedder = clip.load(clip.ClipOptions(name="someone/tiny", device="cpu"))
    assert embedder.fingerprint == f"someone/tiny@{COMMIT}"
    np.testing.assert_array_equal(embedder.encode_texts(["dog"]), load(folders["clip"]).encode_texts(["dog"]))
    assert not no_network


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("name", [clip.DEFAULT_MODEL, "no-such-model", "/no/such/folder", "a/b/c"])
def test_an_unknown_name_says_where_to_get_it(name: str, offline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    with pytest.raises(UserError) as told:
        clip.load(clip.ClipOptions(name=name))
    assert told.value.item == name
    assert told.value.next_step == f"run `hf download {name}` with network access, or give the folder of a copy"


def unlink(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def drop_a_weight(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def break_off(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def only_text(folder: Path) -> None:
    from transformers import BertConfig, BertModel

    BertModel(
        BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    ).save_pretrained(folder)


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (unlink("model.safetensors"), "cannot be loaded"),
        (unlink("preprocessor_config.json"), "cannot be loaded"),
        (break_off, "cannot be loaded"),
        (drop_a_weight, "lacks 1 of its weights (visual_projection.weight …)"),
        (unlink("tokenizer.json"), "lacks its tokenizer's vocabulary"),
        (only_text, "is a BertModel, which does not embed images and texts"),
    ],
)
def test_what_transformers_would_make_up_is_refused(copy: Path, break_it: Callable[[Path], None], reason: str) -> None:
    break_it(copy)
    with pytest.raises(UserError) as told:
        load(copy)
    assert told.value.reason.startswith(reason)
    assert told.value.next_step.startswith("give a folder with all files of the model")
    assert not (copy / "harm").exists()
    assert "\n" not in str(told.value)


def test_a_device_that_is_not_there_is_named(folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=r"^mps \(load embedder\): cannot be used.*set the device to cpu$"):
        clip.load(clip.ClipOptions(name=str(folders["clip"]), device="mps"))
