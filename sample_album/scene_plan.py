"""Decides what a scene holds before anything is drawn: its cast, colours, light, day and place on the map."""

import random
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from sample_album.object_kinds import OBJECT_KINDS
from sample_album.places import PLACES, GeoSite
from sample_album.scene_templates import SCENE_TEMPLATES, SceneTemplate, TemplateObject

_SIZES = ((640, 480), (640, 480), (480, 640), (720, 480), (600, 600))
_SEASONS = ("winter", "spring", "summer", "autumn")  # of three months each, from December on
_FIRST_DAY = date(2023, 1, 6)
_DAYS = 1060  # to the end of November 2025
_HOURS = {"day": 9, "snow": 10, "evening": 17, "night": 20}


@dataclass(frozen=True, slots=True)
class SceneItem:
    """One object to be drawn."""

    kind: str
    colour: str
    variant: int
    is_main: bool
    carrier: str | None
    mirrored: bool


@dataclass(frozen=True, slots=True)
class ScenePlan:
    """All decisions about one scene; positions come later."""

    index: int
    place: str
    season: str
    light: str
    width: int
    height: int
    taken_at: datetime
    site: GeoSite
    latitude: float
    longitude: float
    items: tuple[SceneItem, ...]
    facts: tuple[tuple[str, str, int], ...]

    @property
    def stem(self) -> str:
        """The file name without its ending: year, season, place and number, no word of what is seen."""
        return f"{self.taken_at.year}/{self.season}/{self.place}_{self.index:04d}"


@dataclass(frozen=True, slots=True)
class _Visit:
    """One visit: a few scenes of one place, within the same hours."""

    start: datetime
    season: str
    light: str
    site: GeoSite


def plan_scene(seed: int, index: int) -> ScenePlan:
    """The scene of this index; depends on nothing but seed and index."""
    cast = SCENE_TEMPLATES[index % len(SCENE_TEMPLATES)]
    rng = random.Random(f"{seed}/scene/{index}")
    outing = _plan_visit(seed, index, cast)
    width, height = rng.choice(_SIZES)
    if cast.place in ("shop", "airfield") and height > width:
        width, height = height, width
    items = _items(cast, rng)
    return ScenePlan(
        index=index,
        place=cast.place,
        season=outing.season,
        light=outing.light,
        width=width,
        height=height,
        taken_at=outing.start + timedelta(minutes=7 * cast.number, seconds=rng.randrange(380)),
        site=outing.site,
        latitude=round(outing.site.latitude + rng.uniform(-0.004, 0.004), 6),
        longitude=round(outing.site.longitude + rng.uniform(-0.004, 0.004), 6),
        items=items,
        facts=_facts(items),
    )


def _plan_visit(seed: int, index: int, cast: SceneTemplate) -> _Visit:
    """Half of a place's scenes of one round belong to the same outing."""
    rng = random.Random(f"{seed}/outing/{index // len(SCENE_TEMPLATES)}/{cast.place}/{cast.number % 2}")
    place = PLACES[cast.place]
    day = _FIRST_DAY + timedelta(days=rng.randrange(_DAYS))
    season = _SEASONS[day.month % 12 // 3]
    if season == "winter" and not (place.can_snow or place.indoors):
        day, season = day + timedelta(days=120), "spring"
        season = _SEASONS[day.month % 12 // 3]
    light = rng.choices(("day", "evening", "night"), (13, 5, 2))[0]
    if season == "winter" and place.can_snow and rng.random() < 0.9:
        light = "snow"
    start = datetime.combine(day, time(_HOURS[light], rng.randrange(50)))
    if light == "day":
        start += timedelta(hours=rng.randrange(6))
    return _Visit(start, season, light, rng.choice(place.sites))


def _items(cast: SceneTemplate, rng: random.Random) -> tuple[SceneItem, ...]:
    items: list[SceneItem] = []
    for role in cast.objects:
        if role.optional and rng.random() < 0.4:
            continue
        items.extend(_items_of_object(role, rng))
    return tuple(items)


def _items_of_object(role: TemplateObject, rng: random.Random) -> list[SceneItem]:
    colours = OBJECT_KINDS[role.kind].colours
    first = rng.choice(colours)
    alike = rng.random() < 0.55
    return [
        SceneItem(
            role.kind,
            first if alike or number == 0 else rng.choice(colours),
            rng.randrange(12),
            role.is_main,
            role.on,
            rng.random() < 0.5,
        )
        for number in range(rng.randint(role.min_count, role.max_count))
    ]


def _facts(items: tuple[SceneItem, ...]) -> tuple[tuple[str, str, int], ...]:
    counts: dict[tuple[str, str], int] = {}
    for item in items:
        key = (OBJECT_KINDS[item.kind].label, item.colour)
        counts[key] = counts.get(key, 0) + 1
    return tuple((label, colour, count) for (label, colour), count in counts.items())
