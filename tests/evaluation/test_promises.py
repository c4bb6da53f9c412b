"""Every promise of the documents on statistics, in every cell of its table (more draws: `benchmarks/promises.py`)."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation import promises
from tests.evaluation.promises import Cell

ROOT = Path(__file__).parents[2]
_NAME = r"(?:gate|interval|compare|ranks|leaked|plan|audit)\.(?!json|md|yaml)[a-z]+"


def list_lost(cells: Iterable[Cell]) -> list[Cell]:
    """The cells whose promise is not kept. Of a thousand cells, one is three standard errors away by chance."""
    return [cell for cell in cells if not cell.is_kept()]


def test_every_promise_of_the_documents_is_simulated_and_every_simulated_one_is_in_them() -> None:
    text = (ROOT / "benchmarks/README.md").read_text("utf-8")
    source = Path(promises.__file__).read_text("utf-8")
    assert set(re.findall(f"`({_NAME})`", text)) == set(re.findall(f'"({_NAME})"', source))


def test_a_gate_of_ten_topics_keeps_its_promises() -> None:
    """The worlds in which it failed: whole topics are lost, and nothing else differs."""
    rng, sizes = np.random.default_rng(3), np.full(10, 20)
    for times in (1, 2):
        found = promises.draw_losses(rng, sizes, "topic", times * 0.02, 0, 300)
        passes, _ = promises.find_p_values(found, 0.02, np.repeat(np.arange(10), 20))
        assert (passes <= 0.05).mean() <= 0.05


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "check",
    [
        promises.check_gates,
        promises.check_use,
        promises.check_gains,
        promises.check_intervals,
        promises.check_compact,
        promises.check_clustered_intervals,
        promises.check_comparisons,
        promises.check_plans,
        promises.check_clustered_plans,
        promises.check_pair_audits,
        promises.check_people,
        promises.check_certificate,
        promises.check_cost,
    ],
)
def test_all_promises_are_kept(check: Callable[[np.random.Generator, int], Iterable[Cell]]) -> None:
    assert list_lost(check(np.random.default_rng(11), 200)) == []
