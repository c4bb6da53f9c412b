"""What a gallery is made of: every picture is counted, and the answer is small and plain."""

import json
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.gallery.selection import HISTOGRAM_BINS, QUALITY_SCORE_NAMES, summarize_gallery
from querytruth.records import SCANNED_IMAGES_SCHEMA, from_arrow


def scanned(number: int, **columns: Any) -> pd.DataFrame:
    frame = from_arrow(SCANNED_IMAGES_SCHEMA.empty_table()).reindex(range(number))
    common = {"width": 640, "height": 480, "format": "JPEG", **dict.fromkeys(QUALITY_SCORE_NAMES, 0.5)}
    for name, values in {**common, **columns}.items():
        frame[name] = values if not isinstance(values, list) else pd.Series(values, dtype=frame[name].dtype)
    return frame


def journey() -> pd.DataFrame:
    return scanned(
        6,
        taken_at=["2023-12-31T23:59:59", "2024-01-01T00:00:01+08:00", "2024-01-01T09:00:00", None, None, "2024-03-01"],
        latitude=[31.234, 31.231, -12.046, 31.239, None, None],
        longitude=[121.473, 121.479, -77.043, 121.471, None, None],
        width=pd.Series([640, 640, 480, 640, 500, 640]),
        height=pd.Series([480, 480, 640, 480, 500, 480]),
        format=["JPEG", "JPEG", "PNG", "JPEG", "WEBP", "JPEG"],
    )


def summary(frame: pd.DataFrame, degrees: float = 0.01) -> dict[str, Any]:
    return summarize_gallery(frame, frame, place_degrees=degrees)


def test_a_journey_told_in_numbers() -> None:
    said = summary(journey())
    assert said["pictures"] == 6
    assert said["known"] == {"place_and_time": 3, "place_only": 1, "time_only": 1, "neither": 1}
    assert said["places"] == {
        "cell_degrees": 0.01,
        "distinct": 2,
        "most": [
            {"latitude": 31.235, "longitude": 121.475, "pictures": 3},
            {"latitude": -12.045, "longitude": -77.045, "pictures": 1},
        ],
        "rest": 0,
    }
    assert said["days"] == {
        "distinct": 3,
        "most": [["2024-01-01", 2], ["2023-12-31", 1], ["2024-03-01", 1]],
        "rest": 0,
        "first": "2023-12-31",
        "last": "2024-03-01",
    }
    assert said["months"]["most"] == [["2023-12", 1], ["2024-01", 2], ["2024-03", 1]]
    assert said["years"]["most"] == [["2023", 1], ["2024", 3]]
    assert said["formats"]["most"] == [["JPEG", 4], ["PNG", 1], ["WEBP", 1]]
    assert said["sizes"]["most"] == [["640 x 480", 4], ["480 x 640", 1], ["500 x 500", 1]]
    assert said["sizes"]["shapes"] == {"landscape": 4, "portrait": 1, "square": 1}
    assert said["sizes"]["megapixels"]["50"] == 0.3072


def test_the_rest_is_counted_together() -> None:
    days = [f"2024-{1 + n // 28:02}-{1 + n % 28:02}" for n in range(40)]
    frame = scanned(40, taken_at=days, latitude=np.arange(40) / 10, longitude=7.0, width=np.arange(1, 41))
    said = summary(frame)
    for part in ("places", "days", "sizes"):
        assert (said[part]["distinct"], len(said[part]["most"]), said[part]["rest"]) == (40, 12, 28), part
    assert said["days"]["most"][0] == ["2024-01-01", 1], "ties stand in order"


def test_scores_are_those_of_all_that_could_be_read() -> None:
    readable = scanned(5, sharpness=[0.0, 0.1, 0.1, 1.0, None])
    said = summarize_gallery(journey(), readable, place_degrees=0.01)["scores"]
    assert list(said) == list(QUALITY_SCORE_NAMES) and said["brightness"]["pictures"] == 5
    sharp = said["sharpness"]
    assert sharp["pictures"] == 4 == sum(sharp["histogram"]) and len(sharp["histogram"]) == HISTOGRAM_BINS
    assert (sharp["histogram"][0], sharp["histogram"][4], sharp["histogram"][-1]) == (1, 2, 1)
    assert sharp["quantiles"] == {"0": 0.0, "5": 0.015, "25": 0.075, "50": 0.1, "75": 0.325, "95": 0.865, "100": 1.0}


@pytest.mark.parametrize("rows", [slice(0, 0), slice(4, 5)])
def test_nothing_and_next_to_nothing(rows: slice) -> None:
    frame = journey().iloc[rows]
    said = summary(frame)
    assert said["days"]["first"] is None and said["places"]["most"] == [] == said["days"]["most"]
    assert sum(said["known"].values()) == len(frame)


def test_the_order_of_rows_does_not_matter() -> None:
    frame = journey()
    assert summary(frame) == summary(frame.iloc[::-1])


def test_the_date_line_is_one_place_however_it_is_written() -> None:
    frame = scanned(2, latitude=[10.0, 10.0], longitude=[180.0, -180.0])
    assert summary(frame)["places"]["most"] == [{"latitude": 10.005, "longitude": -179.995, "pictures": 2}]


def test_it_is_plain_data() -> None:
    said = summary(journey())
    assert json.loads(json.dumps(said, allow_nan=False)) == said


@pytest.mark.thorough
def test_a_million_images_give_a_small_answer_in_seconds() -> None:
    number, rng = 1_000_000, np.random.default_rng(0)
    frame = scanned(
        number,
        taken_at=pd.Series(rng.integers(1000, 10_000, number), dtype="str") + "-05-01T10:00:00",
        latitude=rng.uniform(-90, 90, number),
        longitude=rng.uniform(-180, 180, number),
        width=rng.integers(1, 5000, number),
        height=rng.integers(1, 5000, number),
        sharpness=rng.random(number, dtype=np.float32),
    )
    start = time.perf_counter()
    assert len(json.dumps(summary(frame))) < 30_000
    assert time.perf_counter() - start < 30  # three here; the bound is for a busy machine
