"""Which images make the gallery: places first, then times, then whatever there is."""

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from builders.gallery import selection
from builders.gallery.selection import (
    ImageSelection,
    pair_codes,
    select_images,
)
from querytruth.records import stable_hash
from tests.property_runs import few_and_many

SHANGHAI, PARIS, LIMA = (31.234, 121.473), (48.857, 2.352), (-12.046, -77.043)
Shot = tuple[tuple[float, float] | None, str | None]


def album(*shots: Shot, names: list[str] | None = None) -> pd.DataFrame:
    places = [place or (None, None) for place, _ in shots]
    return pd.DataFrame(
        {
            "image_id": names or [f"img_{n:03}" for n in range(len(shots))],
            "taken_at": pd.Series([taken for _, taken in shots], dtype="str"),
            "latitude": np.array([place[0] for place in places], dtype=np.float64),
            "longitude": np.array([place[1] for place in places], dtype=np.float64),
        }
    )


def select(frame: pd.DataFrame, count: int | None = None, **changes: Any) -> ImageSelection:
    return select_images(frame, **{"count": count, "place_degrees": 0.01, "time": "day", "seed": 0, **changes})


def chosen(frame: pd.DataFrame, count: int | None, **changes: Any) -> set[str]:
    return set(frame["image_id"][select(frame, count, **changes).chosen])


def passes(frame: pd.DataFrame, **changes: Any) -> list[str]:
    return [selection.SELECTION_PASSES[number] for number in select(frame, **changes).pass_index]


def cells(first: tuple[float, float], second: tuple[float, float], degrees: float = 0.01) -> int:
    """How many different places two points are."""
    frame = album((first, None), (second, None))
    return select(frame, place_degrees=degrees).counts()["another_place"]


def test_then_another_time_at_a_place_before_a_second_look_at_one_day() -> None:
    days = [*["2024-05-01T10:00:00"] * 9, "2024-05-02T23:59:59+08:00", "2024-05-03T00:00:00"]
    frame = album(*[(SHANGHAI, day) for day in days])
    assert set(frame[select(frame, 3).chosen]["taken_at"].str[:10]) == {"2024-05-01", "2024-05-02", "2024-05-03"}
    assert select(frame, 5).counts() == {
        "another_place": 1,
        "another_place_or_time": 2,
        "filled_up": 2,
        "filled_up_without_exif": 0,
    }


def test_what_nobody_wrote_down_is_not_different() -> None:
    frame = album((SHANGHAI, "2024-05-01"), (SHANGHAI, None), (None, "2024-05-01"), (None, "2024-05-02"))
    # Which of the two in Shanghai stands for it is the hash's choice; the other has no time of its own or has one.
    names = passes(frame)
    assert sorted(names[:2]) in (["another_place", "filled_up"], ["another_place", "another_place_or_time"])
    assert names[3] == "another_place_or_time"
    whole = album(*[(SHANGHAI, "2024-05-01")] * 2, *[(None, "2024-05-01")] * 3, *[(None, "2024-05-02")] * 3)
    assert select(whole, 99).counts() == {
        "another_place": 1,
        "another_place_or_time": 1,  # one for the second of May; the first is in Shanghai's image
        "filled_up": 6,
        "filled_up_without_exif": 0,
    }


@pytest.mark.parametrize(
    ("unit", "others"), [("year", 1), ("month", 2), ("day", 3), ("hour", 4)]
)  # images of one place that count as another time
def test_a_time_is_as_long_as_the_definition_says(unit: str, others: int) -> None:
    times = ["2023-05-01T08:10:00", "2023-05-01T08:50:00", "2023-05-01T09:10:00", "2023-05-02T08:00:00"]
    frame = album(*[(PARIS, t) for t in [*times, "2023-06-01T08:00:00", "2024-05-01T08:00:00"]])
    assert select(frame, time=unit).counts()["another_place_or_time"] == others


def test_a_day_is_the_cameras_own_whatever_its_offset() -> None:
    frame = album((PARIS, "2024-05-01T23:30:00-08:00"), (PARIS, "2024-05-01T01:00:00+09:00"), (PARIS, "2024-05-01"))
    assert select(frame).counts()["another_place_or_time"] == 0


