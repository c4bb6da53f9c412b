"""Which images go on, and what the others are told."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.gallery.image_filters import apply_filters, build_filter_rules
from querytruth.records import SCANNED_IMAGES_SCHEMA, from_arrow

Failure = tuple[str, str, float, float]  # reason, measure, value, threshold


def images(*sizes: tuple[int, int], **scores: list[float]) -> pd.DataFrame:
    """What a scan finds; every score is in the middle unless given."""
    frame = from_arrow(SCANNED_IMAGES_SCHEMA.empty_table()).reindex(range(len(sizes)))
    middle = {name: [0.5] * len(sizes) for name in ("brightness", "contrast", "sharpness", "flatness")}
    for name, values in {**middle, **scores}.items():
        frame[name] = np.array(values, dtype=np.float32)
    frame["width"], frame["height"] = np.array(sizes, dtype=np.int32).reshape(-1, 2).T
    return frame


def verdicts(frame: pd.DataFrame, **limits: Any) -> list[Failure | None]:
    kept, failures = apply_filters(frame, build_filter_rules(**limits))
    columns = (failures[name] for name in ("reason", "measure", "value", "threshold"))
    failed = iter(zip(*columns, strict=True))
    return [None if passes else next(failed) for passes in kept]


@pytest.mark.parametrize(
    ("size", "failure"),
    [
        ((4999, 4999), None),
        ((5000, 4999), ("too_large", "longer_side", 5000, 5000)),
        ((4999, 5000), ("too_large", "longer_side", 5000, 5000)),
        ((1001, 4999), None),
        ((200, 1000), ("too_narrow", "ratio", 0.2, 0.2)),
        ((201, 1000), None),
        ((1000, 200), ("too_wide", "ratio", 5.0, 5)),
        ((999, 200), None),
        ((4000, 400), ("too_wide", "ratio", 10.0, 5)),
        ((1, 1), None),
        ((6000, 400), ("too_large", "longer_side", 6000, 5000)),  # and too wide: the first reason is told
    ],
)
def test_the_articles_numbers_hold_to_the_pixel(size: tuple[int, int], failure: Failure | None) -> None:
    assert verdicts(images(size)) == [failure]


@pytest.mark.parametrize("times", range(1, 400, 7))
def test_three_to_ten_is_never_over_three_tenths(times: int) -> None:
    frame = images((3 * times, 10 * times), (7 * times, 10 * times))
    assert [failure and failure[0] for failure in verdicts(frame, min_ratio=0.3, max_ratio=0.7)] == [
        "too_narrow",
        "too_wide",
    ]


def test_scores_are_cut_only_where_a_number_is_given() -> None:
    ends = {"brightness": [0.0, 1.0], "contrast": [0.0, 0.0], "sharpness": [0.0, 0.0], "flatness": [1.0, 1.0]}
    assert verdicts(images((80, 60), (80, 60), **ends)) == [None, None]


@pytest.mark.parametrize(
    ("limit", "score", "just", "beyond", "reason"),
    [
        ({"min_brightness": 0.1}, "brightness", 0.1, 0.0999, "too_dark"),
        ({"max_brightness": 0.9}, "brightness", 0.9, 0.9001, "too_light"),
        ({"min_contrast": 0.05}, "contrast", 0.05, 0.0499, "nearly_uniform"),
        ({"min_sharpness": 0.3}, "sharpness", 0.3, 0.2999, "blurred"),
        ({"max_flatness": 0.7}, "flatness", 0.7, 0.7001, "screen_or_text"),
    ],
)
def test_a_score_at_its_cut_passes(
    limit: dict[str, float], score: str, just: float, beyond: float, reason: str
) -> None:
    found = verdicts(images((80, 60), (80, 60), **{score: [just, beyond]}), **limit)
    assert found == [None, (reason, score, beyond, next(iter(limit.values())))]


def test_an_image_with_several_faults_is_told_the_first() -> None:
    frame = images((10, 10), (80, 60), brightness=[0.0, 0.0], contrast=[0.0, 0.0], sharpness=[0.0, 0.0])
    found = verdicts(frame, min_side=32, min_brightness=0.1, min_contrast=0.1, min_sharpness=0.1)
    assert [failure and failure[0] for failure in found] == ["too_small", "too_dark"]
    assert [rule.filter.reason for rule in build_filter_rules(min_brightness=0.1, max_flatness=0.9)] == [
        "too_small", "too_large", "too_narrow", "too_wide", "too_dark", "screen_or_text",
    ]  # fmt: skip


def test_what_is_not_known_does_not_pass() -> None:
    frame = images((80, 60), (80, 60), (80, 0), contrast=[float("nan"), 0.5, 0.5])
    frame["width"] = frame["width"].astype("float64").mask([False, True, False])
    reasons = [failure and failure[0] for failure in verdicts(frame, min_contrast=0.1)]
    assert reasons == ["nearly_uniform", "too_small", "too_small"]


def test_the_manifest_says_every_cut_and_whether_it_is_inclusive() -> None:
    said = [rule.threshold_record() for rule in build_filter_rules(min_side=64, max_flatness=0.8)]
    assert said[0] == {"name": "filter.min_side", "passes": "at least", "value": 64, "inclusive": True}
    assert said[1] == {"name": "filter.max_side", "passes": "under", "value": 5000, "inclusive": False}
    assert said[-1] == {"name": "filter.max_flatness", "passes": "at most", "value": 0.8, "inclusive": True}
    assert len(said) == 5


def test_infinity_is_no_way_to_leave_a_rule_out() -> None:
    with pytest.raises(ValueError, match=r"filter\.max_ratio: inf is not a finite number"):
        build_filter_rules(max_ratio=float("inf"))
    assert [rule.name for rule in build_filter_rules(max_ratio=None, min_side=None, max_side=None)] == [
        "filter.min_ratio"
    ]


def test_nothing_listed_is_nothing_kept() -> None:
    kept, failures = apply_filters(images(), build_filter_rules(min_contrast=0.1))
    assert len(kept) == len(failures) == 0
