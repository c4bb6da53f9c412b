"""A machine without torch: what needs no model works, and the rest says so in one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.images import make_jpeg
from tests.small_sets import publish_small_set, small_tables

SPLIT = {"split": {"validation": 1, "test": 1}}
LIBRARIES = ("torch", "transformers", "sentence_transformers")
# As where these are not installed: neither their modules nor their versions are found.
WITHOUT = f"""
import importlib.metadata, sys
for library in {LIBRARIES!r}:
    sys.modules[library] = None
found = importlib.metadata.version
def version(name):
    if name.replace("-", "_") in {LIBRARIES!r}:
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
from querytruth.cli.app import main
main()
"""


def run_without_torch(place: Path, *words: str, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *words], cwd=place, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, " ".join(done.stderr.split())


@pytest.fixture
def album(tmp_path: Path) -> Path:
    for number, name in enumerate(("dog", "cat", "boat")):
        (tmp_path / "album").mkdir(exist_ok=True)
        (tmp_path / "album" / f"{name}.jpg").write_bytes(make_jpeg((70 * number, 200 - 70 * number, 90), (100, 80)))
    rows = ["file_name,language,caption", "dog.jpg,en,a wet dog", "cat.jpg,en,a grey cat", "boat.jpg,en,one red boat"]
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    return tmp_path


def write_recall(place: Path, **keys: object) -> str:
    captions = {"model": "captions_file", "options": {"path": "captions.csv"}, "prompt": ["en/caption"]}
    definition = {"name": "album", "kind": "recall", "images": "album", "render": {"size": 64}, "captions": captions}
    definition |= {"near_duplicates": {"distance": None}, "ambiguity": {"text_embedder": "char_ngrams"}, **keys}
    (place / "album.yaml").write_text(json.dumps(definition))
    return "album.yaml"


@pytest.mark.slow
def test_a_set_is_built_evaluated_and_linted(album: Path) -> None:
    out, _ = run_without_torch(album, "build", "recall", write_recall(album), "--in-process")
    assert "album/v1 published" in out
    out, _ = run_without_torch(album, "evaluate", "album", "--baseline", "lexical")
    assert "hit@1" in out
    (result,) = (album / "datasets" / "album" / "evaluations").rglob("result.json")
    assert "torch" not in json.loads(result.read_text("utf-8"))["envelope"]["versions"]
    run_without_torch(album, "lint", "album")


@pytest.mark.parametrize(
    ("keys", "library"),
    [
        ({"ambiguity": {"text_embedder": "model"}}, "torch"),
        ({"ambiguity": {"text_embedder": "char_ngrams", "image_embedder": "model"}}, "torch"),
        ({"captions": {"model": "qwen_vl", "options": {"name": "model"}, "prompt": ["en/caption"]}}, "torch"),
    ],
)
@pytest.mark.thorough
def test_a_build_with_a_model_names_what_is_missing(album: Path, keys: dict[str, object], library: str) -> None:
    (album / "model").mkdir()
    (album / "model" / "config.json").write_text("{}")
    path = write_recall(album, **keys)
    _, err = run_without_torch(album, "build", "recall", path, "--in-process", code=1)
    assert f"needs {library}, which is not installed. Next: pip install {library}" in err


@pytest.mark.thorough
def test_an_evaluation_of_a_model_and_a_training_name_what_is_missing(tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    _, err = run_without_torch(tmp_path, "evaluate", "small", "--out", "sets", "--model", "model", code=1)
    assert "needs torch, which is not installed. Next: pip install torch" in err
    (tmp_path / "training.yaml").write_text(
        json.dumps({"name": "mine", "kind": "training", "set": "sets/small", **SPLIT})
    )
    _, err = run_without_torch(tmp_path, "train", "training.yaml", code=1)
    assert "needs torch, which is not installed. Next: pip install torch" in err
