"""The places of the album: where they are, what they look like, and where in the picture things stand."""

from collections.abc import Callable
from dataclasses import dataclass

from sample_album import scenery_indoors, scenery_outdoors, scenery_town
from sample_album.sky import Backdrop

HeightBand = tuple[float, float]  # of heights, as shares of the picture's height


@dataclass(frozen=True, slots=True)
class GeoSite:
    """A real spot on the map that a place may stand for, and its offset from UTC."""

    latitude: float
    longitude: float
    offset: str


@dataclass(frozen=True, slots=True)
class ScenePlace:
    """`bands`: where a kind's foot (in the sky: its middle) may be; `*` for all kinds not named."""

    name: str
    paint: Callable[[Backdrop], None]
    indoors: bool
    can_snow: bool
    sites: tuple[GeoSite, ...]
    bands: dict[str, HeightBand]
    zh: str
    en: str


_SKY: dict[str, HeightBand] = {"bird": (0.08, 0.34), "kite": (0.14, 0.34), "hotair_balloon": (0.26, 0.4)}
_CHINA = "+08:00"

PLACES: dict[str, ScenePlace] = {
    place.name: place
    for place in (
        ScenePlace(
            "beach",
            scenery_outdoors.beach,
            False,
            False,
            (GeoSite(18.2290, 109.6340, _CHINA), GeoSite(36.0562, 120.3386, _CHINA)),
            {**_SKY, "sailboat": (0.45, 0.52), "*": (0.70, 0.96)},
            "海滩上",
            "on the beach",
        ),
        ScenePlace(
            "park",
            scenery_outdoors.park,
            False,
            True,
            (GeoSite(30.2540, 120.1450, _CHINA), GeoSite(39.9440, 116.4780, _CHINA)),
            {**_SKY, "bench": (0.72, 0.86), "*": (0.68, 0.965)},
            "公园里",
            "in the park",
        ),
        ScenePlace(
            "street",
            scenery_town.street,
            False,
            True,
            (GeoSite(31.2050, 121.4370, _CHINA),),
            {
                **_SKY,
                "car": (0.80, 0.915),
                "suv": (0.80, 0.915),
                "bus": (0.79, 0.88),
                "traffic_light": (0.655, 0.685),
                "person": (0.66, 0.69),
                "dog": (0.955, 0.98),
                "cat": (0.955, 0.98),
                "bicycle": (0.955, 0.98),
                "*": (0.655, 0.685),
            },
            "街道上",
            "on the street",
        ),
        ScenePlace(
            "living_room",
            scenery_indoors.living_room,
            True,
            False,
            (GeoSite(31.3190, 120.6190, _CHINA),),
            {
                "couch": (0.76, 0.82),
                "lamp": (0.71, 0.78),
                "clock": (0.16, 0.26),
                "chair": (0.74, 0.86),
                "guitar": (0.76, 0.86),
                "potted_plant": (0.74, 0.93),
                "slippers": (0.90, 0.97),
                "*": (0.86, 0.965),
            },
            "客厅里",
            "in the living room",
        ),
        ScenePlace(
            "kitchen",
            scenery_indoors.kitchen_table,
            True,
            False,
            (GeoSite(31.3190, 120.6190, _CHINA),),
            {"vase": (0.68, 0.86), "bottle": (0.68, 0.90), "*": (0.68, 0.955)},
            "餐桌上",
            "on the kitchen table",
        ),
        ScenePlace(
            "lake",
            scenery_outdoors.lake,
            False,
            True,
            (GeoSite(25.7900, 100.1750, _CHINA), GeoSite(35.3000, 136.1000, "+09:00")),
            {**_SKY, "boat": (0.56, 0.78), "sailboat": (0.56, 0.78), "*": (0.90, 0.97)},
            "湖边",
            "by the lake",
        ),
        ScenePlace(
            "meadow",
            scenery_outdoors.meadow,
            False,
            True,
            (GeoSite(49.2120, 119.7650, _CHINA),),
            {**_SKY, "*": (0.70, 0.965)},
            "山坡草地上",
            "on a hillside meadow",
        ),
        ScenePlace(
            "airfield",
            scenery_town.airfield,
            False,
            True,
            (GeoSite(30.3190, 104.4450, _CHINA),),
            {**_SKY, "airplane": (0.78, 0.84), "bus": (0.86, 0.955), "*": (0.88, 0.965)},
            "机场里",
            "at the airport",
        ),
        ScenePlace(
            "shop",
            scenery_indoors.shop,
            True,
            False,
            (GeoSite(23.1320, 113.3270, _CHINA),),
            {"*": (0.5, 0.9)},
            "商店的货架上",
            "on a shop shelf",
        ),
    )
}
SHELF_HEIGHTS: HeightBand = (0.505, 0.905)  # the two boards of the shop
