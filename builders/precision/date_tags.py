"""Tags from the day on which a photo was taken: facts, which no annotator and no model had to find.

A photo has the tags of its day, month and year in the camera's own time. One without a date has none, and is no answer
to a date.
"""

from collections.abc import Iterator
from datetime import date
from typing import Literal

import pandas as pd

TAG_COLUMNS = ("file_name", "tag", "group")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def list_date_tags(images: pd.DataFrame, language: Literal["zh", "en"]) -> Iterator[tuple[str, str, str]]:
    """Yields TAG_COLUMNS of each image (file_name, taken_at in ISO 8601 or null) that has a date that can be one: its
    day in the group of its month, its month in the group of its year, and its year."""
    for name, taken_at in zip(images["file_name"], images["taken_at"], strict=True):
        if not isinstance(taken_at, str) or not isinstance(name, str):
            continue
        try:
            day = date.fromisoformat(taken_at[:10])
        except ValueError:
            continue
        year, month, whole = _name(day, language)
        yield from ((name, whole, month), (name, month, year), (name, year, ""))


def _name(day: date, language: Literal["zh", "en"]) -> tuple[str, str, str]:
    if language == "zh":
        year, month = f"{day.year}年", f"{day.year}年{day.month}月"
        return year, month, f"{month}{day.day}日"
    month = f"{_MONTHS[day.month - 1]} {day.year}"
    return str(day.year), month, f"{day.day} {month}"
