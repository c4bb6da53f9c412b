"""The tags that queries ask for: one tag per person, place, keyword, day, month, year, season, event …, and which tags
each photo has, certainly lacks, or may have.

A name is one tag, whatever states it: a query for "Bath" means the city, the album and the keyword. A text in the
image is another one, “Bath”; where people have pseudonyms, a text that is a person's name is none. A photo certainly
lacks a tag only if its kind is complete on the photo: people if a face is marked, dates and places of a level if it
has one. Any other tag that it does not have is unknown.

These clocks give no date: a clock that was reset, one that runs ahead of today, and the clocks of satellites and
servers (UTC), whose day is not the local one.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from builders.album.events import MONTHS, AlbumEvent, find_season
from builders.album.fact_table import FactRow
from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.errors import UserError

WORDING: dict[str, Any] = read_package_yaml(Path(__file__).with_suffix(".yaml"))
KINDS: dict[str, dict[str, Any]] = WORDING["kinds"]
_RANKS = {kind: rank for rank, kind in enumerate(KINDS)}
_ASIDE, _DIGIT = re.compile(r" \(\D*\)"), re.compile(r"\d")  # Chinese New Year (Spring Festival)
_RESET_YEARS = (1904, 1970, 1980, 2000, 2001)  # whose first day cameras and file systems count from
COMPLETE = {"person": ("person", "pseudonym"), "date": ("year", "month", "day", "season", "holiday", "event", "trip"),
            "place": ("country", "state", "city", "location")}  # fmt: skip


Calendar = Callable[[date], list[tuple[str, str]]]


class FactConcept(NamedTuple):
    """A tag: its kind, one of KINDS, and its name in English and Chinese."""

    kind: str
    en: str
    zh: str


def derive_tags(
    rows: Sequence[FactRow],
    events: Iterable[AlbumEvent] = (),
    complete: Collection[str] = tuple(COMPLETE),
    hemisphere: str = "north",
    pseudonyms: Mapping[str, str] | None = None,
    holidays: Iterable[str] = (),
) -> tuple[list[FactConcept], list[tuple[str, int]], pd.DataFrame]:
    """Return the tags, the pairs of image and position of a tag, and a row per image (index) with `faces`, the people
    marked or named on it, and per kind whether it has all of its tags. `pseudonyms`: by name of a person, without
    regard to case, the name that stands in its place; `holidays`: countries whose holidays are tags. Raises UserError
    for a name without a pseudonym, and for a country without holidays."""
    calendars = tuple(map(_open_calendar, holidays))
    south = {row.image for row in rows if row.kind == "gps" and row.used_value.startswith("-")}
    people = {row.used_value.casefold() for row in rows if row.kind == "person" and row.used_value}
    others = {name.casefold(): other for name, other in (pseudonyms or {}).items()}
    has, doubtful = (defaultdict[str, set[str]](set) for _ in range(2))
    spelled, known_as = dict[str, tuple[int, bool, str, str, str]](), dict[FactConcept, tuple[str, str]]()
    pairs, faces = set[tuple[str, str]](), Counter[str]()

    def add(image: str, concept: FactConcept) -> None:
        if pseudonyms and concept.kind == "text" and concept.en[1:-1].casefold() in people:
            return
        if concept not in known_as:
            key, named = concept.en.casefold(), concept
            if key in people:
                if pseudonyms and key not in others:
                    next_step = "add a row, or run querytruth labels facts --pseudonyms again"
                    raise UserError("read facts", "the table of pseudonyms", f"lacks {concept.en!r}", next_step)
                name = others[key] if pseudonyms else concept.en
                named = FactConcept("pseudonym" if pseudonyms else "person", name, name if pseudonyms else concept.zh)
            form = (_RANKS[named.kind], named.zh == named.en, *named)
            spelled[key], known_as[concept] = min(spelled.get(key, form), form), (named.kind, key)
        kind, key = known_as[concept]
        has[kind].add(image)
        pairs.add((image, key))

    for row in rows:
        is_south = hemisphere == "south" or row.image in south
        value = row.used_value or row.value
        if row.kind == "date":  # the times of a day have the same tags
            value = value[:10] + "Z" * value.endswith("Z")
        for concept in list_concepts(row.kind, value, row.zh * (not row.corrected), is_south, calendars):
            add(row.image, concept) if row.is_used else doubtful[concept.kind].add(row.image)
        faces[row.image] += row.kind == "person" and row.is_used
        if row.kind == "person" and row.is_used and row.region:
            has["face"].add(row.image)
    for image, concept in _list_event_tags(rows, events):
        add(image, concept)
    has |= dict.fromkeys(COMPLETE["person"], has["face"]) | dict.fromkeys(("event", "trip", "holiday"), has["day"])
    images, keys = sorted({row.image for row in rows}), sorted(spelled)
    known = {
        kind: [image in has[kind] and image not in doubtful[kind] for image in images]
        for group in complete
        for kind in COMPLETE[group]
    }
    code = {key: number for number, key in enumerate(keys)}
    concepts = [FactConcept(*spelled[key][2:]) for key in keys]
    table = pd.DataFrame({"faces": [faces[image] for image in images]} | known, index=images)
    return concepts, sorted((image, code[key]) for image, key in pairs), table


@lru_cache(1 << 16)
def list_concepts(
    kind: str, value: str, zh: str = "", south: bool = False, calendars: tuple[Calendar, ...] = ()
) -> tuple[FactConcept, ...]:
    """Return the tags of a fact; empty if it cannot be asked for."""
    value = " ".join(value.split())
    if kind == "date":
        return tuple(_list_date_concepts(value, south, calendars))
    if kind == "rating":
        return (FactConcept(kind, "1 star" if value == "1" else f"{value} stars", f"{value}星"),)
    if kind == "favourite":
        return (FactConcept(kind, "favourites", "收藏"),)
    if kind == "text" and value:  # in quotes: a sign that says Bath is not in Bath
        return (FactConcept(kind, f"“{value}”", f"“{zh or value}”"),)
    return (FactConcept(kind, value, zh or value),) if kind in KINDS and value else ()


def _list_date_concepts(value: str, south: bool, calendars: tuple[Calendar, ...]) -> Iterator[FactConcept]:
    parts = value[:10].split("-")
    try:
        day = date(*[*map(int, parts), 1, 1][:3])
    except ValueError:
        return
    is_reset = len(parts) == 3 and (day.month, day.day) == (1, 1) and day.year in _RESET_YEARS
    if value.endswith("Z") or is_reset or day > datetime.now(UTC).date() + timedelta(days=1):
        return
    yield FactConcept("year", str(day.year), f"{day.year}年")
    if len(parts) > 1:
        month = FactConcept("month", f"{MONTHS[day.month - 1]} {day.year}", f"{day.year}年{day.month}月")
        yield month
        english, chinese = find_season(day.month, south)
        first = day.year - (day.month < 3)
        years = f"{first}/{(first + 1) % 100:02}" if day.month in (12, 1, 2) else str(day.year)
        yield FactConcept("season", f"{english} of {years}", f"{years}年{chinese}")
        if len(parts) > 2:
            yield FactConcept("day", f"{day.day} {month.en}", f"{month.zh}{day.day}日")
            for english, chinese in chain.from_iterable(calendar(day) for calendar in calendars):
                yield FactConcept("holiday", english, chinese)
                yield FactConcept("holiday", f"{english} {day.year}", f"{day.year}年{chinese}")


@cache
def _open_calendar(country: str) -> Calendar:
    """Return the function that names the holidays of a day in English and Chinese, by the package `holidays`; days off
    in place of others are none. Raises UserError for an unknown country, and without the package."""
    try:
        import holidays
    except ImportError:
        next_step = "pip install 'querytruth[holidays]'"
        raise UserError("read facts", "facts.holidays", "needs the package holidays", next_step) from None
    languages = holidays.list_localized_countries().get(country)
    if languages is None:
        reason = "is not a country with known holidays"
        raise UserError("read facts", f"facts.holidays: {country}", reason, "write a code such as CN or US")
    chosen = [next((one for one in wanted if one in languages), None) for wanted in (("en_US", "en_GB"), ("zh_CN",))]
    english, chinese = (holidays.country_holidays(country, language=one, observed=False) for one in chosen)

    def name(day: date) -> list[tuple[str, str]]:
        found = zip(english.get_list(day), chinese.get_list(day), strict=False)
        named = [(_ASIDE.sub("", one), _ASIDE.sub("", other)) for one, other in found]
        own = [(one, other if chosen[1] else WORDING["holidays"].get(one, one)) for one, other in named]
        return [pair for pair in own if not _DIGIT.search(pair[0])]  # "Day off (substituted from 02/07/2021)"

    return name


def read_local_time(value: str) -> datetime | None:
    """Return the clock of a date with a time, else None. UTC times are used unchanged: only their order matters."""
    try:
        return datetime.fromisoformat(value[:19]) if len(value) >= 19 else None
    except ValueError:
        return None


def _list_event_tags(rows: Iterable[FactRow], events: Iterable[AlbumEvent]) -> Iterator[tuple[str, FactConcept]]:
    """Yield the tags of events and trips of photos by their times."""
    times = [(read_local_time(row.used_value), row.image) for row in rows if row.kind == "date"]
    dated = sorted((time, image) for time, image in times if time is not None)
    for one in events:
        start, end = map(datetime.fromisoformat, (one.start, one.end))
        first, last = bisect_left(dated, start, key=itemgetter(0)), bisect_right(dated, end, key=itemgetter(0))
        for _, image in dated[first:last]:
            yield image, FactConcept("event", one.event, one.zh or one.event)
            if one.trip:
                yield image, FactConcept("trip", one.trip, one.trip_zh or one.trip)


def describe_kinds(kinds: Collection[str]) -> dict[str, Any]:
    """Return `source` and `fact_kinds` of a question about tags of these kinds ("" is what annotators marked); empty if
    none of them is a fact."""
    sources = {KINDS[kind]["source"] if kind else "picture" for kind in kinds}
    names = {KINDS[kind].get("group", kind) if kind else "object" for kind in kinds}
    source = sources.pop() if len(sources) == 1 else "both"
    return {"source": source, "fact_kinds": sorted(names)} if any(kinds) else {}


def are_exclusive(one: str, other: str) -> bool:
    """Return whether a photo has one answer to both kinds, so that no question joins them."""
    first, second = (KINDS.get(kind, {}) for kind in (one, other))
    groups = {first.get("group"), second.get("group")}
    others = {*first.get("not_with", ()), *second.get("not_with", ())}
    return None not in groups and (len(groups) == 1 or not groups.isdisjoint(others))


def phrase_facts(names: Sequence[tuple[str, str]], language: str, style: str) -> str:
    """Return the text of a question about tags (kind, name), as people ask it: "Gracie and Tom in Bath" (word),
    "photos of Gracie and Tom in Bath" (sentence)."""
    wording: dict[str, Any] = WORDING["phrases"][language]
    joined = wording["and"].join(name for kind, name in names if kind not in wording["taken"] | wording["others"])
    taken, others = (
        [(form, name) for known, form in wording[part].items() for kind, name in names if kind == known]
        for part in ("taken", "others")
    )
    if style == "word" and language == "zh":
        return " ".join([joined] * bool(joined) + [name for _, name in taken[::-1] + others])
    if style == "word" and not joined:
        return others[0][1] + "".join(form.format(name) for form, name in others[1:])
    phrases = "".join(form.format(name) for form, name in taken) + (wording["after"] if taken else "")
    phrases += "".join(form.format(name) for form, name in others)
    of = wording["of"].format(joined) if joined else ""
    return f"{joined}{phrases}" if style == "word" else str(wording["sentence"]).format(of=of, phrases=phrases)
