"""`querytruth train`, as a person calls it."""

import json
from pathlib import Path

import pytest
import yaml

from querytruth.errors import UserError
from tests.command_runner import invoke
from tests.flows.bars_set import write_bars_set


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    write_bars_set(folder)
    sizes = {"embedding_size": 4, "hidden_sizes": [4, 4, 4, 4], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    told = {
        "name": "bars-model", "kind": "training", "set": "sets/bars", "out": str(folder / "models"), "size": 32,
        "images": {"architecture": "resnet", "options": sizes},
        "texts": {"architecture": "lstm", "options": {"embedding": 8, "hidden": 8}},
        "heads": {"width": 8, "hidden": 8, "dimensions": 8},
        "split": {"validation": 8, "test": 8}, "steps": {"epochs": 1, "batch": 8, "stages": []},
    }  # fmt: skip
    (folder / "training.yaml").write_text(yaml.safe_dump(told))
    return folder / "training.yaml"


@pytest.mark.thorough
def test_training_says_where_the_model_lies_and_what_to_do_next(definition: Path) -> None:
    call = ["train", str(definition), "--workers", "1"]
    shown = invoke(*call, catch=False)
    assert shown.exit_code == 0 and "querytruth: reading" in shown.stderr
    assert "epoch 1/1: loss" in shown.stderr and "pairs/s" in shown.stderr
    assert "R@10" in shown.stdout and "bars-model-test/v1 --model" in shown.stdout
    told = json.loads(invoke(*call, "--json", catch=False).stdout)
    assert not told["is_new"] and told["epochs"] == 1 and set(told["figures"]) == {
        "text_to_image", "image_to_text", "mean",
    }  # fmt: skip


def test_a_plan_counts_what_would_be_trained_on_and_writes_nothing(definition: Path) -> None:
    call = ["train", str(definition), "--plan", "--set", "name=planned"]
    planned = json.loads(invoke(*call, "--json", catch=False).stdout)
    assert planned["pictures"]["validation"] == planned["pictures"]["test"] == 8
    assert planned["pairs"] >= 8 * planned["steps_an_epoch"] > 0 and planned["epochs_at_most"] == 1
    assert "training pairs" in " ".join(invoke(*call, catch=False).stdout.split())
    assert not (definition.parent / "models" / "planned").exists()


@pytest.mark.thorough
def test_a_place_that_cannot_be_written_is_one_line(definition: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where a folder must be")
    call = ["train", str(definition), "--set", f"out={tmp_path / 'models'}"]
    with pytest.raises(
        UserError, match="is a file, but the sets need a folder here\\. Next: set `out` to another folder"
    ):
        invoke(*call, catch=False)


def test_help_has_an_example() -> None:
    assert "querytruth train training.yaml" in invoke("train", "--help").stdout
