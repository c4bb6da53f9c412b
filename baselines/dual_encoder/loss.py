"""The contrastive loss: InfoNCE with smoothed labels, and margins to the hardest negatives.

A batch has as many images as texts; the n-th of each are a pair. `is_relevant` (texts, images) marks the pairs and all
other relevant ones (another caption of the same image, an image that shows the same). Those others are neither positive
nor negative: a row leaves them out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_FIRST_WEIGHT, _STEP, _LAST_WEIGHT = 0.5, 0.01, 0.7


@dataclass(frozen=True, slots=True)
class LossRules:
    """The report's numbers. `hard`: the share of a row's negatives that are hard; `hardest`: how many of those keep
    the wider margin; `hard_negatives` false: InfoNCE alone. Margins are of cosines."""

    temperature: float = 0.07
    smoothing: float = 0.1
    hard_negatives: bool = True
    hard: float = 0.1
    margin: float = 0.08
    hardest: int = 2
    hardest_margin: float = 0.12
    hardest_weight: float = 0.3


REFERENCE_LOSS_RULES = LossRules()


def hard_negative_weight(epoch: int) -> float:
    """What hard negatives weigh in an epoch, counted from 1: 0.5, and 0.01 more each epoch, up to 0.7."""
    return min(_LAST_WEIGHT, _FIRST_WEIGHT + _STEP * (epoch - 1))


def contrastive_loss(
    images: Tensor, texts: Tensor, is_relevant: Tensor, *, weight: float, rules: LossRules = REFERENCE_LOSS_RULES
) -> Tensor:
    """The mean of both directions' losses, of vectors (pairs, dimensions) of length one. Computed in single precision
    whatever the vectors come in: half precision holds neither the logits of small temperatures nor their sums."""
    with torch.autocast(images.device.type, enabled=False):
        cosines = texts.float() @ images.float().T
        return (
            _direction_loss(cosines, is_relevant, weight, rules)
            + _direction_loss(cosines.T, is_relevant.T, weight, rules)
        ) / 2


def _direction_loss(cosines: Tensor, is_relevant: Tensor, weight: float, rules: LossRules) -> Tensor:
    own = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    negative = ~(is_relevant | own)
    loss = info_nce(cosines / rules.temperature, negative, rules.smoothing)
    if not rules.hard_negatives:
        return loss
    hard, hardest = margin_losses(cosines, negative, rules)
    return loss + weight * hard + rules.hardest_weight * weight * hardest


def info_nce(logits: Tensor, negative: Tensor, smoothing: float) -> Tensor:
    """The cross entropy of each row's own column against it and its negatives. Smoothing is spread over those columns
    alone: with every other column a negative this is torch's cross_entropy with label_smoothing."""
    own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    counted = negative | own
    chances = logits.masked_fill(~counted, float("-inf")).log_softmax(dim=1)
    wanted = -chances.diagonal()
    even = -chances.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1)
    return ((1 - smoothing) * wanted + smoothing * even).mean()


def margin_losses(cosines: Tensor, negative: Tensor, rules: LossRules) -> tuple[Tensor, Tensor]:
    """How far the mean of each row's hard negatives, and of its hardest ones, is closer than a margin below the row's
    own; the means over all rows. A row's hard negatives are a tenth of its negatives, one at least; a row without a
    negative counts as 0."""
    counts = negative.sum(dim=1)
    hard = torch.clamp((counts * rules.hard).long(), min=1).minimum(counts)
    ordered = cosines.masked_fill(~negative, float("-inf")).sort(dim=1, descending=True).values
    own = cosines.diagonal()
    return (
        _beyond(ordered, hard, own, rules.margin),
        _beyond(ordered, hard.clamp(max=rules.hardest), own, rules.hardest_margin),
    )


def _beyond(ordered: Tensor, first: Tensor, own: Tensor, margin: float) -> Tensor:
    chosen = torch.arange(ordered.shape[1], device=ordered.device) < first[:, None]
    mean = torch.where(chosen, ordered, 0.0).sum(dim=1) / first.clamp(min=1)
    return torch.where(first > 0, (mean - own + margin).clamp(min=0), 0.0).mean()
