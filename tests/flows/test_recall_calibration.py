"""Reviewers judged captions with other images; querytruth calibrate fits the probability to what they said."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from backends.calibration_files import read_calibrations
from builders.errors import UserError
from flows import recall_calibration
from flows.recall_calibration import calibrate_set
from flows.steps import BuildRun, active_run

ANIMALS = ["dog", "cat", "horse", "cow", "sheep", "duck", "goat", "bear", "lion", "tiger", "rabbit", "monkey"]
PLACES = ["on the beach", "in the park", "near a lake"]


def reviewed_set(judged: int) -> Any:
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
    definition = {"name": "zoo", "kind": "recall", "images": "zoo", "ambiguity": {"text_embedder": None}}
    manifest = {"name": "zoo", "version": 2, "kind": "recall", "licence": "", "envelope": {"definition": definition}}
    tables = SimpleNamespace(queries=queries, images=images, qrels=human, duplicates=None)
    return SimpleNamespace(tables=tables, manifest=manifest)


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


def test_too_few_judgments_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_calibration.set_files, "read_set", lambda path: reviewed_set(12))
    with active_run(BuildRun()), pytest.raises(UserError, match="10 pairs that people say fit and 10 that do not"):
        calibrate_set(tmp_path / "zoo" / "v2")
