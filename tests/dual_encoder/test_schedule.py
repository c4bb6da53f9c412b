"""The learning rate: up over one epoch, down a cosine, never under 5%."""

import math
from itertools import pairwise

import pytest

from querytruth.dual_encoder.loss import learning_rate_factor


def test_it_rises_over_the_first_epoch_and_falls_to_a_twentieth() -> None:
    shares = [learning_rate_factor(step, 10, 200) for step in range(200)]
    assert shares[0] == pytest.approx(0.1) and shares[9] == shares[10] == 1
    assert all(one < other for one, other in pairwise(shares[:10]))
    assert all(one > other for one, other in pairwise(shares[10:]))
    assert shares[-1] == pytest.approx(0.05) and min(shares[10:]) == shares[-1]
    middle = (10 + 199) / 2
    assert (
        learning_rate_factor(math.floor(middle), 10, 200) + learning_rate_factor(math.ceil(middle), 10, 200)
    ) / 2 == (pytest.approx(0.525, abs=1e-6))


def test_the_reports_own_formula_is_lower_and_flat_at_its_end() -> None:
    """docs/evaluation.md says by how much."""

    def reported(step: int, warm_up: int, total: int) -> float:
        if step < warm_up:
            return step / max(1, warm_up)
        return max(0.05, 0.5 * (1 + math.cos((step - warm_up) / max(1, total - warm_up) * math.pi)))

    apart = [learning_rate_factor(step, 100, 2000) - reported(step, 100, 2000) for step in range(2000)]
    assert reported(0, 100, 2000) == 0 and learning_rate_factor(0, 100, 2000) == 0.01
    assert max(apart) == pytest.approx(0.045, abs=0.003) and min(apart) > -0.001
    flat = [step for step in range(2000) if step > 100 and reported(step, 100, 2000) == 0.05]
    assert len(flat) / 1900 == pytest.approx(1 / 7, abs=0.01)


@pytest.mark.parametrize(("warm_up", "total"), [(0, 1), (1, 1), (5, 5), (0, 10), (7, 3)])
def test_short_trainings_have_a_rate_in_every_step(warm_up: int, total: int) -> None:
    assert all(0 < learning_rate_factor(step, warm_up, total) <= 1 for step in range(total))
