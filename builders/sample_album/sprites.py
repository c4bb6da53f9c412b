"""Turns a drawing into a sprite: one object with soft edges and a little light, cut to its extent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from PIL import Image, ImageChops, ImageFilter

from builders.sample_album import drawing_creatures as creatures
from builders.sample_album import drawing_footwear as footwear
from builders.sample_album import drawing_furniture as furniture
from builders.sample_album import drawing_play as play
from builders.sample_album import drawing_table as table
from builders.sample_album import drawing_vehicles as vehicles
from builders.sample_album.colours import NAMED, Rgb
from builders.sample_album.kinds import KINDS
from builders.sample_album.pen import Pen

SOLID = 128  # a pixel belongs to an object from half coverage on

Paint = Callable[[Pen, Rgb, int, str], None]


@dataclass(frozen=True, slots=True)
class Drawing:
    """How one kind is painted, and the units its paper measures."""

    paint: Paint
    width: int
    height: int


DRAWINGS: dict[str, Drawing] = {
    "person": Drawing(creatures.person, 80, 170),
    "dog": Drawing(creatures.dog, 120, 100),
    "cat": Drawing(creatures.cat, 100, 110),
    "sheep": Drawing(creatures.sheep, 120, 95),
    "bird": Drawing(creatures.bird, 110, 70),
    "car": Drawing(vehicles.car, 160, 76),
    "suv": Drawing(vehicles.suv, 160, 96),
    "bus": Drawing(vehicles.bus, 220, 104),
    "bicycle": Drawing(vehicles.bicycle, 150, 100),
    "boat": Drawing(vehicles.boat, 160, 66),
    "sailboat": Drawing(vehicles.sailboat, 130, 150),
    "airplane": Drawing(vehicles.airplane, 230, 92),
    "hotair_balloon": Drawing(vehicles.hotair_balloon, 110, 150),
    "bench": Drawing(furniture.bench, 170, 88),
    "couch": Drawing(furniture.couch, 200, 98),
    "chair": Drawing(furniture.chair, 76, 120),
    "lamp": Drawing(furniture.lamp, 70, 170),
    "potted_plant": Drawing(furniture.potted_plant, 100, 140),
    "vase": Drawing(furniture.vase, 70, 106),
    "flower": Drawing(furniture.flower, 64, 130),
    "clock": Drawing(furniture.clock, 100, 100),
    "traffic_light": Drawing(furniture.traffic_light, 46, 190),
    "bottle": Drawing(table.bottle, 50, 150),
    "cup": Drawing(table.cup, 106, 84),
    "apple": Drawing(table.apple, 90, 100),
    "orange": Drawing(table.orange, 92, 92),
    "banana": Drawing(table.banana, 130, 92),
    "cake": Drawing(table.cake, 140, 118),
    "sneakers": Drawing(footwear.sneakers, 150, 86),
    "leather_shoes": Drawing(footwear.leather_shoes, 150, 82),
    "other_shoes": Drawing(footwear.other_shoes, 150, 76),
    "slippers": Drawing(footwear.slippers, 140, 84),
    "sandals": Drawing(footwear.sandals, 140, 98),
    "umbrella": Drawing(play.umbrella, 170, 170),
    "kite": Drawing(play.kite, 90, 130),
    "soccer": Drawing(play.soccer, 100, 100),
    "guitar": Drawing(play.guitar, 70, 180),
}


@cache
def extent(kind: str, variant: int, pose: str) -> tuple[float, float]:
    """Width and height of what is drawn, in heights of the paper."""
    image = sprite(kind, KINDS[kind].colours[0], variant, pose, False, 96)
    return image.width / 96, image.height / 96


@lru_cache(maxsize=256)
def sprite(kind: str, colour: str, variant: int, pose: str, mirrored: bool, height: int) -> Image.Image:
    """RGBA, drawn on paper `height` pixels tall, no empty border; the caller must not write into it."""
    drawing = DRAWINGS[kind]
    oversize = 4 if height < 130 else 3  # drawn this much larger, then averaged down
    scale = height * oversize / drawing.height
    # All paint is opaque, so premultiplied colours are the colours themselves: reducing converts nothing.
    paper = Image.new("RGBa", (round(drawing.width * scale), height * oversize))
    drawing.paint(Pen(paper, scale), NAMED[colour], variant, pose)
    small = paper.reduce(oversize).convert("RGBA")
    if mirrored:
        small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    edges = small.getchannel("A").point(lambda a: 255 * (a >= SOLID)).getbbox()
    assert edges is not None, f"{kind} draws nothing at {height} pixels"
    return _lit(small.crop(edges))


def _lit(image: Image.Image) -> Image.Image:
    """The light falls from the upper left: a soft dark rim at the lower right, a thin bright one opposite."""
    alpha = image.getchannel("A")
    depth = max(1, round(min(image.size) * 0.045))
    rim = ImageFilter.BoxBlur(depth * 0.7)
    moved = Image.new("L", image.size)
    moved.paste(alpha, (-depth, -depth))
    shade = ImageChops.subtract(alpha, moved).filter(rim).point(lambda v: v * 60 // 255)
    moved = Image.new("L", image.size)
    moved.paste(alpha, (depth // 2 + 1, depth // 2 + 1))
    gleam = ImageChops.subtract(alpha, moved).filter(rim).point(lambda v: v * 46 // 255)
    lit = image.convert("RGB")
    lit.paste((46, 34, 72), mask=shade)
    lit.paste((255, 250, 236), mask=gleam)
    lit.putalpha(alpha)
    return lit
