"""Paints a laid-out scene, and keeps a map of which pixel shows which object."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFilter

from sample_album.album_records import ObjectBox
from sample_album.layout import PlacedSprite, lay_out_scene
from sample_album.lighting import Light, get_light
from sample_album.object_kinds import OBJECT_KINDS
from sample_album.places import PLACES
from sample_album.scene_plan import ScenePlan
from sample_album.sky import Backdrop
from sample_album.sprites import OPAQUE_FROM

_FLOATS = ("boat", "sailboat")
_HIDDEN = 0.35  # share of an object that others may cover before the scene is laid out anew
_LAYOUTS = 10


@dataclass(frozen=True, slots=True)
class PaintedScene:
    """`object_map`: a picture of the same size, 0 for the backdrop, n+1 where the n-th object is to be seen."""

    image: Image.Image
    object_map: Image.Image
    labels: tuple[str, ...]
    colours: tuple[str, ...]
    hidden_shares: tuple[float, ...]  # per object: the share of it that others cover

    def boxes(self, change: Callable[[Image.Image], Image.Image] | None = None) -> tuple[ObjectBox, ...]:
        """The extent of every object's visible pixels, after a `change` of the picture's size or cut."""
        out = []
        for number, (label, colour) in enumerate(zip(self.labels, self.colours, strict=True), start=1):
            mask = self.object_map.point([255 * (level == number) for level in range(256)])
            if change is not None:
                mask = change(mask).point(lambda level: 255 * (level >= OPAQUE_FROM))
            extent = mask.getbbox()
            if extent is not None:
                left, top, right, bottom = extent
                out.append(ObjectBox(label, float(left), float(top), float(right - left), float(bottom - top), colour))
        return tuple(out)


def paint_scene(seed: int, plan: ScenePlan, *, without: int | None = None) -> PaintedScene:
    """The scene at its final size; `without` leaves one object out, not its shadow (to measure it by)."""
    place = PLACES[plan.place]
    light = get_light(plan.light, place.indoors)
    placed, owners, hidden = choose_layout(seed, plan)
    clock = next((one for one in placed if one.item.kind == "clock"), None)
    clock_position = None if clock is None else (clock.x + clock.image.width / 2) / plan.width
    rng = random.Random(f"{seed}/backdrop/{plan.index}")
    backdrop = Backdrop(plan.width, plan.height, light, plan.season, rng, clock_position)
    place.paint(backdrop)
    image = backdrop.render()
    for number in _back_to_front(placed):
        one = placed[number]
        _paint_ground_effects(image, one, light, place.name)
        if number != without:
            image.paste(light.tint_sprite(one.image), (one.x, one.y), one.image)
    labels = tuple(OBJECT_KINDS[item.kind].label for item in plan.items)
    return PaintedScene(image, owners, labels, tuple(item.colour for item in plan.items), hidden)


def choose_layout(seed: int, plan: ScenePlan) -> tuple[list[PlacedSprite], Image.Image, tuple[float, ...]]:
    """The first layout in which all is well to be seen, else the best of several."""
    best: tuple[list[PlacedSprite], Image.Image, tuple[float, ...]] | None = None
    for attempt in range(_LAYOUTS):
        placed = lay_out_scene(plan, random.Random(f"{seed}/layout/{plan.index}/{attempt}"))
        owners, hidden = _map_objects(placed, (plan.width, plan.height))
        if best is None or max(hidden) < max(best[2]):
            best = placed, owners, hidden
        if max(hidden) <= _HIDDEN:
            break
    assert best is not None
    return best


def _back_to_front(placed: list[PlacedSprite]) -> list[int]:
    return sorted(range(len(placed)), key=lambda number: (placed[number].depth, number))


def _map_objects(placed: list[PlacedSprite], size: tuple[int, int]) -> tuple[Image.Image, tuple[float, ...]]:
    owners = Image.new("L", size)
    whole = [0] * len(placed)
    for number in _back_to_front(placed):
        one = placed[number]
        solid = one.image.getchannel("A").point(lambda level: 255 * (level >= OPAQUE_FROM))
        whole[number] = solid.histogram()[255]
        owners.paste(number + 1, (one.x, one.y), solid)
    seen = owners.histogram()
    return owners, tuple(1 - seen[number + 1] / full for number, full in enumerate(whole))


def _paint_ground_effects(image: Image.Image, one: PlacedSprite, light: Light, place: str) -> None:
    """What an object does to the ground before it is drawn: its shadow, its ring in the water, its glow."""
    left, _, right, bottom = one.edges
    width = right - left
    if one.item.kind == "lamp" and light.name in ("evening", "night"):
        size = round(one.image.height * 0.95)
        image.paste(
            (255, 226, 150),
            (left + width // 2 - size // 2, one.y + one.image.height // 5 - size // 2),
            _glow(size),
        )
    if one.item.kind == "clock" and place == "living_room":
        image.paste((60, 44, 60), (left + 3, one.y + 5), one.image.getchannel("A").point(lambda v: v * 44 // 255))
    if not one.casts_shadow:
        return
    if one.item.kind in _FLOATS and not (place == "beach" and one.item.kind == "boat"):
        thick = max(8, width // 12)
        image.paste(
            light.tint_colour((226, 246, 244)),
            (left - width // 16, bottom - thick * 2 // 3),
            _shadow(width + width // 8, thick, 130),
        )
        return
    thick = max(6, min(width // 5, one.image.height // 4, 34))
    strength = 70 if light.name != "night" else 96
    image.paste((44, 34, 66), (left - 2, bottom - thick * 5 // 8), _shadow(width + 8, thick, strength))


@lru_cache(maxsize=512)
def _shadow(width: int, height: int, strength: int) -> Image.Image:
    large = Image.new("L", (width, height * 2))
    edge = height // 3
    ImageDraw.Draw(large).ellipse((edge, edge, width - edge, height * 2 - edge), fill=strength)
    return large.filter(ImageFilter.BoxBlur(edge / 2)).resize((width, height))


@lru_cache(maxsize=64)
def _glow(size: int) -> Image.Image:
    return Image.radial_gradient("L").resize((size, size)).point(lambda v: max(0, 150 - v * 150 // 180))
