"""The dual encoder: two towers, a map to a common width, two projection heads, vectors of length one.

The towers are models of transformers by one interface, or a recurrent network with a vocabulary of its own in place of
BERT: `width` is the length of what comes out, `layers` the parts that are frozen from the bottom up. Pretrained ones
unfreeze from the top down, in four stages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

RECURRENT_LAYERS = {"gru": nn.GRU, "lstm": nn.LSTM}
_WIDTHS = ("hidden_dim", "hidden_size")  # the last that there is; hidden_dim: EfficientNet
_CLASS_TOKENS = ("cls_token", "class_embedding")
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
POOLINGS = ("cls", "mean", "max", "mean_max")
_MEAN_SHARE, _MAX_SHARE = 0.6, 0.4


class ImageEncoder(nn.Module):
    """A model of transformers that takes `pixel_values`. Its feature is the mean over all places of maps (ResNet), the
    first token if it represents all (ViT), else the mean of the tokens (Swin). Raises ValueError if the width is
    unknown."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        config: Any = backbone.config
        sizes = getattr(config, "hidden_sizes", None) or [getattr(config, name, None) for name in _WIDTHS]
        widths = [size for size in sizes if isinstance(size, int)]
        if not widths:
            raise ValueError(f"a {config.model_type} does not state the width of its features")
        self.width = widths[-1]
        names = (name.rpartition(".")[2] for name, _ in backbone.named_parameters())
        self._has_class_token = any(name in _CLASS_TOKENS for name in names)

    def forward(self, pixels: Tensor) -> Tensor:
        """(images, width) of pixels (images, 3, side, side), normalised as ImageNet's are."""
        features: Tensor = self.backbone(pixel_values=pixels).last_hidden_state
        if features.ndim == 4:
            return features.float().mean(dim=(2, 3))
        return features[:, 0].float() if self._has_class_token else features.float().mean(dim=1)

    def layers(self) -> list[nn.Module]:
        """Return the stem, then the stages or blocks."""
        return _stacked(self.backbone)

    def batch_norms(self) -> list[nn.Module]:
        """Return the batch norms of the tower; a ViT has none."""
        return [part for part in self.modules() if isinstance(part, _BATCH_NORMS)]


class TransformerTextEncoder(nn.Module):
    """BERT, or a model with the same inputs."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        config: Any = backbone.config
        self.width = int(config.hidden_size)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(texts, length, width) of token numbers and a mask, both (texts, length)."""
        token_vectors: Tensor = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
        return token_vectors

    def layers(self) -> list[nn.Module]:
        """Return the embeddings, then the blocks."""
        return _stacked(self.backbone)


