"""The dual encoder of real classes, tiny and random: its pooling, and which parameters train in which stage."""

import re

import pytest
import torch

from querytruth.dual_encoder.loss import contrastive_loss, create_optimizer
from querytruth.dual_encoder.model import (
    POOLINGS,
    DualEncoder,
    apply_unfreezing_stage,
    find_unfreezing_stage,
    frozen_parameter_names,
    pool_tokens,
)
from tests.dual_encoder.tiny_towers import make_encoder, make_inputs


@pytest.mark.parametrize("images", ["resnet", "vit"])
@pytest.mark.parametrize("texts", ["bert", "gru", "lstm"])
@pytest.mark.thorough
def test_both_towers_meet_in_one_space_at_length_one(images: str, texts: str) -> None:
    model = make_encoder(images, texts).eval()
    for vectors in model(*make_inputs()):
        assert vectors.shape == (3, 6) and vectors.dtype == torch.float32
        assert torch.allclose(vectors.norm(dim=1), torch.ones(3), atol=1e-6)


@pytest.mark.parametrize("texts", ["bert", "gru", "lstm"])
@pytest.mark.parametrize("pooling", ["mean", "max", "mean_max"])
@pytest.mark.thorough
def test_a_text_is_the_same_however_far_it_is_filled_up(texts: str, pooling: str) -> None:
    model = make_encoder(texts=texts, pooling=pooling).eval()
    _, ids, mask = make_inputs()
    longer = [torch.nn.functional.pad(rows, (0, 5)) for rows in (ids, mask)]
    assert torch.allclose(model.encode_texts(ids, mask), model.encode_texts(*longer), atol=1e-6)


def test_an_image_tower_of_maps_gives_the_mean_over_all_places() -> None:
    tower = make_encoder().eval().pictures
    pixels = make_inputs()[0]
    maps = tower.backbone(pixel_values=pixels).last_hidden_state
    by_hand = torch.stack([torch.stack([plane.mean() for plane in image]) for image in maps])
    assert torch.allclose(tower(pixels), by_hand, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("texts", ["bert", "gru"])
@pytest.mark.thorough
def test_a_step_in_mixed_precision_has_finite_gradients(kind: torch.dtype, texts: str) -> None:
    """A batch with two captions of one image, under autocast as a GPU would run it."""
    model = make_encoder(texts=texts)
    right = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    with torch.autocast("cpu", dtype=kind):
        images, words = model(*make_inputs())
        assert images.dtype == words.dtype == torch.float32
        assert torch.allclose(words.norm(dim=1), torch.ones(3), atol=1e-6), "not rounded to half precision"
        loss = contrastive_loss(images, words, right, weight=0.5)
    loss.backward()
    assert loss.dtype == torch.float32 and torch.isfinite(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name


HIDDEN = torch.randn(5, 7, 6, generator=torch.Generator().manual_seed(0)) - 3  # mostly below zero: padding is above it
LENGTHS = [7, 1, 4, 2, 6]
MASK = torch.tensor([[int(place < length) for place in range(7)] for length in LENGTHS])


def by_hand(how: str) -> torch.Tensor:
    rows = []
    for text, length in enumerate(LENGTHS):
        cells = []
        for column in range(6):
            values = [float(HIDDEN[text, place, column]) for place in range(length)]
            mean, most = sum(values) / length, max(values)
            cells.append({"cls": values[0], "mean": mean, "max": most, "mean_max": 0.6 * mean + 0.4 * most}[how])
        rows.append(cells)
    return torch.tensor(rows)


@pytest.mark.parametrize("how", POOLINGS)
def test_pooling_is_what_a_loop_over_the_tokens_gives(how: str) -> None:
    assert torch.allclose(pool_tokens(HIDDEN, MASK, how), by_hand(how), atol=1e-6, rtol=0)


@pytest.mark.parametrize("how", POOLINGS)
def test_nothing_in_the_padding_is_seen_whatever_it_is(how: str) -> None:
    spoilt = HIDDEN.masked_fill(MASK[..., None] == 0, float("inf"))
    assert torch.equal(pool_tokens(spoilt, MASK, how), pool_tokens(HIDDEN, MASK, how))


@pytest.mark.parametrize("how", POOLINGS)
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_stays_finite(how: str, kind: torch.dtype) -> None:
    hidden = (HIDDEN * 5000).to(kind).requires_grad_()
    found = pool_tokens(hidden, MASK, how)
    found.sum().backward()
    assert found.dtype == torch.float32 and torch.isfinite(found).all() and torch.isfinite(hidden.grad).all()


def test_a_text_without_a_token_is_zeros_and_an_unknown_pooling_is_refused() -> None:
    nothing = torch.zeros_like(MASK)
    assert not pool_tokens(HIDDEN, nothing, "mean_max").any()
    with pytest.raises(ValueError, match=r"median.*cls, mean, max, mean_max"):
        pool_tokens(HIDDEN, MASK, "median")


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
    assert all(norm.training for norm in model.pictures.batch_norms())
    assert (
        find_unfreezing_stage(5, []).rate_factor == 1
        and frozen_parameter_names(model, find_unfreezing_stage(5, [])) == set()
    )


def test_a_vit_is_frozen_by_the_same_shares() -> None:
    model = make_encoder("vit")
    names = frozen_parameter_names(model, find_unfreezing_stage(1, STARTS), texts=False)
    blocks = {int(found[1]) for name in names if (found := re.search(r"layers?\.(\d+)\.", name))}
    assert blocks == set(range(9)) and any("pictures.backbone.embeddings" in name for name in names)
