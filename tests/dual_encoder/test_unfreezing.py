"""Which parameters train in which stage, by their names."""

import re

import pytest
import torch

from querytruth.dual_encoder.loss import contrastive_loss, create_optimizer
from querytruth.dual_encoder.model import (
    DualEncoder,
    apply_unfreezing_stage,
    find_unfreezing_stage,
    frozen_parameter_names,
)
from tests.dual_encoder.tiny_towers import make_encoder, make_inputs

STARTS = [1, 4, 7, 11]
BOTTOM = r"pictures\.backbone\.embedder\."
STAGES = r"pictures\.backbone\.encoder\.stages\.[{}]\."
NORMS = r"pictures\..*\.normalization\."
WORDS = r"texts\.backbone\.embeddings\."
BLOCKS = r"texts\.backbone\.encoder\.layer\.({})\."
FROZEN = {  # by epoch: what the report's four stages freeze of a ResNet and of BERT
    1: [BOTTOM, STAGES.format("012"), NORMS, WORDS, BLOCKS.format("[0-7]")],
    4: [BOTTOM, STAGES.format("01"), NORMS, WORDS, BLOCKS.format("[0-5]")],
    7: [BOTTOM, NORMS, BLOCKS.format("[01]")],
    11: [],
}


@pytest.mark.parametrize("epoch", [1, 3, 4, 6, 7, 10, 11, 20])
@pytest.mark.thorough
def test_each_stage_freezes_just_what_is_listed(epoch: int) -> None:
    model = make_encoder()
    listed = FROZEN[max(start for start in FROZEN if start <= epoch)]
    apply_unfreezing_stage(model, find_unfreezing_stage(epoch, STARTS))
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad != any(re.match(pattern, name) for pattern in listed), name
    assert {name for name, one in model.named_parameters() if not one.requires_grad} == (
        frozen_parameter_names(model, find_unfreezing_stage(epoch, STARTS))
    )


def trained_step(model: DualEncoder, epoch: int) -> set[str]:
    """The parameters, and statistics, that a step at a huge rate moves."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    apply_unfreezing_stage(model, find_unfreezing_stage(epoch, STARTS))
    optimizer = create_optimizer(model, 0.1, 0.5)
    right = torch.eye(3, dtype=torch.bool)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        contrastive_loss(*model(*make_inputs()), right, weight=0.5).backward()
        optimizer.step()
    return {name for name, value in model.state_dict().items() if not torch.equal(before[name], value)}


@pytest.mark.thorough
@pytest.mark.parametrize("epoch", [1, 4, 7, 11])
def test_nothing_else_moves_not_by_decay_and_not_by_statistics(epoch: int) -> None:
    model = make_encoder()
    frozen = frozen_parameter_names(model, find_unfreezing_stage(epoch, STARTS))
    moved = trained_step(model, epoch)
    assert not moved & frozen
    assert not [name for name in moved if "running_" in name or "num_batches" in name]
    assert any(name.startswith("picture_head") for name in moved)
    assert epoch < 11 or any("embedder" in name for name in moved)


def test_a_later_stage_thaws_what_an_earlier_one_froze() -> None:
    model = make_encoder()
    trainable = []
    for epoch in (1, 4, 7, 11):
        apply_unfreezing_stage(model, find_unfreezing_stage(epoch, STARTS))
        trainable.append({name for name, one in model.named_parameters() if one.requires_grad})
    assert trainable[0] < trainable[1] < trainable[2] < trainable[3]
    assert len(trainable[3]) == len(list(model.named_parameters()))


def test_the_last_stage_has_a_lower_rate() -> None:
    assert [find_unfreezing_stage(epoch, STARTS).rate_factor for epoch in (1, 4, 10, 11, 30)] == [1, 1, 1, 0.7, 0.7]


def test_a_new_tower_is_never_frozen_and_measures_its_own_statistics() -> None:
    model = make_encoder(texts="gru")
    stage = find_unfreezing_stage(1, STARTS)
    assert frozen_parameter_names(model, stage, images=False, texts=False) == set()
    apply_unfreezing_stage(model, stage, images=False, texts=False)
    assert all(norm.training for _, norm in model.pictures.batch_norms())
    assert (
        find_unfreezing_stage(5, []).rate_factor == 1
        and frozen_parameter_names(model, find_unfreezing_stage(5, [])) == set()
    )


def test_a_vit_is_frozen_by_the_same_shares() -> None:
    model = make_encoder("vit")
    names = frozen_parameter_names(model, find_unfreezing_stage(1, STARTS), texts=False)
    blocks = {int(found[1]) for name in names if (found := re.search(r"layers?\.(\d+)\.", name))}
    assert blocks == set(range(9)) and any("pictures.backbone.embeddings" in name for name in names)
