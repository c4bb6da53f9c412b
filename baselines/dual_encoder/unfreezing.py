"""The unfreezing of pretrained towers from the top down, in four stages."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from baselines.dual_encoder.model import DualEncoder


@dataclass(frozen=True, slots=True)
class UnfreezingStage:
    """From `epoch` on these shares of each tower's layers are frozen, from the bottom. Of a picture tower the stem
    counts as a layer (of a ResNet's five); of a text tower the blocks count, and `freezes_embeddings` says whether what
    lies below them is frozen. `rate_factor`: what the learning rate is multiplied by."""

    epoch: int
    frozen_image_share: float
    frozen_text_share: float
    freezes_embeddings: bool
    rate_factor: float = 1.0


FULLY_TRAINABLE = UnfreezingStage(1, 0, 0, False)
# Of a ResNet's stem and four stages 4, 3, 1, 0; of BERT's twelve blocks 8, 6, 2, 0.
_SHARES = ((4 / 5, 8 / 12, True, 1.0), (3 / 5, 6 / 12, True, 1.0), (1 / 5, 2 / 12, False, 1.0), (0, 0, False, 0.7))


def find_unfreezing_stage(epoch: int, starts: Sequence[int]) -> UnfreezingStage:
    """The stage of an epoch (from 1), where the four stages begin with these epochs; none: all trains from the first
    epoch on."""
    if not starts:
        return FULLY_TRAINABLE
    number = sum(start <= epoch for start in starts) - 1
    return UnfreezingStage(starts[number], *_SHARES[number])


def frozen_parameter_names(
    model: DualEncoder, stage: UnfreezingStage, *, images: bool = True, texts: bool = True
) -> set[str]:
    """The parameters that do not train in a stage. A tower that is not pretrained (`images`, `texts` false)
    is never frozen. While any layer of the picture tower is frozen, so are the weights of all its batch norms."""
    parts: list[nn.Module] = []
    if images:
        parts += _first(model.pictures.layers(), stage.frozen_image_share)
        if stage.frozen_image_share:
            parts += [norm for _, norm in model.pictures.batch_norms()]
    if texts and (layers := model.texts.layers()):
        parts += _first(layers[1:], stage.frozen_text_share) + (layers[:1] if stage.freezes_embeddings else [])
    frozen = {id(parameter) for part in parts for parameter in part.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in frozen}


def apply_unfreezing_stage(
    model: DualEncoder, stage: UnfreezingStage, *, images: bool = True, texts: bool = True
) -> None:
    """Make the model ready to train in a stage. The statistics of a pretrained picture tower's batch norms stay as
    they are in every stage: batches are too small to measure them anew."""
    frozen = frozen_parameter_names(model, stage, images=images, texts=texts)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    model.train()
    if images:
        for _, norm in model.pictures.batch_norms():
            norm.eval()


def _first(layers: Sequence[nn.Module], share: float) -> list[nn.Module]:
    return list(layers[: round(share * len(layers))])
