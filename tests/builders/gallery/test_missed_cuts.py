"""What the filter writes of a picture that fails is read back: how far it was from passing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.gallery.image_filters import apply_filters, build_filter_rules, parse_relative_misses
from builders.self_instruct.result_screening import CollectionRules, find_size_problem

RULES = {rule.reason: rule for rule in build_filter_rules(min_brightness=0.15, max_flatness=0.4)}
SIDES = st.integers(1, 100_000)
SCORES = st.floats(0, 1, width=32)
CUTS = st.one_of(st.integers(0, 100_000), st.floats(0, 100_000, allow_subnormal=False))


@given(SIDES, SIDES, SCORES, st.sampled_from(sorted(RULES)), CUTS)
def test_the_distance_that_was_written_is_the_one_that_is_read(
    width: int, height: int, score: float, reason: str, cut: float
) -> None:
    rule = replace(RULES[reason], threshold=cut)
    frame = pd.DataFrame({"width": [width], "height": [height], "brightness": [score], "flatness": [score]})
    (kept,), _, (detail,) = apply_filters(frame.astype({"brightness": "float32", "flatness": "float32"}), [rule])
    found = parse_relative_misses(pa.array([detail], pa.string()))[0]
    if kept:
        assert detail is None and math.isnan(found)
        return
    sides = {"shorter_side": min(width, height), "longer_side": max(width, height), "ratio": width / height}
    value = sides.get(rule.measure, score)
    written = round(value, {"ratio": 6, "brightness": 4, "flatness": 4}.get(rule.measure, 0))
    assert found == pytest.approx(abs(written - cut) / (abs(cut) or 1), rel=1e-6, abs=1e-9)


def test_the_nearest_comes_first_and_what_tells_no_value_last() -> None:
    details = [
        "5200 x 400: 5200 is not under 5000",
        "brightness 0.1499 is not at least 0.15",
        "brightness nan is not at least 0.15",
        "30 x 10: 5.1 is not under 5",
        "of other.jpg",
        None,
        "9" * 400 + " is not under " + "9" * 400,
        "brightness 0.1 is not at least 0.15\n",
    ]
    found = parse_relative_misses(pa.array(details, pa.string()))
    assert np.argsort(found, kind="stable")[:3].tolist() == [1, 3, 0]
    assert [math.isnan(one) for one in found[[2, 4, 5, 6, 7]]] == [True] * 5
    assert parse_relative_misses(pa.array([], pa.string())).tolist() == []


def test_what_a_search_found_is_read_as_well() -> None:
    problems = [
        find_size_problem(*size, CollectionRules(min_side=112, max_ratio=2.0)) for size in ((80, 100), (420, 200))
    ]
    details = [problem[1] for problem in problems if problem is not None]
    found = parse_relative_misses(pa.array([*details, "猫: 4 is under 6"], pa.string()))
    assert found.tolist() == pytest.approx([32 / 112, 0.1 / 2, 2 / 6])
