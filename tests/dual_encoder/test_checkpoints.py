"""Checkpoints and states on disk."""

import json
from pathlib import Path

import pytest
import torch

from querytruth.dual_encoder import checkpoints
from querytruth.errors import UserError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "狗"]


def written(folder: Path) -> torch.nn.Module:
    model = torch.nn.Linear(2, 3)
    checkpoints.save_best_weights(folder, model)
    checkpoints.write_checkpoint(folder, {"name": "line"}, checkpoints.create_tokenizer(WORDS))
    return model


def test_a_checkpoint_reads_back_as_it_was_written(tmp_path: Path) -> None:
    model = written(tmp_path / "model")
    description, weights, tokenizer = checkpoints.read_checkpoint(str(tmp_path / "model"))
    assert description["name"] == "line" and weights["weight"].equal(model.weight.detach())
    assert tokenizer("a 狗 b")["input_ids"] == [2, 5, 7, 6, 3]


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer/tokenizer.json"])
def test_a_bit_that_flipped_is_found(tmp_path: Path, name: str) -> None:
    written(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 4
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match="changed since it was trained"):
        checkpoints.read_checkpoint(str(tmp_path))


def test_a_folder_without_a_description_and_one_of_another_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no dual_encoder\.json"):
        checkpoints.read_model_description(tmp_path)
    (tmp_path / "dual_encoder.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(UserError, match="has format 99, but this release reads 1"):
        checkpoints.read_model_description(tmp_path)
    (tmp_path / "dual_encoder.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        checkpoints.read_model_description(tmp_path)


def test_a_state_is_kept_whole_and_a_damaged_one_is_one_line(tmp_path: Path) -> None:
    assert checkpoints.read_state(tmp_path) is None
    checkpoints.save_state(tmp_path, {"epoch": 1, "weights": torch.ones(3)})
    checkpoints.save_state(tmp_path, {"epoch": 2, "weights": torch.zeros(3)})
    state = checkpoints.read_state(tmp_path)
    assert state is not None and state["epoch"] == 2 and not state["weights"].any()
    (tmp_path / ".state.pt").write_bytes((tmp_path / ".state.pt").read_bytes()[:-30])
    with pytest.raises(UserError, match="remove the file: the training then starts again"):
        checkpoints.read_state(tmp_path)
    checkpoints.delete_state(tmp_path)
    assert checkpoints.read_state(tmp_path) is None and not list(tmp_path.iterdir())


def test_a_state_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save_state(tmp_path, {"epoch": 1})

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        checkpoints.save_state(tmp_path, {"epoch": 2})
    assert checkpoints.read_state(tmp_path) == {"epoch": 1} and len(list(tmp_path.iterdir())) == 1
