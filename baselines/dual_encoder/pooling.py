"""Pooling of token vectors to one vector per text."""

import torch
from torch import Tensor

POOLINGS = ("cls", "mean", "max", "mean_max")
_MEAN_SHARE, _MAX_SHARE = 0.6, 0.4


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