class RecurrentTextEncoder(nn.Module):
    """A GRU or an LSTM that reads a text from both ends; padding is never read."""

    def __init__(self, kind: str, vocabulary: int, embedding: int = 256, hidden: int = 256, depth: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.network: nn.RNNBase = RECURRENT_LAYERS[kind](
            embedding, hidden, depth, batch_first=True, bidirectional=True
        )
        self.width = 2 * hidden

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return (texts, length, width); every text has a token, and its padding is at its end."""
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.network(packed)[0], batch_first=True, total_length=ids.shape[1])[0]

    def layers(self) -> list[nn.Module]:
        """Return no layers to freeze: nothing was trained before."""
        return []


def _stacked(backbone: Any) -> list[nn.Module]:
    """Return the lowest layer of a model of transformers, then the layers above it; of an unknown form, its first part
    and its longest list."""
    bottom = next((getattr(backbone, name) for name in ("embedder", "embeddings") if hasattr(backbone, name)), None)
    encoder = backbone.encoder if hasattr(backbone, "encoder") else backbone
    named = [getattr(encoder, name) for name in ("stages", "layer", "layers", "blocks") if hasattr(encoder, name)]
    lists: list[Any] = [part for part in backbone.modules() if isinstance(part, nn.ModuleList)]
    stack: Sequence[nn.Module] = named[0] if named else max(lists, key=len, default=[])
    if bottom is None:
        bottom = next((part for part in backbone.modules() if not any(True for _ in part.children())), backbone)
    return [bottom, *stack]


class ProjectionHead(nn.Module):
    """Two layers with LayerNorm, GELU and dropout between them."""

    def __init__(self, width: int, hidden: int, dimensions: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, hidden),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, dimensions),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return (rows, dimensions) from features (rows, width)."""
        projected: Tensor = self.layers(features)
        return projected


class DualEncoder(nn.Module):
    """Images and texts in one space of `dimensions`; `width` is the input of the heads, `hidden` their inner width."""

    def __init__(
        self,
        images: ImageEncoder,
        texts: TransformerTextEncoder | RecurrentTextEncoder,
        *,
        pooling: str = "mean_max",
        width: int = 768,
        hidden: int = 1024,
        dimensions: int = 512,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.pictures, self.texts, self.pooling = images, texts, pooling
        self.picture_map = nn.Linear(images.width, width)
        self.text_map = nn.Linear(texts.width, width)
        self.picture_head = ProjectionHead(width, hidden, dimensions, dropout)
        self.text_head = ProjectionHead(width, hidden, dimensions, dropout)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return (images, dimensions), single precision, each of length one."""
        return _normalise(self.picture_head(self.picture_map(self.pictures(pixels))))

    def encode_texts(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return (texts, dimensions), single precision, each of length one."""
        return _normalise(self.text_head(self.text_map(pool_tokens(self.texts(ids, mask), mask, self.pooling))))

    def forward(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of images and of texts."""
        return self.encode_images(pixels), self.encode_texts(ids, mask)


def build_dual_encoder(images: nn.Module, texts: nn.Module | dict[str, Any], heads: dict[str, Any]) -> DualEncoder:
    """Return the model of two models of transformers, or, in place of the second, of a recurrent network's parameters;
    `heads`: the other arguments of DualEncoder."""
    text_encoder = RecurrentTextEncoder(**texts) if isinstance(texts, dict) else TransformerTextEncoder(texts)
    return DualEncoder(ImageEncoder(images), text_encoder, **heads)


def _normalise(vectors: Tensor) -> Tensor:
    """Scale to length one in single precision: the smallest length that is divided by is 0 in half precision."""
    return torch.nn.functional.normalize(vectors.float(), dim=-1)


def pool_tokens(hidden: Tensor, mask: Tensor, method: str) -> Tensor:
    """Return (texts, width) in single precision from (texts, length, width) and a mask that is 0 on padding.

    `cls` is the first token; `mean_max` is 0.6 of the mean and 0.4 of the maximum.
    A text without a token is zeros. Raises ValueError for another method.
    """
    if method == "cls":
        return hidden[:, 0].float()
    if method == "mean":
        return _mean(hidden, mask)
    if method == "max":
        return _max(hidden, mask)
    if method == "mean_max":
        return _MEAN_SHARE * _mean(hidden, mask) + _MAX_SHARE * _max(hidden, mask)
    raise ValueError(f"unknown pooling {method!r}; choose from {', '.join(POOLINGS)}")


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    inside = mask.unsqueeze(-1).float()
    # Chosen, not multiplied: a padded position that overflowed in half precision would leave NaN.
    return torch.where(inside > 0, hidden.float(), 0.0).sum(dim=1) / inside.sum(dim=1).clamp(min=1)


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    inside = mask.unsqueeze(-1) > 0
    # The lowest number there is, not -1e10, which half precision does not know.
    highest = hidden.float().masked_fill(~inside, torch.finfo(torch.float32).min).amax(dim=1)
    return torch.where(inside.any(dim=1), highest, 0.0)


@dataclass(frozen=True, slots=True)
class UnfreezingStage:
    """From `epoch` on, these shares of each tower's layers are frozen, from the bottom. In an image tower the stem
    counts as a layer (one of a ResNet's five); in a text tower the blocks count, and `freezes_embeddings` tells whether
    the layers below them are frozen. `rate_factor` multiplies the learning rate."""

    epoch: int
    frozen_image_share: float
    frozen_text_share: float
    freezes_embeddings: bool
    rate_factor: float = 1.0


FULLY_TRAINABLE = UnfreezingStage(1, 0, 0, False)
# Of a ResNet's stem and four stages 4, 3, 1, 0; of BERT's twelve blocks 8, 6, 2, 0.
_SHARES = ((4 / 5, 8 / 12, True, 1.0), (3 / 5, 6 / 12, True, 1.0), (1 / 5, 2 / 12, False, 1.0), (0, 0, False, 0.7))


def find_unfreezing_stage(epoch: int, starts: Sequence[int]) -> UnfreezingStage:
    """Return the stage of an epoch (from 1); the four stages begin with these epochs. Without any, all layers train
    from the first epoch on."""
    if not starts:
        return FULLY_TRAINABLE
    number = sum(start <= epoch for start in starts) - 1
    return UnfreezingStage(starts[number], *_SHARES[number])


def frozen_parameter_names(
    model: DualEncoder, stage: UnfreezingStage, *, images: bool = True, texts: bool = True
) -> set[str]:
    """Return the parameters that do not train in a stage. A tower that is not pretrained (`images`, `texts` false)
    is never frozen. While any layer of the image tower is frozen, so are the weights of all its batch norms."""
    parts: list[nn.Module] = []
    if images:
        parts += _first(model.pictures.layers(), stage.frozen_image_share)
        if stage.frozen_image_share:
            parts += model.pictures.batch_norms()
    if texts and (layers := model.texts.layers()):
        parts += _first(layers[1:], stage.frozen_text_share) + (layers[:1] if stage.freezes_embeddings else [])
    frozen = {id(parameter) for part in parts for parameter in part.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in frozen}


def apply_unfreezing_stage(
    model: DualEncoder, stage: UnfreezingStage, *, images: bool = True, texts: bool = True
) -> None:
    """Make the model ready to train in a stage. The statistics of a pretrained image tower's batch norms stay as
    they are in every stage: batches are too small to measure them anew."""
    frozen = frozen_parameter_names(model, stage, images=images, texts=texts)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    model.train()
    if images:
        for norm in model.pictures.batch_norms():
            norm.eval()


def _first(layers: Sequence[nn.Module], share: float) -> list[nn.Module]:
    return list(layers[: round(share * len(layers))])
