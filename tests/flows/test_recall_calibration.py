"""Reviewers judged captions with other images; querytruth calibrate fits the probability to what they said."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from builders.recall import calibration_steps as recall_calibration
from builders.recall.calibration import find_calibration, read_calibrations
from builders.recall.calibration_steps import calibrate_set
from querytruth.array_types import Vectors
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.models.chat import ChatImage
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError

ANIMALS = ["dog", "cat", "horse", "cow", "sheep", "duck", "goat", "bear", "lion", "tiger", "rabbit", "monkey"]
PLACES = ["on the beach", "in the park", "near a lake"]


def reviewed_set(judged: int, **ambiguity: Any) -> Any:
    """36 images with a caption each. Reviewers say that a caption fits an image of the same animal, and no other."""
    scenes = [(animal, place) for animal in ANIMALS for place in PLACES]
    ids = [f"{number:02}" for number in range(len(scenes))]
    queries = pd.DataFrame(
        {
            "query_id": [f"q_{name}" for name in ids],
            "text": [f"a {animal} runs {place}" for animal, place in scenes],
            "language": "en",
            "source_image_id": [f"img_{name}" for name in ids],
        }
    )
    pairs = [(one, (one + step) % 36) for one in range(36) for step in (1, 2, 5, 9)][:judged]
    human = pd.DataFrame(
        {
            "query_id": [f"q_{ids[one]}" for one, _ in pairs],
            "image_id": [f"img_{ids[other]}" for _, other in pairs],
            "relevance": [int(scenes[one][0] == scenes[other][0]) for one, other in pairs],
            "judged_by": "human",
        }
    )
    images = pd.DataFrame({"image_id": [f"img_{name}" for name in ids], "duplicate_group": None})
    definition = {"name": "zoo", "kind": "recall", "images": "zoo", "ambiguity": {"text_embedder": None, **ambiguity}}
    manifest = {"name": "zoo", "version": 2, "kind": "recall", "licence": "", "envelope": {"definition": definition}}
    tables = SimpleNamespace(queries=queries, images=images, qrels=human, duplicates=None)
    return SimpleNamespace(tables=tables, manifest=manifest, own_definition=definition)


def test_the_fit_follows_the_reviewers_and_states_who_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_calibration.set_files, "read_set", lambda path: reviewed_set(144))
    with active_run(BuildRun()):
        file, (fitted,) = calibrate_set(tmp_path / "zoo" / "v2")
    assert file == tmp_path / "zoo" / "calibration.json"
    (stored,), _ = read_calibrations(file)
    assert stored == fitted.calibration
    assert stored.fitted_on["source"] == "the reviewers of zoo/v2" and stored.fitted_on["pairs"] == fitted.pairs == 144
    assert stored.language == "en" and stored.embedders == () and not stored.several_captions
    assert fitted.after < 0.12, "the animal decides"


class Palette:
    """An embedder that sees the colour of an image, and finds all texts the same."""

    name, revision, fingerprint, dimensions = "palette", "1", "palette@1", 3

    def encode_images(self, images: Any) -> Vectors:
        return self._unit([np.asarray(image).mean(axis=(0, 1)) - 128 for image in images])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        return self._unit([(60, 80, 0)] * len(texts))

    def _unit(self, rows: list[Any]) -> Vectors:
        table = np.array(rows, dtype=np.float32).reshape(-1, 3)
        return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-6)


def colour_of(animal: str) -> Any:
    number = ANIMALS.index(animal)
    return np.array([np.cos(number) * 100 + 128, np.sin(number) * 100 + 128, 128 + 8 * number])


def shown_images(folder: Path, animals: Sequence[str]) -> list[ChatImage]:
    shown = []
    for number, animal in enumerate(animals):
        path = folder / f"{number:02}.png"
        Image.new("RGB", (32, 32), tuple(int(value) for value in colour_of(animal))).save(path)
        shown.append(ChatImage(path, file_sha256(path)[0], path.name, f"img_{number:02}"))
    return shown


def test_images_count_where_the_definition_names_an_embedder_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Captions state the place alone, the images show the animal: only with the images can the fit follow people."""
    alone, seen = reviewed_set(144), reviewed_set(144, image_embedder="palette")
    animals = [text.split()[1] for text in seen.tables.queries["text"]]
    for one in (alone, seen):
        one.tables.queries["text"] = ["it " + " ".join(text.split()[2:]) for text in one.tables.queries["text"]]
    monkeypatch.setattr(recall_calibration, "load_image_text_embedder", lambda _name: Palette())
    shown = shown_images(tmp_path, animals)
    monkeypatch.setattr(recall_calibration, "load_shown_images", lambda images, folder: shown)
    fitted = []
    for one in (alone, seen):
        monkeypatch.setattr(recall_calibration.set_files, "read_set", lambda path, one=one: one)
        with active_run(BuildRun()):
            fitted += calibrate_set(tmp_path / "zoo" / "v2")[1]
    by_captions, by_images = fitted
    assert by_captions.calibration.image_embedder == () and by_images.calibration.image_embedder == ("palette", "1")
    assert by_images.after < 0.06 and 2 * by_images.after < by_captions.after
    (stored,), _ = read_calibrations(tmp_path / "zoo" / "calibration.json")
    assert stored == by_images.calibration, "the file says that it needs these images"
    assert find_calibration([stored], "en", (), several_captions=False) is None
    assert find_calibration([stored], "en", (), several_captions=False, image_embedder=("palette",)) is stored


def test_a_set_from_elsewhere_names_no_model_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = reviewed_set(144, text_embedder="of-the-stranger.yaml")
    stranger.own_definition = {}
    monkeypatch.setattr(recall_calibration.set_files, "read_set", lambda path: stranger)
    with active_run(BuildRun()), pytest.raises(UserError, match="is not a recall set that was built here"):
        calibrate_set(tmp_path / "zoo" / "v2")


def test_too_few_judgments_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_calibration.set_files, "read_set", lambda path: reviewed_set(12))
    with active_run(BuildRun()), pytest.raises(UserError, match="10 pairs that people say fit and 10 that do not"):
        calibrate_set(tmp_path / "zoo" / "v2")
