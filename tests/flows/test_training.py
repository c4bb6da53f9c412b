"""A dual encoder trained on a set: what it leaves, that nothing leaks, and that being killed changes nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.definition_loader import load_definition
from flows.training import TrainingResult, train_dual_encoder
from querytruth.backends.steps import BuildRun, active_run
from querytruth.dual_encoder import embedder as dual_encoder
from querytruth.dual_encoder.checkpoints import create_tokenizer, read_checkpoint
from querytruth.dual_encoder.training_data import (
    PixelTable,
    build_training_pairs,
    build_vocabulary,
    load_split_set,
    read_pixels,
)
from querytruth.errors import UserError
from querytruth.sets import set_files
from querytruth.sets.set_files import verify_set
from tests.command_runner import invoke
from tests.flows.bars_set import training_keys, write_bars_set
from tests.flows.stub_generator import Listener


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recall set of 48 images with a caption each, in `sets/bars`."""
    folder = tmp_path_factory.mktemp("training")
    write_bars_set(folder)
    return folder


def trained(place: Path, name: str, *more: str) -> TrainingResult:
    with active_run(BuildRun(workers=1)):
        return train_dual_encoder(load_definition(None, training_keys(place, name, *more), "training"))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bars(place: Path) -> TrainingResult:
    return trained(place, "bars-model", "steps.epochs=3")


def weights(folder: Path) -> dict[str, Any]:
    return read_checkpoint(str(folder))[1]


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


@pytest.mark.thorough
def test_a_training_leaves_a_model_its_history_and_the_images_that_it_never_saw(
    place: Path, bars: TrainingResult
) -> None:
    assert bars.folder == place / "models" / "bars-model" and bars.is_new
    history = json.loads((bars.folder / "training_history.json").read_text())
    assert [one["epoch"] for one in history["epochs"]] == [1, 2, 3]
    assert history["epochs"][-1]["loss"] < history["epochs"][0]["loss"]
    assert history["pictures"] == {"train": 28, "validation": 8, "test": 12} and history["set"] == "bars/v1"
    best = max(one["validation"]["mean"]["hit@1"] for one in history["epochs"])
    assert history["epochs"][history["best"] - 1]["validation"]["mean"]["hit@1"] == best
    rates = [one["rate"] for one in history["epochs"]]
    assert rates[0] == pytest.approx(0.01) and rates[2] == pytest.approx(0.0005), "warmed up, then down to a twentieth"
    assert "| R@10 |" in (bars.folder / "report.md").read_text()
    assert (bars.folder / "curves.svg").read_text().startswith("<svg")
    report = (bars.folder / "report.md").read_text()
    chance = json.loads((bars.folder / "figures.json").read_text())["chance"]
    assert chance == bars.chance and chance["hit@10"] == pytest.approx(10 / 12) and "| chance (mean) |" in report
    assert "Warning: a random order gets R@5 0.417, R@10 0.833, MRR 0.259: the test part is too small" in report
    assert not (bars.folder / ".state.pt").exists(), "what only a training under way needs is gone"


@pytest.mark.thorough
def test_the_test_part_is_a_set_of_its_own_and_none_of_it_was_trained_on(bars: TrainingResult) -> None:
    assert not list(verify_set(bars.test_set))
    kept = set_files.read_set(bars.test_set).tables
    parts = dict(line.split(",") for line in (bars.folder / "split.csv").read_text().splitlines()[1:])
    assert len(parts) == 48 and len(kept.images) == 12
    assert {parts[name] for name in kept.images["image_id"]} == {"test"}
    assert set(kept.queries["source_image_id"]) <= set(kept.images["image_id"])


@pytest.mark.thorough
def test_evaluate_gives_the_figures_of_the_training(bars: TrainingResult) -> None:
    metrics = "hit@1,hit@5,hit@10,rr"
    call = ["evaluate", str(bars.test_set), "--model", str(bars.folder), "--metrics", metrics, "--direction", "both"]
    result = invoke(*call, "--no-page", "--json", catch=False)
    assert result.exit_code == 0
    found = {
        one["direction"]: {row["metric"]: row["value"] for row in one["figures"]} for one in _results(result.stdout)
    }
    for direction in ("text_to_image", "image_to_text"):
        logged = {metric: figure[0] for metric, figure in bars.figures[direction].items()}
        assert found[direction] == pytest.approx(logged, abs=1e-12), direction


def _results(text: str) -> list[dict[str, Any]]:
    told = json.loads(text)
    return told if isinstance(told, list) else told["results"]


@pytest.mark.thorough
def test_the_same_again_is_answered_from_what_is_there(place: Path, bars: TrainingResult) -> None:
    again = trained(place, "bars-model", "steps.epochs=3")
    assert not again.is_new and again.figures == bars.figures
    with pytest.raises(UserError, match=r"bars-model .train.: already holds a model of another training"):
        trained(place, "bars-model", "steps.epochs=4")


@pytest.mark.thorough
def test_two_trainings_come_to_the_same_weights_and_another_seed_to_others(place: Path, bars: TrainingResult) -> None:
    assert same(weights(trained(place, "twin", "steps.epochs=3").folder), weights(bars.folder))
    assert not same(weights(trained(place, "other", "steps.epochs=3", "seed=1").folder), weights(bars.folder))


