"""What trains when: pretrained towers thaw from the top down, in four stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from baselines.dual_encoder.model import DualEncoder


@dataclass(frozen=True, slots=True)
class Stage:
    """From `epoch` on these shares of each tower's layers are frozen, from the bottom. Of a picture tower the stem
    counts as a layer (of a ResNet's five); of a text tower the blocks count, and `embeddings` says whether what lies
    below them is frozen. `rate`: what the learning rate is multiplied by."""

    epoch: int
    pictures: float
    texts: float
    embeddings: bool
    rate: float = 1.0


THAWED = Stage(1, 0, 0, False)
# Of a ResNet's stem and four stages 4, 3, 1, 0; of BERT's twelve blocks 8, 6, 2, 0.
_SHARES = ((4 / 5, 8 / 12, True, 1.0), (3 / 5, 6 / 12, True, 1.0), (1 / 5, 2 / 12, False, 1.0), (0, 0, False, 0.7))


def stage_of(epoch: int, starts: Sequence[int]) -> Stage:
    """The stage of an epoch (from 1), where the four stages begin with these epochs; none: all trains from the first
    epoch on."""
    if not starts:
        return THAWED
    number = sum(start <= epoch for start in starts) - 1
    return Stage(starts[number], *_SHARES[number])


def frozen_names(model: DualEncoder, stage: Stage, *, pictures: bool = True, texts: bool = True) -> set[str]:
    """The parameters that do not train in a stage. A tower that was never trained before (`pictures`, `texts` false)
    is never frozen. While any layer of the picture tower is frozen, so are the weights of all its batch norms."""
    parts: list[nn.Module] = []
    if pictures:
        parts += _first(model.pictures.layers(), stage.pictures)
        if stage.pictures:
            parts += [norm for _, norm in model.pictures.batch_norms()]
    if texts and (layers := model.texts.layers()):
        parts += _first(layers[1:], stage.texts) + (layers[:1] if stage.embeddings else [])
    frozen = {id(parameter) for part in parts for parameter in part.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in frozen}


def enter(model: DualEncoder, stage: Stage, *, pictures: bool = True, texts: bool = True) -> None:
    """Make the model ready to train in a stage. The statistics of a pretrained picture tower's batch norms stay as
    they are in every stage: batches are too small to measure them anew."""
    frozen = frozen_names(model, stage, pictures=pictures, texts=texts)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    model.train()
    if pictures:
        for _, norm in model.pictures.batch_norms():
            norm.eval()


def _first(layers: Sequence[nn.Module], share: float) -> list[nn.Module]:
    return list(layers[: round(share * len(layers))])
