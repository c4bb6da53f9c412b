"""The dual encoder as a whole: two towers, a map to a common width, two projection heads, vectors of length one."""

from typing import Any

import torch
from torch import Tensor, nn

from baselines.dual_encoder.encoders import ImageEncoder, RecurrentTextEncoder, TransformerTextEncoder

POOLINGS = ("cls", "mean", "max", "mean_max")
_MEAN_SHARE, _MAX_SHARE = 0.6, 0.4


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
        """Returns (rows, dimensions) from features (rows, width)."""
        projected: Tensor = self.layers(features)
        return projected


class DualEncoder(nn.Module):
    """Images and texts in one space of `dimensions`; `width` is the input of the heads, `hidden` their inner width."""

    def __init__(
        self,
        pictures: ImageEncoder,
        texts: TransformerTextEncoder | RecurrentTextEncoder,
        *,
        pooling: str = "mean_max",
        width: int = 768,
        hidden: int = 1024,
        dimensions: int = 512,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.pictures, self.texts, self.pooling = pictures, texts, pooling
        self.picture_map = nn.Linear(pictures.width, width)
        self.text_map = nn.Linear(texts.width, width)
        self.picture_head = ProjectionHead(width, hidden, dimensions, dropout)
        self.text_head = ProjectionHead(width, hidden, dimensions, dropout)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Returns (images, dimensions), single precision, each of length one."""
        return _normalise(self.picture_head(self.picture_map(self.pictures(pixels))))

    def encode_texts(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Returns (texts, dimensions), single precision, each of length one."""
        return _normalise(self.text_head(self.text_map(pool_tokens(self.texts(ids, mask), mask, self.pooling))))

    def forward(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the vectors of images and of texts."""
        return self.encode_images(pixels), self.encode_texts(ids, mask)


def build_dual_encoder(pictures: nn.Module, texts: nn.Module | dict[str, Any], heads: dict[str, Any]) -> DualEncoder:
    """The model of two models of transformers, or, in place of the second, of a recurrent network's parameters;
    `heads`: what else DualEncoder takes."""
    text_encoder = RecurrentTextEncoder(**texts) if isinstance(texts, dict) else TransformerTextEncoder(texts)
    return DualEncoder(ImageEncoder(pictures), text_encoder, **heads)


def _normalise(vectors: Tensor) -> Tensor:
    """In single precision: the smallest length that is divided by is 0 in half precision."""
    return torch.nn.functional.normalize(vectors.float(), dim=-1)


def pool_tokens(hidden: Tensor, mask: Tensor, method: str) -> Tensor:
    """Returns (texts, width) in single precision from (texts, length, width) and a mask that is 0 on padding.

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
    raise ValueError(f"pooling {method!r} is none of {', '.join(POOLINGS)}")


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    inside = mask.unsqueeze(-1).float()
    # Chosen, not multiplied: a padded position that overflowed in half precision would leave NaN.
    kept = torch.where(inside > 0, hidden.float(), 0.0)
    return kept.sum(dim=1) / inside.sum(dim=1).clamp(min=1)


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    inside = mask.unsqueeze(-1) > 0
    # The lowest number there is, not -1e10, which half precision does not know.
    highest = hidden.float().masked_fill(~inside, torch.finfo(torch.float32).min).amax(dim=1)
    return torch.where(inside.any(dim=1), highest, 0.0)
