"""The contrastive loss against a reference that says each term in the plainest way: one row, one sum at a time."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from querytruth.dual_encoder.definition import LossOptions
from querytruth.dual_encoder.loss import (
    HARD_SHARE,
    HARDEST,
    HARDEST_MARGIN,
    HARDEST_WEIGHT,
    MARGIN,
    contrastive_loss,
    hard_negative_weight,
    info_nce,
    learning_rate_factor,
    margin_losses,
)


def vectors(count: int, seed: int, dimensions: int = 8) -> Tensor:
    drawn = torch.randn(count, dimensions, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn, dim=1)


def right_for(images: list[int]) -> Tensor:
    """Which texts are right for which images, where the n-th text is of image `images[n]`."""
    return torch.tensor([[one == other for other in images] for one in images])


def slow(images: Tensor, texts: Tensor, right: Tensor, weight: float, options: LossOptions) -> float:
    """The loss by hand, in double precision."""
    count = len(texts)
    total = 0.0
    for turned in (False, True):
        for row in range(count):
            cosine = [float(images[row] @ texts[n]) if turned else float(texts[row] @ images[n]) for n in range(count)]
            fits = [bool(right[n, row]) if turned else bool(right[row, n]) for n in range(count)]
            negatives = [cosine[n] for n in range(count) if n != row and not fits[n]]
            counted = [cosine[row], *negatives]
            below = math.log(sum(math.exp(one / options.temperature) for one in counted))
            surprise = [below - one / options.temperature for one in counted]
            loss = (1 - options.smoothing) * surprise[0] + options.smoothing * sum(surprise) / len(surprise)
            if options.hard_negatives and negatives:
                hard = sorted(negatives, reverse=True)[: max(1, int(len(negatives) * HARD_SHARE))]
                hardest = hard[:HARDEST]
                loss += weight * max(0.0, sum(hard) / len(hard) - cosine[row] + MARGIN)
                wide = max(0.0, sum(hardest) / len(hardest) - cosine[row] + HARDEST_MARGIN)
                loss += HARDEST_WEIGHT * weight * wide
            total += loss / count / 2
    return total


@pytest.mark.parametrize("options", [LossOptions(), LossOptions(hard_negatives=False), LossOptions(smoothing=0)])
@pytest.mark.parametrize(
    "images",
    [list(range(64)), [0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8], [0, 1], [0, 0], list(range(40)) + list(range(40))],
    ids=["all different", "some twice", "two", "one image alone", "each twice"],
)
@pytest.mark.thorough
def test_the_loss_is_that_of_the_slow_reference(options: LossOptions, images: list[int]) -> None:
    of_images, of_texts = vectors(len(images), 1), vectors(len(images), 2)
    right = right_for(images)
    fast = contrastive_loss(of_images.float(), of_texts.float(), right, weight=0.57, options=options)
    assert float(fast) == pytest.approx(slow(of_images, of_texts, right, 0.57, options), abs=1e-6, rel=1e-6)


def test_a_text_may_be_right_for_another_image_and_not_the_other_way_round() -> None:
    """As merged captions are: "a dog" fits the brown dog's image, too; "a brown dog" fits no other."""
    of_images, of_texts, right = vectors(6, 1), vectors(6, 2), torch.eye(6, dtype=torch.bool)
    right[0, 1] = right[0, 2] = right[3, 5] = True
    fast = contrastive_loss(of_images.float(), of_texts.float(), right, weight=0.5)
    assert float(fast) == pytest.approx(slow(of_images, of_texts, right, 0.5, LossOptions()), abs=1e-6)


def test_without_a_repeated_image_the_first_term_is_torchs_own_cross_entropy() -> None:
    logits = 20 * torch.randn(32, 32, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    negative = ~torch.eye(32, dtype=torch.bool)
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(32), label_smoothing=0.1)
    assert float(info_nce(logits, negative, 0.1)) == pytest.approx(float(expected), abs=1e-9)


def test_each_margin_term_by_hand() -> None:
    # Twenty negatives: two are hard, and both of those are the hardest.
    row = torch.tensor([0.5, 0.49, 0.45, *[0.1] * 18])
    cosines = row.repeat(21, 1)
    negative = torch.zeros(21, 21, dtype=torch.bool)
    negative[0, 1:] = True  # all other rows have no negative, and count as 0
    hard, hardest = margin_losses(cosines, negative)
    assert float(hard) == pytest.approx((0.47 - 0.5 + 0.08) / 21, abs=1e-7)
    assert float(hardest) == pytest.approx((0.47 - 0.5 + 0.12) / 21, abs=1e-7)


def test_captions_of_one_image_are_never_each_others_negatives() -> None:
    """However near the second caption comes to the first one's copy of the image, nothing pushes it away."""
    of_images, of_texts = vectors(4, 5), vectors(4, 6).requires_grad_()
    alone = contrastive_loss(of_images, of_texts, torch.ones(4, 4, dtype=torch.bool), weight=0.5)
    alone.backward()
    assert alone.item() == 0 and not of_texts.grad.any(), "four captions of one image say nothing about each other"
    right, near = right_for([0, 0, 1, 2]), of_texts.detach().clone()
    near[1] = of_images[0]
    blind = torch.eye(4, dtype=torch.bool)
    seen = contrastive_loss(of_images, near, right, weight=0.5)
    assert seen < contrastive_loss(of_images, near, blind, weight=0.5)


def test_the_weight_of_hard_negatives_rises_from_a_half_to_its_limit() -> None:
    expected = [0.5, 0.51, 0.6, 0.7, 0.7, 0.7]
    assert [round(hard_negative_weight(epoch), 2) for epoch in (1, 2, 11, 21, 22, 60)] == expected


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("images", [[0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 0]])
def test_gradients_are_finite_in_half_precision(kind: torch.dtype, images: list[int]) -> None:
    towers = [vectors(4, seed).to(kind).requires_grad_() for seed in (7, 8)]
    # Perfect and hopeless pairs: the largest logits that there are.
    towers[1] = torch.cat([towers[0][:2], -towers[0][2:]]).detach().requires_grad_()
    loss = contrastive_loss(*towers, right_for(images), weight=0.7)
    loss.backward()
    assert torch.isfinite(loss) and loss.dtype == torch.float32
    assert all(torch.isfinite(tower.grad).all() for tower in towers)


def test_it_rises_over_the_first_epoch_and_falls_to_a_twentieth() -> None:
    shares = [learning_rate_factor(step, 10, 200) for step in range(200)]
    assert shares[0] == pytest.approx(0.1) and shares[9] == shares[10] == 1
    assert all(one < other for one, other in pairwise(shares[:10]))
    assert all(one > other for one, other in pairwise(shares[10:]))
    assert shares[-1] == pytest.approx(0.05) and min(shares[10:]) == shares[-1]
    middle = (10 + 199) / 2
    assert (
        learning_rate_factor(math.floor(middle), 10, 200) + learning_rate_factor(math.ceil(middle), 10, 200)
    ) / 2 == (pytest.approx(0.525, abs=1e-6))


@pytest.mark.parametrize(("warm_up", "total"), [(0, 1), (1, 1), (5, 5), (0, 10), (7, 3)])
def test_short_trainings_have_a_rate_in_every_step(warm_up: int, total: int) -> None:
    assert all(0 < learning_rate_factor(step, warm_up, total) <= 1 for step in range(total))
