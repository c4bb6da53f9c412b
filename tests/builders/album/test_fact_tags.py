"""Tags of facts: dates, seasons, names of several kinds, what is known to be absent, and the texts of questions."""

import time
from datetime import UTC, datetime

import pandas as pd
import pytest

from builders.album.events import AlbumEvent
from builders.album.fact_table import FactRow
from builders.album.fact_tags import FactConcept, derive_tags, describe_kinds, list_concepts, phrase_facts
from querytruth.errors import UserError

Tags = tuple[list[FactConcept], list[tuple[str, int]], pd.DataFrame]


def _derive(*rows: FactRow, **options: object) -> Tags:
    return derive_tags(rows, **options)  # type: ignore[arg-type]


def _tags(tags: Tags) -> set[tuple[str, str, str]]:
    return {(image, tags[0][code].kind, tags[0][code].en) for image, code in tags[1]}


def test_a_date_is_its_year_month_season_and_day_in_the_photos_own_time() -> None:
    names = [(one.kind, one.en, one.zh) for one in list_concepts("date", "2019-12-03")]
    assert names == [
        ("year", "2019", "2019年"),
        ("month", "December 2019", "2019年12月"),
        ("season", "winter of 2019/20", "2019/20年冬天"),
        ("day", "3 December 2019", "2019年12月3日"),
    ]
    assert [one.kind for one in list_concepts("date", "2019")] == ["year"]
    assert (
        next(one.en for one in list_concepts("date", "2020-01-03", south=True) if one.kind == "season")
        == "summer of 2019/20"
    )


@pytest.mark.parametrize(
    "value", ["1970-01-01", "2000-01-01", f"{datetime.now(UTC).year + 2}-01-05", "2019-05-03Z", "x"]
)
def test_a_reset_clock_one_that_runs_ahead_and_utc_have_no_day(value: str) -> None:
    assert list(list_concepts("date", value)) == []


def test_holidays_of_the_chosen_countries_are_tags_of_any_year_and_of_this_one() -> None:
    pytest.importorskip("holidays")
    rows = [
        FactRow("a", "date", "2021-12-25T09:00:00"),
        FactRow("b", "date", "2021-02-12"),
        FactRow("c", "date", "2021"),
    ]
    tags = _derive(*rows, FactRow("d", "date", "2021-02-11"), holidays=["CN", "US"])
    named = {(image, tags[0][code].en, tags[0][code].zh) for image, code in tags[1] if tags[0][code].kind == "holiday"}
    assert named == {
        ("a", "Christmas Day", "圣诞节"),
        ("a", "Christmas Day 2021", "2021年圣诞节"),
        ("b", "Chinese New Year", "春节"),
        ("b", "Chinese New Year 2021", "2021年春节"),
    }, "11 February was a day off in place of another one"
    assert tags[2]["holiday"].tolist() == [True, True, False, True], "of a year alone nobody knows whether it was one"
    assert not any(one.kind == "holiday" for one in _derive(*rows)[0])
    with pytest.raises(UserError, match=r"CNN.*is not a country with known holidays"):
        _derive(*rows, holidays=["CNN"])


def test_one_name_is_one_tag_whatever_states_it() -> None:
    tags = _derive(FactRow("a", "city", "Bath"), FactRow("b", "keyword", "bath"), FactRow("c", "album", "Bath"))
    assert _tags(tags) == {("a", "city", "Bath"), ("b", "city", "Bath"), ("c", "city", "Bath")}


def test_people_are_complete_where_a_face_is_marked_and_dates_where_there_is_one() -> None:
    tags = _derive(
        FactRow("a", "person", "Gracie", region="0 0 1 1"),
        FactRow("b", "person", "Gracie"),
        FactRow("b", "date", "2019"),
        FactRow("c", "date", "2019-05-03T10:00:00"),
        FactRow("d", "country", "France", detail="overruled by xmp"),
    )
    known = tags[2]
    assert known.index.tolist() == ["a", "b", "c", "d"]
    assert known["person"].tolist() == [True, False, False, False]
    assert known["year"].tolist() == [False, True, True, False]
    assert known["day"].tolist() == [False, False, True, False]
    assert not known["country"].any() and "keyword" not in known
    assert "year" not in _derive(FactRow("a", "date", "2019"), complete=["person"])[2]


