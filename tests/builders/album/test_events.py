"""Events and trips: gaps in time, jumps in place, names."""

from datetime import datetime, timedelta

import pytest

from builders.album.events import DatedPhoto, find_distance, find_events

HOME, LAKE = (31.2, 121.5), (30.25, 120.15)
HANGZHOU = ("Hangzhou", "杭州")


def _shoot(start: str, count: int, minutes: float = 5, first: int = 0, **more: object) -> list[DatedPhoto]:
    moment = datetime.fromisoformat(start)
    return [DatedPhoto(moment + timedelta(minutes=minutes * n), f"{first + n}", **more) for n in range(count)]  # type: ignore[arg-type]


def test_a_long_gap_ends_an_event_and_a_short_one_does_not() -> None:
    photos = _shoot("2023-05-01T10:00", 5) + _shoot("2023-05-01T11:30", 5) + _shoot("2023-05-02T18:00", 4)
    assert [event.photos for event in find_events(photos)] == [10, 4]


def test_a_jump_in_place_ends_an_event() -> None:
    photos = _shoot("2023-05-01T10:00", 5, point=HOME) + _shoot("2023-05-01T11:00", 5, point=LAKE)
    assert [event.photos for event in find_events(photos)] == [5, 5]


def test_photos_without_coordinates_hide_no_jump_and_cause_none() -> None:
    home, unknown = _shoot("2023-05-01T10:00", 5, point=HOME), _shoot("2023-05-01T10:30", 4)
    lake = _shoot("2023-05-01T11:00", 5, point=LAKE)
    assert [event.photos for event in find_events([*home, *unknown, *lake])] == [9, 5]
    assert [event.photos for event in find_events([*home, *unknown, *_shoot("2023-05-01T11:00", 3)])] == [12]


def test_a_trip_is_events_in_a_row_far_from_home_with_names_in_both_languages() -> None:
    photos = [one for day in range(1, 20) for one in _shoot(f"2023-04-{day:02}T10:00", 3, point=HOME)]
    for day in (1, 2, 3):
        photos += _shoot(f"2023-05-{day:02}T09:00", 8, point=LAKE, place=HANGZHOU)
    photos += _shoot("2023-05-06T10:00", 3, point=HOME)
    away = [event for event in find_events(photos) if event.trip]
    assert [event.photos for event in away] == [8, 8, 8]
    assert {(event.trip, event.trip_zh) for event in away} == {("Hangzhou, May 2023", "2023年5月杭州")}
    assert (away[0].event, away[0].zh) == ("Hangzhou, 1 May 2023", "2023年5月1日杭州")
    assert (away[0].start, away[0].end) == ("2023-05-01T09:00:00", "2023-05-01T09:35:00")


def test_the_album_or_keyword_that_most_share_names_an_event_before_its_place_and_season() -> None:
    wedding = _shoot("2023-05-01T10:00", 4, shared=("The wedding",), place=HANGZHOU)
    assert find_events(wedding)[0].event == "The wedding, 1 May 2023"
    mixed = _shoot("2023-05-01T10:00", 3, shared=("beach",)) + _shoot("2023-05-01T10:20", 5, first=9)
    assert find_events(mixed)[0].event == "spring, 1 May 2023"
    assert find_events(_shoot("2023-05-01T10:00", 4, point=(-33.9, 151.2)))[0].zh == "2023年5月1日秋天"


def test_events_do_not_depend_on_the_order_of_photos() -> None:
    photos = _shoot("2023-05-01T10:00", 7) + _shoot("2023-05-03T10:00", 7)
    assert find_events(photos) == find_events(photos[::-1])
    assert find_events([]) == [] and find_events(photos[:2]) == []


def test_a_degree_of_latitude_is_111_kilometres() -> None:
    assert find_distance((0, 0), (1, 0)) == pytest.approx(111.19, abs=0.01)
