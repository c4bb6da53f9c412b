"""Turns a drawing into a sprite: one object with soft edges and a little light, cut to its extent."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from PIL import Image, ImageChops, ImageFilter

from sample_album import drawing_creatures as creatures
from sample_album import drawing_footwear as footwear
from sample_album import drawing_furniture as furniture
from sample_album import drawing_leisure as play
from sample_album import drawing_tableware as table
from sample_album import drawing_vehicles as vehicles
from sample_album.colours import NAMED_COLOURS, Rgb
from sample_album.object_kinds import OBJECT_KINDS
from sample_album.pen import Pen

OPAQUE_FROM = 128  # a pixel belongs to an object from half coverage on

DrawFunction = Callable[[Pen, Rgb, int, str], None]


@dataclass(frozen=True, slots=True)
class ObjectDrawing:
    """How one kind is painted, and the units its paper measures."""

    paint: DrawFunction
    width: int
    height: int


DRAWINGS: dict[str, ObjectDrawing] = {
    "person": ObjectDrawing(creatures.person, 80, 170),
    "dog": ObjectDrawing(creatures.dog, 120, 100),
    "cat": ObjectDrawing(creatures.cat, 100, 110),
    "sheep": ObjectDrawing(creatures.sheep, 120, 95),
    "bird": ObjectDrawing(creatures.bird, 110, 70),
    "car": ObjectDrawing(vehicles.car, 160, 76),
    "suv": ObjectDrawing(vehicles.suv, 160, 96),
    "bus": ObjectDrawing(vehicles.bus, 220, 104),
    "bicycle": ObjectDrawing(vehicles.bicycle, 150, 100),
    "boat": ObjectDrawing(vehicles.boat, 160, 66),
    "sailboat": ObjectDrawing(vehicles.sailboat, 130, 150),
    "airplane": ObjectDrawing(vehicles.airplane, 230, 92),
    "hotair_balloon": ObjectDrawing(vehicles.hotair_balloon, 110, 150),
    "bench": ObjectDrawing(furniture.bench, 170, 88),
    "couch": ObjectDrawing(furniture.couch, 200, 98),
    "chair": ObjectDrawing(furniture.chair, 76, 120),
    "lamp": ObjectDrawing(furniture.lamp, 70, 170),
    "potted_plant": ObjectDrawing(furniture.potted_plant, 100, 140),
    "vase": ObjectDrawing(furniture.vase, 70, 106),
    "flower": ObjectDrawing(furniture.flower, 64, 130),
    "clock": ObjectDrawing(furniture.clock, 100, 100),
    "traffic_light": ObjectDrawing(furniture.traffic_light, 46, 190),
    "bottle": ObjectDrawing(table.bottle, 50, 150),
    "cup": ObjectDrawing(table.cup, 106, 84),
    "apple": ObjectDrawing(table.apple, 90, 100),
    "orange": ObjectDrawing(table.orange, 92, 92),
    "banana": ObjectDrawing(table.banana, 130, 92),
    "cake": ObjectDrawing(table.cake, 140, 118),
    "sneakers": ObjectDrawing(footwear.sneakers, 150, 86),
    "leather_shoes": ObjectDrawing(footwear.leather_shoes, 150, 82),
    "other_shoes": ObjectDrawing(footwear.other_shoes, 150, 76),
    "slippers": ObjectDrawing(footwear.slippers, 140, 84),
    "sandals": ObjectDrawing(footwear.sandals, 140, 98),
    "umbrella": ObjectDrawing(play.umbrella, 170, 170),
    "kite": ObjectDrawing(play.kite, 90, 130),
    "soccer": ObjectDrawing(play.soccer, 100, 100),
    "guitar": ObjectDrawing(play.guitar, 70, 180),
}


@cache
def measure_sprite(kind: str, variant: int, pose: str) -> tuple[float, float]:
    """Width and height of what is drawn, in heights of the paper."""
    image = draw_sprite(kind, OBJECT_KINDS[kind].colours[0], variant, pose, False, 96)
    return image.width / 96, image.height / 96


@lru_cache(maxsize=256)
def draw_sprite(kind: str, colour: str, variant: int, pose: str, mirrored: bool, height: int) -> Image.Image:
    """RGBA, drawn on paper `height` pixels tall, no empty border; the caller must not write into it."""
    drawing = DRAWINGS[kind]
    oversize = 4 if height < 130 else 3  # drawn this much larger, then averaged down
    scale = height * oversize / drawing.height
    # All paint is opaque, so premultiplied colours are the colours themselves: reducing converts nothing.
    paper = Image.new("RGBa", (round(drawing.width * scale), height * oversize))
    drawing.paint(Pen(paper, scale), NAMED_COLOURS[colour], variant, pose)
    small = paper.reduce(oversize).convert("RGBA")
    if mirrored:
        small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    edges = small.getchannel("A").point(lambda a: 255 * (a >= OPAQUE_FROM)).getbbox()
    assert edges is not None, f"{kind} draws nothing at {height} pixels"
    return _add_highlights(small.crop(edges))


def _add_highlights(image: Image.Image) -> Image.Image:
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
