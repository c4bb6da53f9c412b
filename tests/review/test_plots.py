"""The geometry of a gallery's plots."""

import re

import numpy as np
import pandas as pd
import pytest

from builders.gallery.image_filters import build_filter_rules
from querytruth.review import plots as plot_geometry


def test_a_clock_gone_wrong_does_not_flatten_the_years() -> None:
    days = ["1970-01-01T00:00:00", *[f"2024-07-{n % 28 + 1:02}" for n in range(60)], "2024-02-31", None]
    plot = plot_geometry.draw_timeline(pd.Series(days, dtype="str"))
    assert plot is not None and (plot["unit"], plot["before"], plot["after"]) == ("day", 1, 0)
    assert (plot["first"], plot["last"], len(plot["bars"])) == ("2024-07-01", "2024-07-28", 28)
    few = plot_geometry.draw_timeline(pd.Series(days[:5], dtype="str"))
    assert few is not None and few["unit"] == "year" and few["before"] == 0, "of a handful each may be right"


@pytest.mark.parametrize(
    ("last", "unit", "bars"), [("2024-01-31", "day", 31), ("2024-12-31", "month", 12), ("2054-01-01", "year", 31)]
)
def test_bars_are_as_long_as_the_span_asks_for(last: str, unit: str, bars: int) -> None:
    days = pd.date_range("2024-01-01", last).strftime("%Y-%m-%d").astype("str")
    plot = plot_geometry.draw_timeline(pd.Series(days))
    assert plot is not None and plot["unit"] == unit and len(plot["bars"]) == bars
    assert sum(plot["bars"].values()) == len(days)


def test_places_on_both_sides_of_the_date_line_stand_together() -> None:
    plot = plot_geometry.draw_places(pd.Series([-17.7, -16.5]), pd.Series([177.4, -179.9]))
    assert plot is not None and "178° E" in plot["svg"] and "180° W" in plot["svg"] and "181" not in plot["svg"]
    assert sorted(point["east"] for point in plot["points"]) == [177.4, pytest.approx(180.1)]
    assert plot_geometry.format_location(-17.7, 177.4) == "17.700° S, 177.400° E"
    assert plot_geometry.format_location(-16.5, 180.1) == "16.500° S, 179.900° W"


def test_a_million_places_are_a_few_thousand_dots() -> None:
    rng = np.random.default_rng(0)
    where = rng.uniform(-60, 70, 200_000), rng.uniform(-180, 180, 200_000)
    plot = plot_geometry.draw_places(pd.Series(where[0]), pd.Series(where[1]))
    assert plot is not None and len(plot["points"]) < 3500
    assert sum(point["images"] for point in plot["points"]) == 200_000
    assert plot_geometry.draw_places(pd.Series([np.nan]), pd.Series([np.nan])) is None


def test_bars_beyond_a_cut_are_marked() -> None:
    cuts = [build_filter_rules(min_sharpness=0.25)[-1].threshold_record()]
    plot = plot_geometry.draw_histogram("sharpness", [3, 0, 5, 1], cuts)
    assert plot is not None and [bar["out"] for bar in plot["bars"]] == [True, False, False, False]
    assert plot["cuts"] == ["at least 0.25"] and "var(--mark)" in plot["svg"]
    assert re.findall(r'd="M[^"]+h[\d.]+v(\d+)h', plot["svg"])[-4:] == ["54", "0", "90", "18"], (
        "bars, as high as counted"
    )
    assert plot_geometry.draw_histogram("sharpness", [0, 0], cuts) is None
