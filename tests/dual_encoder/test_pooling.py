"""Pooling against loops, and where half precision and padding would spoil it."""

import pytest
import torch

from querytruth.dual_encoder.model import POOLINGS, pool_tokens

HIDDEN = torch.randn(5, 7, 6, generator=torch.Generator().manual_seed(0)) - 3  # mostly below zero: padding is above it
LENGTHS = [7, 1, 4, 2, 6]
MASK = torch.tensor([[int(place < length) for place in range(7)] for length in LENGTHS])


def by_hand(how: str) -> torch.Tensor:
    rows = []
    for text, length in enumerate(LENGTHS):
        cells = []
        for column in range(6):
            values = [float(HIDDEN[text, place, column]) for place in range(length)]
            mean, most = sum(values) / length, max(values)
            cells.append({"cls": values[0], "mean": mean, "max": most, "mean_max": 0.6 * mean + 0.4 * most}[how])
        rows.append(cells)
    return torch.tensor(rows)


@pytest.mark.parametrize("how", POOLINGS)
def test_pooling_is_what_a_loop_over_the_tokens_gives(how: str) -> None:
    assert torch.allclose(pool_tokens(HIDDEN, MASK, how), by_hand(how), atol=1e-6, rtol=0)


@pytest.mark.parametrize("how", POOLINGS)
def test_nothing_in_the_padding_is_seen_whatever_it_is(how: str) -> None:
    spoilt = HIDDEN.masked_fill(MASK[..., None] == 0, float("inf"))
    assert torch.equal(pool_tokens(spoilt, MASK, how), pool_tokens(HIDDEN, MASK, how))


@pytest.mark.parametrize("how", POOLINGS)
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_stays_finite(how: str, kind: torch.dtype) -> None:
    hidden = (HIDDEN * 5000).to(kind).requires_grad_()
    found = pool_tokens(hidden, MASK, how)
    found.sum().backward()
    assert found.dtype == torch.float32 and torch.isfinite(found).all() and torch.isfinite(hidden.grad).all()


def test_a_text_without_a_token_is_zeros_and_an_unknown_pooling_is_refused() -> None:
    nothing = torch.zeros_like(MASK)
    assert not pool_tokens(HIDDEN, nothing, "mean_max").any()
    with pytest.raises(ValueError, match=r"median.*cls, mean, max, mean_max"):
        pool_tokens(HIDDEN, MASK, "median")
