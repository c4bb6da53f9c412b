"""Systems that change places, and what more judgments give."""

import numpy as np
import pandas as pd
import pytest

from querytruth.audit.pair_audit import PairAudit, forecast_width
from querytruth.audit.pool import FIRST_RANKS, JUDGED_RELEVANT
from querytruth.audit.report import compare_orders


def figure(system: str, before: float, value: float, metric: str = "p@10") -> dict[str, object]:
    return {"system": system, "metric": metric, "before": before, "value": value}


def test_pairs_of_systems_that_change_are_counted() -> None:
    rows = [figure("a", 0.3, 0.5), figure("b", 0.2, 0.6), figure("c", 0.2, 0.1)]
    (order,) = compare_orders(rows)
    assert order["before"] == ["a", "b", "c"] and order["after"] == ["b", "a", "c"]
    assert (order["pairs"], order["changed"]) == (3, [["a", "b"], ["b", "c"]])  # b and c were equal
    (alone,) = compare_orders([figure("a", 0.3, 0.5)])
    assert alone["pairs"] == 0 and np.isnan(alone["kendall_tau_b"])


@pytest.mark.parametrize("more", [0, 100])
def test_more_judgments_narrow_the_interval(more: int) -> None:
    pool = pd.DataFrame(
        {"query_id": "q", "image_id": [f"i{n}" for n in range(2000)],
         "stratum": [JUDGED_RELEVANT] * 200 + [FIRST_RANKS] * 1800}
    )  # fmt: skip
    drawn = [*range(40), *range(200, 400)]
    index = pd.MultiIndex.from_arrays([["q"] * len(drawn), [f"i{n}" for n in drawn]])
    audit = PairAudit.from_answers(pool, pd.Series([place % 10 == 0 or place < 200 for place in drawn], index))
    now, then = forecast_width(audit, 0), forecast_width(audit, more)
    assert then == now if more == 0 else then < 0.9 * now
