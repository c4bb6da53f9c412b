"""The contrastive loss, InfoNCE with margins to the hardest negatives, and one step of a training by it.

A batch has as many images as texts; the n-th of each are a pair. `is_relevant` (texts, images) marks the pairs and all
other relevant ones (another caption of the same image, an image that shows the same). Those others are neither positive
nor negative: a row leaves them out.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from querytruth.dual_encoder.augmentation import apply_augmentation, center_crop, sample_augmentation
from querytruth.dual_encoder.definition import LossOptions, TrainingDefinition
from querytruth.dual_encoder.model import DualEncoder
from querytruth.records import stable_hash

# The values of the report; margins are cosines.
_FIRST_WEIGHT, _STEP, _LAST_WEIGHT = 0.5, 0.01, 0.7
_MIN_RATE_FACTOR = 0.05
HARD_SHARE, MARGIN = 0.1, 0.08  # the share of a row's negatives that are hard
HARDEST, HARDEST_MARGIN, HARDEST_WEIGHT = 2, 0.12, 0.3  # how many of those keep the wider margin
REFERENCE_LOSS = LossOptions()


def hard_negative_weight(epoch: int) -> float:
    """Return the weight of hard negatives in an epoch, counted from 1: 0.5, plus 0.01 per epoch, up to 0.7."""
    return min(_LAST_WEIGHT, _FIRST_WEIGHT + _STEP * (epoch - 1))


def contrastive_loss(
    images: Tensor, texts: Tensor, is_relevant: Tensor, *, weight: float, options: LossOptions = REFERENCE_LOSS
) -> Tensor:
    """Return the mean of both directions' losses, of vectors (pairs, dimensions) of length one. Computed in single
    precision whatever the vectors come in: half precision holds neither the logits of small temperatures nor their
    sums."""
    with torch.autocast(images.device.type, enabled=False):
        cosines = texts.float() @ images.float().T
        return (
            _direction_loss(cosines, is_relevant, weight, options)
            + _direction_loss(cosines.T, is_relevant.T, weight, options)
        ) / 2


def _direction_loss(cosines: Tensor, is_relevant: Tensor, weight: float, options: LossOptions) -> Tensor:
    negative = ~(is_relevant | torch.eye(len(cosines), dtype=torch.bool, device=cosines.device))
    loss = info_nce(cosines / options.temperature, negative, options.smoothing)
    if not options.hard_negatives:
        return loss
    hard, hardest = margin_losses(cosines, negative)
    return loss + weight * hard + HARDEST_WEIGHT * weight * hardest


def info_nce(logits: Tensor, negative: Tensor, smoothing: float) -> Tensor:
    """Return the cross entropy of each row's own column against it and its negatives. Smoothing is spread over those
    columns alone: with every other column a negative this is torch's cross_entropy with label_smoothing."""
    counted = negative | torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    chances = logits.masked_fill(~counted, float("-inf")).log_softmax(dim=1)
    wanted = -chances.diagonal()
    even = -chances.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1)
    return ((1 - smoothing) * wanted + smoothing * even).mean()


def margin_losses(cosines: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """Return by how much the mean of each row's hard negatives, and of its hardest ones, violates a margin below the
    row's own cosine, as means over all rows. A row's hard negatives are a tenth of its negatives, at least one; a row
    without negatives counts as 0."""
    counts = negative.sum(dim=1)
    hard = torch.clamp((counts * HARD_SHARE).long(), min=1).minimum(counts)
    ordered = cosines.masked_fill(~negative, float("-inf")).sort(dim=1, descending=True).values
    own = cosines.diagonal()
    return (
        _beyond(ordered, hard, own, MARGIN),
        _beyond(ordered, hard.clamp(max=HARDEST), own, HARDEST_MARGIN),
    )


def _beyond(ordered: Tensor, first: Tensor, own: Tensor, margin: float) -> Tensor:
    chosen = torch.arange(ordered.shape[1], device=ordered.device) < first[:, None]
    mean = torch.where(chosen, ordered, 0.0).sum(dim=1) / first.clamp(min=1)
    return torch.where(first > 0, (mean - own + margin).clamp(min=0), 0.0).mean()


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Pairs of an image and a text: `pixels` (n, side, side, 3) from 0 to 255, `token_ids` and `mask` (n, length),
    `is_relevant` (texts, images); `keep_orientation` and `keep_colours` (n,): what no augmentation may change."""

    pixels: Tensor
    token_ids: Tensor
    mask: Tensor
    is_relevant: Tensor
    keep_orientation: Tensor
    keep_colours: Tensor


def create_optimizer(model: DualEncoder, rate: float, decay: float) -> torch.optim.AdamW:
    """Return AdamW over all parameters; a frozen one has no gradient, and is left alone, its decay included."""
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)


def train_step(
    model: DualEncoder,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    batch: TrainingBatch,
    definition: TrainingDefinition,
    *,
    rate: float,
    weight: float,
    seed: int,
) -> list[float]:
    """Learn from a batch at the learning rate `rate`. Return the loss, and the shares of texts and of images whose own
    one is the nearest. All chance in it comes from the seed, so that a step that is done again comes to the same. Mixed
    precision where the scaler is on."""
    torch.manual_seed(seed)  # dropout
    device = next(model.parameters()).device
    shown = _augment_or_crop(batch, definition, seed, device)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device.type, enabled=scaler.is_enabled()):
        images, texts = model(shown, batch.token_ids.to(device), batch.mask.to(device))
    is_relevant = batch.is_relevant.to(device)
    loss = contrastive_loss(images, texts, is_relevant, weight=weight, options=definition.loss)
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), definition.steps.clip)
    scaler.step(optimizer)
    scaler.update()
    return _step_result(loss, images, texts, is_relevant)


def learning_rate_factor(step: int, warm_up: int, total: int) -> float:
    """Return the factor of the highest learning rate at step `step` (from 0) of `total`: a linear rise over the first
    `warm_up` steps, then a cosine that ends at 5%.

    The report's own formula, max(0.05, (1 + cos) / 2), is lower after the rise and flat over the last seventh; its
    first step has a rate of 0.
    """
    if step < warm_up:
        return (step + 1) / warm_up
    progress = (step - warm_up) / max(total - 1 - warm_up, 1)
    return _MIN_RATE_FACTOR + (1 - _MIN_RATE_FACTOR) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2


def derive_step_seed(seed: int, epoch: int, number: int) -> int:
    """Return the seed of a step, the same whenever it is done."""
    return stable_hash(str(seed), "step", str(epoch), str(number)) >> 1


def _augment_or_crop(batch: TrainingBatch, definition: TrainingDefinition, seed: int, device: torch.device) -> Tensor:
    pixels = batch.pixels.to(device, non_blocking=True)
    if definition.augmentation is None:
        return center_crop(pixels, definition.size)
    generator = torch.Generator().manual_seed(seed)
    kept = {"keep_orientation": batch.keep_orientation, "keep_colours": batch.keep_colours}
    drawn = sample_augmentation(len(pixels), generator, definition.augmentation, **kept)
    return apply_augmentation(pixels, drawn.to(device), definition.size)


@torch.no_grad()
def _step_result(loss: Tensor, images: Tensor, texts: Tensor, is_relevant: Tensor) -> list[float]:
    cosines = texts @ images.T
    rows = torch.arange(len(cosines), device=cosines.device)
    of_texts = is_relevant[rows, cosines.argmax(dim=1)].float().mean()
    of_images = is_relevant[cosines.argmax(dim=0), rows].float().mean()
    # One wait for the device, not three.
    means: list[float] = torch.stack([loss.detach(), of_texts, of_images]).tolist()
    return means