@pytest.mark.parametrize(
    ("first", "second", "places"),
    [
        ((31.2341, 121.4731), (31.2349, 121.4739), 1),
        ((31.2341, 121.4731), (31.2341, 121.4831), 2),
        ((0.001, 0.001), (-0.001, 0.001), 2),  # a cell does not reach across zero
        ((-0.001, -0.001), (-0.009, -0.009), 1),
        ((10.0, 180.0), (10.0, -180.0), 1),  # one meridian
        ((10.0, 179.9999), (10.0, -179.9999), 2),
        ((10.0, 190.0), (10.0, -170.0), 1),
        ((90.0, 0.0), (90.0, 77.7), 1),  # at a pole all meridians meet
        ((-90.0, 0.0), (-90.0, -77.7), 1),
        ((90.0, 0.0), (-90.0, 0.0), 2),
        ((91.0, 0.0), (10.0, float("inf")), 0),  # nowhere
        ((float("nan"), 1.0), (1.0, float("nan")), 0),
    ],
)
def test_places_on_a_round_earth(first: tuple[float, float], second: tuple[float, float], places: int) -> None:
    assert cells(first, second) == places


@pytest.mark.parametrize("degrees", [1e-12, 0.01, 7, 180])
def test_cells_of_any_size(degrees: float) -> None:
    assert cells(SHANGHAI, LIMA, degrees) == 2
    assert cells(SHANGHAI, SHANGHAI, degrees) == 1


def in_turn(frame: pd.DataFrame, count: int, seed: int) -> set[str]:
    """The rules one image at a time, as one would tell them."""
    rows = sorted(frame.itertuples(), key=lambda row: stable_hash(str(seed), "select", row.image_id))
    place = {r.image_id: None if np.isnan(r.latitude) else (r.latitude, r.longitude) for r in rows}
    day = {r.image_id: None if r.taken_at != r.taken_at else r.taken_at for r in rows}
    names = [r.image_id for r in rows]
    taken: list[str] = []

    def another_place(name: str) -> bool:
        return place[name] is not None and place[name] not in {place[t] for t in taken}

    def another_place_or_time(name: str) -> bool:
        if day[name] is None:
            return another_place(name)
        if place[name] is None:
            return day[name] not in {day[t] for t in taken}
        return (place[name], day[name]) not in {(place[t], day[t]) for t in taken}

    def known(name: str) -> bool:
        return place[name] is not None or day[name] is not None

    for fits in (another_place, another_place_or_time, known, lambda _: True):
        for name in names:
            if len(taken) < count and name not in taken and fits(name):
                taken.append(name)
    return set(taken)


SHOTS = st.lists(
    st.tuples(st.sampled_from([None, SHANGHAI, PARIS, LIMA]), st.sampled_from([None, "2024-05-01", "2024-05-02"])),
    min_size=1,
    max_size=24,
)


@few_and_many(30, 300, pytest.mark.thorough, shots=SHOTS, count=st.integers(0, 26), seed=st.integers(0, 3))
def test_the_fast_way_chooses_what_the_slow_way_does(shots: list[Shot], count: int, seed: int) -> None:
    frame = album(*shots)
    assert chosen(frame, count, seed=seed) == in_turn(frame, count, seed)


def test_ids_whose_hashes_meet_stand_in_their_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "stable_hash", lambda *_: 7)
    frame = album(*[(None, None)] * 50)
    assert chosen(frame.iloc[::-1], 3) == {"img_000", "img_001", "img_002"}


def test_all_and_more_than_all_and_none() -> None:
    frame = album((PARIS, None), (None, None))
    assert chosen(frame, None) == chosen(frame, 9) == {"img_000", "img_001"}
    assert chosen(frame, 0) == set() == chosen(album(), 5)
    assert sorted(select(frame, 0).rank) == [0, 1]


@pytest.mark.thorough
def test_a_million_images_take_seconds() -> None:
    rng, number = np.random.default_rng(0), 1_000_000
    frame = pd.DataFrame(
        {
            "image_id": pd.Series(np.arange(number), dtype="str"),
            "taken_at": pd.Series(rng.integers(19_000_000_000, 20_000_000_000, number), dtype="str"),
            "latitude": rng.uniform(20, 40, number),
            "longitude": rng.uniform(100, 120, number),
        }
    )
    start = time.perf_counter()
    assert select(frame, 1000).chosen.sum() == 1000
    assert time.perf_counter() - start < 20  # one here; the bound is for a busy machine


def test_no_two_pairs_of_codes_share_a_number() -> None:
    one, other = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    assert len(set(pair_codes(one, other).tolist())) == 12
