"""Events and trips of an album: photos that were taken close to each other in time and place.

A gap between two photos ends an event if its logarithm exceeds the mean logarithm of the gaps around it by log 17
(Platt, Czerwinski and Field, "PhotoTOC: Automatic Clustering for Browsing Personal Photographs", 2003: window of 10
gaps on each side) and it is at least two hours. A gap of a day also ends an event, and so does a jump of 50 miles: the
U.S. National Household Travel Survey (2001) counts a trip as long-distance from there. Consecutive events that far from
home (where photos were taken on most days) are a trip. People can correct names, starts and ends in the table.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple, TypeVar

EVENT_COLUMNS = ("event", "zh", "trip", "trip_zh", "start", "end", "photos")
_WINDOW, _LOG_RATIO = 10, math.log(17)
_LEAST_SECONDS, _MOST_SECONDS = 2 * 3600, 24 * 3600
FAR_KILOMETRES = 80.5
_EARTH_KILOMETRES = 6371.0088
_SEASONS = {"en": ("winter", "spring", "summer", "autumn"), "zh": ("冬天", "春天", "夏天", "秋天")}
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_LEAST_PHOTOS = 3
Name = TypeVar("Name", str, tuple[str, str])


class DatedPhoto(NamedTuple):
    """A photo with its local time, where it was taken (None: unknown) and what may name its event: its place in English
    and Chinese, its albums and keywords."""

    taken_at: datetime
    image: str
    point: tuple[float, float] | None = None
    place: tuple[str, str] = ("", "")
    shared: tuple[str, ...] = ()


class AlbumEvent(NamedTuple):
    """A row of the table of events: an event with its trip ("": none), and the local times between which it is."""

    event: str
    zh: str
    trip: str
    trip_zh: str
    start: str
    end: str
    photos: int | str


def read_point(text: str) -> tuple[float, float]:
    """Return the degrees of "51.37,-2.36"."""
    latitude, _, longitude = text.partition(",")
    return float(latitude), float(longitude)


def find_distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the kilometres between two points in degrees, on a sphere (haversine)."""
    north, east = (math.radians(b - a) for a, b in zip(one, other, strict=True))
    scale = math.cos(math.radians(one[0])) * math.cos(math.radians(other[0]))
    half = math.sin(north / 2) ** 2 + scale * math.sin(east / 2) ** 2
    return 2 * _EARTH_KILOMETRES * math.asin(math.sqrt(min(half, 1.0)))


def find_events(photos: Iterable[DatedPhoto]) -> list[AlbumEvent]:
    """Return the events of three photos or more, in order of time; each photo is in one event at most."""
    ordered = sorted(photos)
    groups = [group for group in _split(ordered) if len(group) >= _LEAST_PHOTOS]
    home, events = _find_home(ordered), list[AlbumEvent]()

    def is_distant(group: Sequence[DatedPhoto]) -> bool:
        points = [photo.point for photo in group if photo.point is not None]
        return home is not None and bool(points) and find_distance(points[0], home) > FAR_KILOMETRES

    for is_far, run in groupby(groups, key=is_distant):
        inside = list(run)
        is_trip = is_far and len(inside) > 1
        trip = _name([photo for group in inside for photo in group]) if is_trip else ("", "")
        for group in inside:
            start, end = (group[place].taken_at.isoformat() for place in (0, -1))
            events.append(AlbumEvent(*_name(group, with_day=True), *trip, start, end, len(group)))
    return events


def _split(photos: Sequence[DatedPhoto]) -> list[list[DatedPhoto]]:
    gaps = [max((b.taken_at - a.taken_at).total_seconds(), 1.0) for a, b in pairwise(photos)]
    logs, groups = [math.log(gap) for gap in gaps], [[photo] for photo in photos[:1]]
    totals, before = list(accumulate(logs, initial=0.0)), photos[0].point if photos else None
    for number, photo in enumerate(photos[1:]):
        first, last = max(number - _WINDOW, 0), min(number + _WINDOW + 1, len(gaps))
        mean = (totals[last] - totals[first]) / (last - first)
        is_gap = (gaps[number] >= _LEAST_SECONDS and logs[number] >= mean + _LOG_RATIO) or gaps[number] >= _MOST_SECONDS
        is_jump = before is not None and photo.point is not None and find_distance(before, photo.point) > FAR_KILOMETRES
        if is_gap or is_jump:
            groups.append([])
            before = None
        groups[-1].append(photo)
        before = photo.point or before
    return groups


def _find_home(photos: Sequence[DatedPhoto]) -> tuple[float, float] | None:
    """Return the point, to a tenth of a degree, at which photos were taken on most days."""
    days = {
        (photo.taken_at.date(), (round(photo.point[0], 1), round(photo.point[1], 1))) for photo in photos if photo.point
    }
    counts = Counter(point for _, point in days)
    return min(counts, key=lambda point: (-counts[point], point)) if counts else None


def _name(group: Sequence[DatedPhoto], with_day: bool = False) -> tuple[str, str]:
    """Return the name in English and in Chinese: the album or keyword that most photos share, else the place, else the
    season; with the month, or the day where two events of a month would share a name."""
    start = group[0].taken_at
    shared = _find_shared([photo.shared for photo in group])
    place = _find_shared([(photo.place,) for photo in group if photo.place[0]])
    is_south = any(photo.point[0] < 0 for photo in group if photo.point)
    english, chinese = (shared, shared) if shared else place or find_season(start.month, is_south)
    day = f"{start.day} " if with_day else ""
    in_english = f"{day}{MONTHS[start.month - 1]} {start.year}"
    in_chinese = f"{start.year}年{start.month}月" + (f"{start.day}日" if with_day else "")
    return f"{english}, {in_english}", f"{in_chinese}{chinese}"


def _find_shared(names: Iterable[Sequence[Name]]) -> Name | None:
    listed = [set(one) for one in names]
    counts = Counter(name for one in listed for name in one if name)
    most = min(counts, key=lambda name: (-counts[name], str(name)), default=None)
    return most if most is not None and 2 * counts[most] > len(listed) else None


def find_season(month: int, is_south: bool) -> tuple[str, str]:
    """Return the meteorological season in English and Chinese: winter is December to February, in the south June to
    August."""
    number = (month % 12 // 3 + 2 * is_south) % 4
    return _SEASONS["en"][number], _SEASONS["zh"][number]
