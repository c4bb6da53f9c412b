"""One step of a training: forward, backward, clipped, and the optimizer moved on; and its learning rate."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from baselines.dual_encoder.augmentation import Augmentation, apply_augmentation, center_crop, sample_augmentation
from baselines.dual_encoder.loss import LossRules, contrastive_loss
from baselines.dual_encoder.model import DualEncoder
from builders.records import stable_hash

_MIN_RATE_FACTOR = 0.05


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Pairs of a picture and a text: `pixels` (n, side, side, 3) from 0 to 255, `token_ids` and `mask` (n, length),
    `is_relevant` (texts, pictures); `keep_orientation` and `keep_colours` (n,): what no augmentation may change."""

    pixels: Tensor
    token_ids: Tensor
    mask: Tensor
    is_relevant: Tensor
    keep_orientation: Tensor
    keep_colours: Tensor


@dataclass(frozen=True, slots=True)
class StepRules:
    """`size`: the side of pictures as the model sees them; `augmentation` None: pictures as they are; `clip`: the
    longest gradient."""

    size: int
    loss: LossRules
    augmentation: Augmentation | None
    clip: float


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step came to: the loss, and the shares of texts and of pictures whose own one is the nearest."""

    loss: float
    text_accuracy: float
    image_accuracy: float


def create_optimizer(model: DualEncoder, rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW over all parameters; a frozen one has no gradient, and is left alone, its decay included."""
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)


def train_step(
    model: DualEncoder,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    batch: TrainingBatch,
    rules: StepRules,
    *,
    rate: float,
    weight: float,
    seed: int,
) -> StepResult:
    """Learn from a batch at the learning rate `rate`. All chance in it comes from the seed, so that a step that is
    done again comes to the same. Mixed precision where the scaler is on."""
    torch.manual_seed(seed)  # dropout
    device = next(model.parameters()).device
    shown = _augment_or_crop(batch, rules, seed, device)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device.type, enabled=scaler.is_enabled()):
        images, texts = model(shown, batch.token_ids.to(device), batch.mask.to(device))
    is_relevant = batch.is_relevant.to(device)
    loss = contrastive_loss(images, texts, is_relevant, weight=weight, rules=rules.loss)
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), rules.clip)
    scaler.step(optimizer)
    scaler.update()
    return _step_result(loss, images, texts, is_relevant)


def learning_rate_factor(step: int, warm_up: int, total: int) -> float:
    """What part of the highest learning rate step `step` (from 0) of `total` has: a straight rise over the first
    `warm_up` steps, then a cosine that ends at 5%.

    The report's own formula, max(0.05, (1 + cos) / 2), is lower after the rise and flat over the last seventh; its
    first step has a rate of 0.
    """
    if step < warm_up:
        return (step + 1) / warm_up
    progress = (step - warm_up) / max(total - 1 - warm_up, 1)
    return _MIN_RATE_FACTOR + (1 - _MIN_RATE_FACTOR) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2


def derive_step_seed(seed: int, epoch: int, number: int) -> int:
    """The seed of a step, the same whenever it is done."""
    return stable_hash(str(seed), "step", str(epoch), str(number)) >> 1


def _augment_or_crop(batch: TrainingBatch, rules: StepRules, seed: int, device: torch.device) -> Tensor:
    pixels = batch.pixels.to(device, non_blocking=True)
    if rules.augmentation is None:
        return center_crop(pixels, rules.size)
    generator = torch.Generator().manual_seed(seed)
    kept = {"keep_orientation": batch.keep_orientation, "keep_colours": batch.keep_colours}
    drawn = sample_augmentation(len(pixels), generator, rules.augmentation, **kept)
    return apply_augmentation(pixels, drawn.to(device), rules.size)


@torch.no_grad()
def _step_result(loss: Tensor, images: Tensor, texts: Tensor, is_relevant: Tensor) -> StepResult:
    cosines = texts @ images.T
    rows = torch.arange(len(cosines), device=cosines.device)
    of_texts = is_relevant[rows, cosines.argmax(dim=1)].float().mean()
    of_images = is_relevant[cosines.argmax(dim=0), rows].float().mean()
    # One wait for the device, not three.
    return StepResult(*torch.stack([loss.detach(), of_texts, of_images]).tolist())
