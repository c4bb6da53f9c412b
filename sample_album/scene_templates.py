"""Who appears together where: sixty casts, one scene each, before the round begins anew.

A cast names its place and its kinds. `!` marks what fills much of the picture, `?` what is there only
sometimes, `:1-3` how many, `@` what it sits on, stands in or is held by.
"""

import random
import re
from dataclasses import dataclass

_TEMPLATES: dict[str, tuple[str, ...]] = {
    "beach": (
        "umbrella! person:1-2 soccer dog?",
        "umbrella! sandals bird:2-4 sailboat?",
        "dog! soccer person bird?:1-3",
        "sandals! umbrella bird:1-3 sailboat?",
        "person!:1-2 kite:1-3 bird:1-3",
        "slippers! umbrella sandals bird:1-2",
        "boat! bird:2-4 person dog?",
        "soccer! kite:1-2 umbrella person",
    ),
    "park": (
        "bench! person dog soccer?",
        "dog! soccer bird:1-3 person",
        "bicycle! bench bird?:1-3 person",
        "bicycle! dog flower:1-3",
        "flower!:2-4 kite:1-2 cat?",
        "person! umbrella@hand bench dog?",
        "person!:1-2 kite:1-2 dog bird:1-3",
        "soccer! person:1-2 bench kite",
    ),
    "street": (
        "car! person:1-2 traffic_light bus?",
        "car!:1-2 bicycle traffic_light person?",
        "bus! person:1-3 traffic_light car?",
        "bus! car:1-2 person traffic_light?",
        "suv! dog person traffic_light?",
        "suv! bicycle traffic_light person?",
        "person! umbrella@hand car traffic_light?",
        "suv! bus traffic_light",
    ),
    "living_room": (
        "couch! cat@couch lamp potted_plant?",
        "couch! dog lamp clock",
        "couch! person@couch:1-2 cat lamp",
        "couch! slippers lamp potted_plant",
        "cat! couch lamp potted_plant",
        "clock! potted_plant lamp couch?",
        "lamp! potted_plant! chair cat",
        "chair! guitar lamp",
        "dog! slippers clock couch?",
        "slippers! chair cat potted_plant?",
    ),
    "kitchen": (
        "apple!:2-4 orange:1-3 cup",
        "banana! apple:1-3 bottle orange?",
        "cake! cup:1-2 apple orange",
        "vase! flower@vase:1-3 cup apple?",
        "orange!:2-3 banana bottle apple?",
        "bottle! apple:1-2 orange cup",
        "cake! vase flower@vase:1-3 cup",
        "vase! flower@vase:1-2 banana bottle cup?",
        "cup!:1-2 cake bottle",
    ),
    "lake": (
        "sailboat!:1-2 bird:2-4 boat?",
        "sailboat! bench person bird?",
        "boat!:1-2 bird:1-3 dog?",
        "boat! sailboat bird?:1-2",
        "sailboat!:1-2 hotair_balloon boat?",
    ),
    "meadow": (
        "sheep!:2-4 bird:1-3 dog?",
        "sheep!:2-3 dog person",
        "hotair_balloon!:1-3 sheep:1-3 bird?",
        "sheep! flower:2-4 hotair_balloon",
    ),
    "airfield": (
        "airplane! bus person?:1-2",
        "airplane! suv bird?",
        "airplane! person:1-2 bus?",
    ),
    "shop": (
        "sneakers! leather_shoes:1-2 other_shoes",
        "leather_shoes! sneakers clock?",
        "other_shoes! leather_shoes sneakers sandals?",
        "sandals! slippers:1-2 sneakers other_shoes?",
        "sneakers! other_shoes:1-2 leather_shoes slippers?",
    ),
}
_ROLE = re.compile(r"(?P<kind>\w+?)(?P<hero>!)?(?P<maybe>\?)?(?:@(?P<on>\w+))?(?::(?P<least>\d)-(?P<most>\d))?")


@dataclass(frozen=True, slots=True)
class TemplateObject:
    """One kind of a cast; `on` is the kind it depends on (a couch, a vase), or `hand`."""

    kind: str
    is_main: bool
    optional: bool
    on: str | None
    min_count: int
    max_count: int


@dataclass(frozen=True, slots=True)
class SceneTemplate:
    """`number`: its position among the casts of its place."""

    place: str
    number: int
    objects: tuple[TemplateObject, ...]


def _parse_object(text: str) -> TemplateObject:
    match = _ROLE.fullmatch(text)
    assert match is not None, f"role {text!r} reads kind!?@on:least-most"
    least = int(match["least"] or 1)
    return TemplateObject(
        match["kind"],
        bool(match["hero"]),
        bool(match["maybe"]),
        match["on"],
        least,
        int(match["most"] or least),
    )


def _parse_templates() -> tuple[SceneTemplate, ...]:
    casts = [
        SceneTemplate(place, number, tuple(_parse_object(object_text) for object_text in text.split()))
        for place, texts in _TEMPLATES.items()
        for number, text in enumerate(texts)
    ]
    random.Random("the order of casts").shuffle(casts)  # neighbours should differ, in every album alike
    return tuple(casts)


SCENE_TEMPLATES: tuple[SceneTemplate, ...] = _parse_templates()
