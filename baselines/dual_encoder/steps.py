"""One step of a training: forward, backward, clipped, and the optimizer moved on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from baselines.dual_encoder.augmentation import Augmentation, centred, changed, draw_changes
from baselines.dual_encoder.loss import LossRules, contrastive_loss
from baselines.dual_encoder.model import DualEncoder
from builders.records import stable_hash


@dataclass(frozen=True, slots=True)
class Batch:
    """Pairs of a picture and a text: `pixels` (n, side, side, 3) from 0 to 255, `ids` and `mask` (n, length), `right`
    (texts, pictures); `keep_sides` and `keep_colours` (n,): what no augmentation may change."""

    pixels: Tensor
    ids: Tensor
    mask: Tensor
    right: Tensor
    keep_sides: Tensor
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
class Stepped:
    """What a step came to: the loss, and the shares of texts and of pictures whose own one is the nearest."""

    loss: float
    texts: float
    pictures: float


def optimizer_of(model: DualEncoder, rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW over all parameters; a frozen one has no gradient, and is left alone, its decay included."""
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)


def step(
    model: DualEncoder,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    batch: Batch,
    rules: StepRules,
    *,
    rate: float,
    weight: float,
    seed: int,
) -> Stepped:
    """Learn from a batch at the learning rate `rate`. All chance in it comes from the seed, so that a step that is
    done again comes to the same. Mixed precision where the scaler is on."""
    torch.manual_seed(seed)  # dropout
    device = next(model.parameters()).device
    shown = _shown(batch, rules, seed, device)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device.type, enabled=scaler.is_enabled()):
        pictures, texts = model(shown, batch.ids.to(device), batch.mask.to(device))
    right = batch.right.to(device)
    loss = contrastive_loss(pictures, texts, right, weight=weight, rules=rules.loss)
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), rules.clip)
    scaler.step(optimizer)
    scaler.update()
    return _stepped(loss, pictures, texts, right)


def step_seed(seed: int, epoch: int, number: int) -> int:
    """The seed of a step, the same whenever it is done."""
    return stable_hash(str(seed), "step", str(epoch), str(number)) >> 1


def _shown(batch: Batch, rules: StepRules, seed: int, device: torch.device) -> Tensor:
    pixels = batch.pixels.to(device, non_blocking=True)
    if rules.augmentation is None:
        return centred(pixels, rules.size)
    generator = torch.Generator().manual_seed(seed)
    kept = {"keep_sides": batch.keep_sides, "keep_colours": batch.keep_colours}
    drawn = draw_changes(len(pixels), generator, rules.augmentation, **kept)
    return changed(pixels, drawn.to(device), rules.size)


@torch.no_grad()
def _stepped(loss: Tensor, pictures: Tensor, texts: Tensor, right: Tensor) -> Stepped:
    cosines = texts @ pictures.T
    rows = torch.arange(len(cosines), device=cosines.device)
    of_texts = right[rows, cosines.argmax(dim=1)].float().mean()
    of_pictures = right[cosines.argmax(dim=0), rows].float().mean()
    # One wait for the device, not three.
    found = torch.stack([loss.detach(), of_texts, of_pictures]).tolist()
    return Stepped(*found)
