"""Systems that change places, and what more judgments give."""

import numpy as np
import pandas as pd
import pytest

from querytruth.audit.pair_audit import PairAudit, forecast_width
from querytruth.audit.pool import FIRST_RANKS, JUDGED_RELEVANT
from querytruth.audit.report import compare_orders, format_order


def figure(system: str, before: float, value: float, width: float = 0.02) -> dict[str, object]:
    ends = {"low": value - width / 2, "high": value + width / 2}
    return {"system": system, "metric": "p@10", "before": before, "value": value, **ends}


def test_pairs_of_systems_that_change_are_counted() -> None:
    rows = [figure("a", 0.3, 0.5), figure("b", 0.2, 0.6), figure("c", 0.2, 0.1)]
    (order,) = compare_orders(rows)
    assert order["before"] == ["a", "b", "c"] and order["after"] == ["b", "a", "c"]
    assert (order["pairs"], order["changed"]) == (3, [["a", "b"], ["b", "c"]])  # b and c were equal
    assert format_order(order) == "b > a > c" and order["kendall_tau_b"] == pytest.approx(0, abs=0.01)
    (alone,) = compare_orders([figure("a", 0.3, 0.5)])
    assert alone["pairs"] == 0 and np.isnan(alone["kendall_tau_b"])


def test_an_order_is_known_only_where_intervals_do_not_overlap() -> None:
    rows = [figure("a", 0.3, 0.50), figure("b", 0.2, 0.51), figure("c", 0.4, 0.1)]
    (order,) = compare_orders(rows)
    assert format_order(order) == "b ≈ a > c" and order["apart"] == [False, True]
    assert order["changed"] == [["a", "c"], ["b", "c"]]  # that b is in front of a is not known
    assert order["kendall_tau_b"] is None


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