@pytest.mark.thorough
def test_a_training_stops_that_gets_no_better(place: Path) -> None:
    # At such a rate it cannot learn: whatever is best comes early.
    found = trained(place, "hopeless", "steps.epochs=40", "steps.patience=2", "steps.rate=1.0e-12")
    assert len(found.history) < 40
    figures = [one["validation"]["mean"]["hit@1"] for one in found.history]
    assert max(figures) == figures[-3], "two epochs without a better one were the last"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["split.test=200"], "gets none of the 48 images"),
        (["languages=[zh]"], "has no query with a relevant image to train on"),
        (["device=nowhere"], "nowhere.*: cannot be used"),
        (['texts={"architecture": "gru", "options": {"depht": 2}}'], "texts.options.depht.*: is unknown"),
        (['images={"architecture": "no-such-net"}'], "no-such-net.*: cannot be created"),
        (["steps.rate=1.0e+25"], "has the loss nan in batch"),
        (["set=nothing-there"], "nothing-there.*: has no published version"),
    ],
)
@pytest.mark.thorough
def test_what_cannot_be_is_one_line(place: Path, given: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        trained(place, "broken", "steps.epochs=1", *given)


@pytest.mark.thorough
def test_stopped_while_the_checkpoint_is_written_it_ends_the_next_time(
    place: Path, bars: TrainingResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("querytruth.dual_encoder.checkpoints.canonical_json", lambda _value: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            trained(place, "stopped", "steps.epochs=3")
    assert not (place / "models" / "stopped" / "dual_encoder.json").exists()
    assert same(weights(trained(place, "stopped", "steps.epochs=3").folder), weights(bars.folder))


@pytest.mark.thorough
def test_an_image_that_is_no_more_is_left_out_and_the_others_keep_their_places(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "sets" / "bars", tmp_path / "sets" / "bars")
    stored = set_files.read_set(set_files.find_set(str(tmp_path / "sets" / "bars")))
    files = [stored.path / path for path in stored.tables.images["path"]]
    files[3].unlink()
    files[20].write_bytes(files[21].read_bytes())
    said = Listener()
    with active_run(BuildRun(said, workers=2)):
        for _ in range(2):  # decoded, then mapped
            found = read_pixels(stored, 40)
            assert found.ids == stored.tables.images["image_id"].tolist()
            assert np.flatnonzero(~found.is_known).tolist() == [3, 20]
            for number in (0, 4, 21, 47):
                expected = dual_encoder.prepare_image(Image.open(files[number]), 40)
                assert np.array_equal(found.rows[number], expected)
    assert said.lines == ["2 of 48 images cannot be read and are left out"] * 2


def test_near_duplicates_and_merged_captions_are_right_for_each_others_texts(place: Path) -> None:
    definition = load_definition(None, training_keys(place, "any"), "training")
    parts = load_split_set(definition)  # type: ignore[arg-type]
    trained_on = parts.part_of_image[parts.part_of_image == "train"].index[:3].tolist()
    images = parts.stored.tables.images.copy()
    images.loc[images["image_id"].isin(trained_on[:2]), "duplicate_group"] = "dup_1"
    tables = replace(parts.stored.tables, images=images)
    parts = replace(parts, stored=replace(parts.stored, tables=tables))
    pixels = PixelTable(images["image_id"].tolist(), np.zeros((48, 36, 36, 3), np.uint8), np.ones(48, dtype=bool))
    tokenizer = create_tokenizer(build_vocabulary(tables.queries["text"]))
    pairs = build_training_pairs(parts, "train", pixels, tokenizer, definition)  # type: ignore[arg-type]
    place_of = {name: number for number, name in enumerate(pixels.ids)}
    chosen = np.array([np.flatnonzero(pairs.image == place_of[name])[0] for name in trained_on])
    expected = [[True, True, False], [True, True, False], [False, False, True]]
    assert pairs.relevance_matrix(chosen).tolist() == expected
    assert pairs.keep_colours.all(), "each caption names a colour"
    assert 0 < pairs.keep_orientation.sum() < len(pairs.keep_orientation), "and some say left or right"


def test_a_training_under_way_refuses_another_one_in_its_folder(place: Path) -> None:
    from querytruth.backends.files.durable_files import open_journal

    with open_journal(place / "models" / "busy" / ".running"), pytest.raises(UserError, match="written by another run"):
        trained(place, "busy", "steps.epochs=1")


_TRAIN = """
import sys
from flows.definition_loader import load_definition
from querytruth.backends.steps import BuildRun, active_run
from flows.training import train_dual_encoder
with active_run(BuildRun(workers=1)):
    train_dual_encoder(load_definition(None, sys.argv[1:], "training"))
"""


def _killed(given: list[str], state: Path, moment: Callable[[int], bool]) -> int:
    """Start, and kill -9 when `moment` says so of the number of states that were kept; the exit status."""
    process = subprocess.Popen([sys.executable, "-c", _TRAIN, *given], env=os.environ | {"OMP_NUM_THREADS": "1"})
    seen, last = 0, 0
    try:
        while process.poll() is None:
            now = state.stat().st_mtime_ns if state.exists() else 0
            if now != last:
                seen, last = seen + 1, now
                if moment(seen):
                    process.send_signal(signal.SIGKILL)
                    break
            time.sleep(0.002)
    finally:
        if process.poll() is None and not moment(seen):
            process.kill()
    return process.wait()


@pytest.mark.slow
def test_killed_in_the_middle_of_epochs_it_comes_to_the_same_weights(place: Path, bars: TrainingResult) -> None:
    given = training_keys(place, "killed", "steps.epochs=3", "steps.keep_every=0")
    folder = place / "models" / "killed"
    statuses = [_killed(given, folder / ".state.pt", lambda seen, at=at: seen >= at) for at in (2, 3)]
    assert statuses == [-signal.SIGKILL] * 2, "both were killed after a state within an epoch"
    assert not (folder / "dual_encoder.json").exists()
    resumed = trained(place, "killed", "steps.epochs=3", "steps.keep_every=0")
    assert same(weights(resumed.folder), weights(bars.folder))
    told = [(one["loss"], one["validation"]) for one in resumed.history]
    assert told == [(one["loss"], one["validation"]) for one in bars.history]
