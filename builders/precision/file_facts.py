"""Tags from what files say: when a photo was taken, where, with which camera, and which text was written into it. These
are facts, which no annotator and no model had to find.

A photo has the tags of its day, month and year in the camera's own time. One without a date has none, and is no answer
to a date; so it is for places and cameras. No date is a clock that was reset, one that runs ahead of today, and that of
satellites, whose day is not the local one.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import pandas as pd

TAG_COLUMNS = ("file_name", "tag", "group")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

_EARTH_KILOMETRES = 6371.0088
_RESET_YEARS = (1904, 1970, 1980, 2000, 2001)  # whose first day cameras and file systems count from
_DATED = ("year", "month", "day")
_PHRASES = {  # by language: of a fact, of a fact and an object, of a text
    "en": (
        dict.fromkeys(_DATED, "photos of {0}") | {"place": "photos taken in {0}", "camera": "photos taken with {0}"},
        dict.fromkeys(_DATED, "photos with {1}, {0}")
        | {"place": "photos with {1}, taken in {0}", "camera": "photos with {1}, taken with {0}"},
        "photos that say “{0}”",
    ),
    "zh": (
        dict.fromkeys(_DATED, "{0}的照片") | {"place": "在{0}拍的照片", "camera": "用{0}拍的照片"},
        dict.fromkeys(_DATED, "{0}有{1}的照片") | {"place": "在{0}拍的有{1}的照片", "camera": "用{0}拍的有{1}的照片"},
        "写着“{0}”的照片",
    ),
}


def list_date_tags(images: pd.DataFrame, language: Literal["zh", "en"]) -> Iterator[tuple[str, str, str]]:
    """Yields TAG_COLUMNS of each image (file_name, taken_at in ISO 8601 or null) that has a date that can be one: its
    day in the group of its month, its month in the group of its year, and its year."""
    for name, taken_at in zip(images["file_name"], images["taken_at"], strict=True):
        day = _day_of(taken_at)
        if day is None or not isinstance(name, str):
            continue
        year, month, whole = _name(day, language)
        yield from ((name, whole, month), (name, month, year), (name, year, ""))


def _day_of(taken_at: Any) -> date | None:
    """The local day of a time in ISO 8601; None for null and for what cannot be one."""
    try:
        day = date.fromisoformat(taken_at[:10]) if isinstance(taken_at, str) and taken_at[-1:] != "Z" else None
    except ValueError:
        return None
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    if day is None or day > tomorrow or (day.month, day.day, day.year in _RESET_YEARS) == (1, 1, True):
        return None
    return None if (day.month, day.day, taken_at[11:19]) == (1, 1, "00:00:00") else day  # the year alone was known


def _name(day: date, language: Literal["zh", "en"]) -> tuple[str, str, str]:
    if language == "zh":
        year, month = f"{day.year}年", f"{day.year}年{day.month}月"
        return year, month, f"{month}{day.day}日"
    month = f"{_MONTHS[day.month - 1]} {day.year}"
    return str(day.year), month, f"{day.day} {month}"


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A place that somebody named: its centre in degrees, and how far around it photos are taken there."""

    name: str
    latitude: float
    longitude: float
    kilometres: float

    def has(self, latitude: float, longitude: float) -> bool:
        """Whether a point lies in it, on a sphere (haversine)."""
        north, east = math.radians(latitude - self.latitude), math.radians(longitude - self.longitude)
        scale = math.cos(math.radians(latitude)) * math.cos(math.radians(self.latitude))
        half = math.sin(north / 2) ** 2 + scale * math.sin(east / 2) ** 2
        return 2 * _EARTH_KILOMETRES * math.asin(math.sqrt(min(half, 1.0))) <= self.kilometres


def list_fact_tags(
    images: pd.DataFrame,
    language: Literal["zh", "en"],
    places: Sequence[NamedPlace] = (),
    objects: Mapping[str, Collection[str]] = {},
) -> Iterator[tuple[str, str, str]]:
    """Yields TAG_COLUMNS of what the files say: a query each, such as "photos of May 2019", in the group of its kind
    (day, month, year, place, camera, text), and with each object of the image. `images`: file_name, taken_at, latitude,
    longitude, camera, texts (a list), each null where it is not known; `objects`: the labels by file name."""
    of_facts, of_both, of_texts = _PHRASES[language]
    for row in images.itertuples():
        labels = sorted(objects.get(row.file_name, ()))
        for kind, fact in _list_facts(row, language, places):
            yield row.file_name, _plain(of_facts[kind].format(fact)), kind
            for label in labels:
                yield row.file_name, _plain(of_both[kind].format(fact, label)), f"{kind} and object"
        for text in row.texts if isinstance(row.texts, list | tuple) else ():
            yield row.file_name, _plain(of_texts.format(text)), "text"


def _list_facts(row: Any, language: Literal["zh", "en"], places: Sequence[NamedPlace]) -> Iterator[tuple[str, str]]:
    if (day := _day_of(row.taken_at)) is not None:
        yield from zip(("year", "month", "day"), _name(day, language), strict=True)
    if not (pd.isna(row.latitude) or pd.isna(row.longitude)):
        yield from (("place", place.name) for place in places if place.has(row.latitude, row.longitude))
    if isinstance(row.camera, str) and row.camera:
        yield "camera", row.camera


def _plain(tag: str) -> str:
    """A tag on one line without the mark that parts tags."""
    return " ".join(tag.replace(";", ",").split())