def test_a_face_without_a_name_counts_as_somebody() -> None:
    tags = _derive(FactRow("a", "person", "Tom", region="0 0 1 1"), FactRow("a", "person", "", region="0 0 0.1 0.1"))
    assert tags[2]["faces"].tolist() == [2] and _tags(tags) == {("a", "person", "Tom")}


def test_events_and_trips_have_the_photos_of_their_times() -> None:
    events = [
        AlbumEvent("Day 1", "第一天", "Trip", "", "2023-05-01T09:00:00", "2023-05-01T20:00:00", 0),
        AlbumEvent("Day 2", "", "Trip", "", "2023-05-02T09:00:00", "2023-05-02T20:00:00", 0),
    ]
    times = {"a": "2023-05-01T09:00:00", "b": "2023-05-02T20:00:00", "c": "2023-05-02T20:00:01", "d": "2023-05-01"}
    tags = _derive(*(FactRow(name, "date", when) for name, when in times.items()), events=events)
    found = {row for row in _tags(tags) if row[1] in ("event", "trip")}
    assert found == {("a", "event", "Day 1"), ("a", "trip", "Trip"), ("b", "event", "Day 2"), ("b", "trip", "Trip")}


def test_seasons_follow_the_coordinates_of_the_photo() -> None:
    south = _derive(FactRow("a", "date", "2019-07-03"), FactRow("a", "gps", "-33.1,151.2"))
    assert ("a", "season", "winter of 2019") in _tags(south)


def test_a_pseudonym_stands_for_a_person_in_keywords_too_and_a_missing_one_is_an_error() -> None:
    rows = [FactRow("a", "person", "Gracie"), FactRow("b", "keyword", "gracie"), FactRow("b", "keyword", "sea")]
    tags = _derive(*rows, pseudonyms={"Gracie": "Person 1"})
    assert _tags(tags) == {("a", "pseudonym", "Person 1"), ("b", "pseudonym", "Person 1"), ("b", "keyword", "sea")}
    with pytest.raises(UserError, match="lacks 'Gracie'"):
        _derive(*rows, pseudonyms={"Tom": "Person 1"})


@pytest.mark.parametrize(
    ("names", "english", "chinese"),
    [
        ([("person", "Gracie")], ("Gracie", "photos of Gracie"), ("Gracie", "有Gracie的照片")),
        (
            [("person", "Gracie"), ("person", "Tom")],
            ("Gracie and Tom", "photos of Gracie and Tom"),
            ("Gracie和Tom", "有Gracie和Tom的照片"),
        ),
        (
            [("city", "Bath"), ("person", "Gracie")],
            ("Gracie in Bath", "photos of Gracie in Bath"),
            ("Gracie Bath", "在Bath拍的有Gracie的照片"),
        ),
        ([("text", "“EXIT”")], ("“EXIT”", "photos with the text “EXIT”"), ("“EXIT”", "写着“EXIT”的照片")),
        (
            [("day", "3 May 2019"), ("city", "Bath")],
            ("Bath on 3 May 2019", "photos in Bath on 3 May 2019"),
            ("Bath 3 May 2019", "3 May 2019在Bath拍的照片"),
        ),
        ([("event", "杭州")], ("杭州", "photos from 杭州"), ("杭州", "杭州的照片")),
    ],
)
def test_questions_are_worded_as_people_ask(
    names: list[tuple[str, str]], english: tuple[str, str], chinese: tuple[str, str]
) -> None:
    assert tuple(phrase_facts(names, "en", style) for style in ("word", "sentence")) == english
    assert tuple(phrase_facts(names, "zh", style) for style in ("word", "sentence")) == chinese


def test_a_question_is_answered_by_the_picture_the_file_or_both() -> None:
    kinds = (["year"], ["person"], ["text", ""], ["", "city"], ["day", "city"])
    assert [describe_kinds(one)["source"] for one in kinds] == ["file", "both", "picture", "both", "file"]
    assert (
        describe_kinds(["day", "city", ""])["fact_kinds"] == ["date", "object", "place"] and describe_kinds([""]) == {}
    )


@pytest.mark.thorough
def test_time_grows_as_the_photos_do() -> None:
    taken = []
    for count in (20_000, 80_000):
        values = (("person", "Ann"), ("date", "2019-05-03T10:00:00"), ("city", "Bath"))
        rows = [FactRow(f"{number:07}", *values[place]) for number in range(count) for place in range(3)]
        start = time.process_time()
        derive_tags(rows)
        taken.append(time.process_time() - start)
    assert taken[1] < 8 * taken[0] + 0.5
