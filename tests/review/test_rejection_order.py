"""How far a rejected item was from passing, from the numbers that rules leave in the ledger."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.gallery.image_filters import apply_filters, build_filter_rules
from builders.generated.result_screening import CollectionRules, find_size_problem
from querytruth.review.rejection_table import relative_misses

RULES = {rule.filter.reason: rule for rule in build_filter_rules(min_brightness=0.15, max_flatness=0.4)}
SIDES = st.integers(1, 100_000)
SCORES = st.floats(0, 1, width=32)
CUTS = st.one_of(st.integers(0, 100_000), st.floats(0, 100_000, allow_subnormal=False))


@given(SIDES, SIDES, SCORES, st.sampled_from(sorted(RULES)), CUTS)
def test_the_distance_is_that_of_the_measured_value(
    width: int, height: int, score: float, reason: str, cut: float
) -> None:
    rule = replace(RULES[reason], threshold=cut)
    frame = pd.DataFrame({"width": [width], "height": [height], "brightness": [score], "flatness": [score]})
    (kept,), failures = apply_filters(frame.astype({"brightness": "float32", "flatness": "float32"}), [rule])
    assert len(failures) == (not kept)
    if not kept:
        sides = {"shorter_side": min(width, height), "longer_side": max(width, height), "ratio": width / height}
        value = round(sides.get(rule.filter.measure, score), 6)
        assert failures["measure"].tolist() == [rule.filter.measure]
        assert relative_misses(failures)[0] == pytest.approx(abs(value - cut) / (abs(cut) or 1), rel=1e-6, abs=1e-9)


def test_the_nearest_comes_first_and_what_has_no_value_last() -> None:
    values = [(5200, 5000), (0.1499, 0.15), (math.nan, 0.15), (5.1, 5), (None, None), (math.inf, math.inf), (0.5, None)]
    found = relative_misses(pd.DataFrame(values, columns=["value", "threshold"]))
    assert np.argsort(found, kind="stable")[:3].tolist() == [1, 3, 0]
    assert [math.isnan(one) for one in found[[2, 4, 5, 6]]] == [True] * 4
    assert relative_misses(pd.DataFrame({"value": [], "threshold": []})).tolist() == []


def test_search_results_have_numbers_as_well() -> None:
    rules = CollectionRules(min_side=112, max_ratio=2.0)
    problems = [find_size_problem(*size, rules) for size in ((80, 100), (420, 200))]
    assert relative_misses(pd.DataFrame(problems)).tolist() == pytest.approx([32 / 112, 0.1 / 2])
