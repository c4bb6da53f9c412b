"""Finds every object of a scene its place: on its ground, at its size, in nobody's way."""

import math
import random
from dataclasses import dataclass

from PIL import Image

from sample_album.object_kinds import OBJECT_KINDS
from sample_album.places import PLACES, SHELF_HEIGHTS, HeightBand
from sample_album.scene_plan import SceneItem, ScenePlan
from sample_album.sprites import draw_sprite, measure_sprite

_EDGE = 6  # pixels kept free at the picture's rim
_HELD_BY_MIDDLE = ("bird", "kite", "hotair_balloon", "clock")  # held by their middle, not by their foot
_SHOES = ("sneakers", "leather_shoes", "other_shoes", "slippers", "sandals")
_DEPTHS, _POSITIONS = 4, 12  # tried at random per size
_CROWDED = 0.2  # share of the smaller of two boxes that may lie under the other before things get smaller
# Shares of the picture that a leading object fills; what is wide and flat needs more to look as large.
_AREA_SHARES: dict[str, float] = {
    "couch": 0.27,
    "umbrella": 0.22,
    "bus": 0.24,
    "airplane": 0.25,
    "bench": 0.19,
    "car": 0.18,
    "suv": 0.22,
    "bicycle": 0.2,
    "sheep": 0.16,
    "vase": 0.12,
    "lamp": 0.13,
    "bottle": 0.125,
    "flower": 0.125,
    "sailboat": 0.17,
    "boat": 0.16,
    "hotair_balloon": 0.17,
    "clock": 0.12,
    "potted_plant": 0.125,
}
Edges = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, slots=True)
class PlacedSprite:
    """A sprite with its upper left corner and its depth: what is drawn later has more."""

    item: SceneItem
    image: Image.Image
    x: int
    y: int
    depth: float
    casts_shadow: bool

    @property
    def edges(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom; the last two are the first pixels outside."""
        return self.x, self.y, self.x + self.image.width, self.y + self.image.height


def lay_out_scene(plan: ScenePlan, rng: random.Random) -> list[PlacedSprite]:
    """All items of the plan in the plan's order, none left out."""
    stage = _Layout(plan, rng)
    free = [number for number, item in enumerate(plan.items) if item.carrier is None]
    free.sort(key=lambda number: (not plan.items[number].is_main, -OBJECT_KINDS[plan.items[number].kind].size, number))
    for number in free:
        stage.place_freely(number)
    for number, item in enumerate(plan.items):
        if item.carrier is not None:
            stage.attach(number)
    return [stage.placed[number] for number in range(len(plan.items))]


class _Layout:
    def __init__(self, plan: ScenePlan, rng: random.Random) -> None:
        self.plan, self.rng = plan, rng
        self.place = PLACES[plan.place]
        self.placed: dict[int, PlacedSprite] = {}
        self.unit = math.sqrt(plan.width * plan.height) * 0.9
        holds = any(item.carrier == "hand" for item in plan.items)
        self.poses = [_pose(item, holds) for item in plan.items]
        self.variants = [item.variant if item.kind == "person" else item.variant % 6 for item in plan.items]

    def place_freely(self, number: int) -> None:
        """The freest of many random positions; smaller where the scene is crowded."""
        item = self.plan.items[number]
        is_main = item.is_main and all(other.kind != item.kind for other in self.plan.items[:number])
        edges, cover = self._find_freest(number, is_main, 1.0)
        for shrink in () if is_main else (0.92, 0.84, 0.76):
            if cover <= _CROWDED:
                break
            edges, cover = min((edges, cover), self._find_freest(number, is_main, shrink), key=lambda found: found[1])
        image = self._sprite(
            number, (edges[3] - edges[1]) / measure_sprite(item.kind, self.variants[number], self.poses[number])[1]
        )
        aloft = item.kind in _HELD_BY_MIDDLE
        x = round((edges[0] + edges[2] - image.width) / 2)
        y = round((edges[1] + edges[3] - image.height) / 2 if aloft else edges[3] - image.height)
        depth = -1.0 if aloft else float(y + image.height)
        self.placed[number] = PlacedSprite(item, image, x, y, depth, not aloft or self.place.name == "shop")

    def _find_freest(self, number: int, is_main: bool, shrink: float) -> tuple[Edges, float]:
        item = self.plan.items[number]
        wide, high = measure_sprite(item.kind, self.variants[number], self.poses[number])
        best: tuple[Edges, float] | None = None
        for _ in range(_DEPTHS):
            depth = self.rng.uniform(0.55, 1.0) if item.is_main else self.rng.uniform(0.0, 0.9)
            paper = shrink * (
                self._main_object_height(item, wide, high, is_main)
                if item.is_main
                else self._companion_height(item, depth)
            )
            for _ in range(_POSITIONS):
                edges = self._at(item, wide * paper, high * paper, depth)
                cover = self._worst_overlap(edges)
                if best is None or cover < best[1] - 1e-9:
                    best = edges, cover
                if cover == 0:
                    return edges, 0.0
        assert best is not None
        return best

    def _companion_height(self, item: SceneItem, depth: float) -> float:
        """Paper height of a companion: nearer is larger."""
        nearness = 0.84 + 0.28 * depth
        if self.place.name == "shop" and item.kind in _SHOES:
            nearness *= 1.35  # goods lie close to the reader
        return OBJECT_KINDS[item.kind].size * self.unit * nearness

    def _main_object_height(self, item: SceneItem, wide: float, high: float, is_main: bool) -> float:
        """Paper height of a leading object, by the share of the picture that it fills."""
        width, height = self.plan.width, self.plan.height
        area = _AREA_SHARES.get(item.kind, 0.135) * width * height * self.rng.uniform(0.98, 1.16)
        tall = math.sqrt(area * high / wide) * (1 if is_main else 0.76)
        most = 0.37 if self.place.name == "shop" else 0.8
        return min(tall, (width - 2 * _EDGE) * 0.94 * high / wide, height * most) / high

    def _at(self, item: SceneItem, width: float, height: float, depth: float) -> Edges:
        room = max(0.0, self.plan.width - width - 2 * _EDGE)
        left = _EDGE + room * self._horizontal_share(item)
        if self.place.name == "shop":
            foot = SHELF_HEIGHTS[1 if item.is_main or self.rng.random() < 0.4 else 0] * self.plan.height
            return left, foot - height, left + width, foot
        low, high = self._band(item)
        level = (low + (high - low) * depth) * self.plan.height
        top = level - height / 2 if item.kind in _HELD_BY_MIDDLE else level - height
        top = min(max(top, _EDGE), self.plan.height - height - _EDGE / 2)
        return left, top, left + width, top + height

    def _horizontal_share(self, item: SceneItem) -> float:
        """From the left (0) to the right (1); a wall clock keeps to one side, the window has the other."""
        if item.kind == "clock":
            return self.rng.uniform(0.06, 0.2) if self.rng.random() < 0.5 else self.rng.uniform(0.8, 0.94)
        return self.rng.uniform(0.16, 0.84) if item.is_main else self.rng.random()

    def _band(self, item: SceneItem) -> HeightBand:
        if self.place.name == "street" and item.kind == "person" and item.is_main:
            return 0.96, 0.985  # on the near pavement
        if item.kind == "clock" and item.is_main:
            return 0.2, 0.28
        return self.place.bands.get(item.kind, self.place.bands["*"])

    def _worst_overlap(self, edges: Edges) -> float:
        """The worst overlap with what stands already, as a share of the smaller box."""
        left, top, right, bottom = edges
        worst = 0.0
        for other in self.placed.values():
            x0, y0, x1, y1 = other.edges
            width, height = min(right, x1) - max(left, x0), min(bottom, y1) - max(top, y0)
            if width > 0 and height > 0:
                smaller = min((right - left) * (bottom - top), (x1 - x0) * (y1 - y0))
                worst = max(worst, width * height / smaller)
        return worst

    def _sprite(self, number: int, paper: float) -> Image.Image:
        item = self.plan.items[number]
        mirrored = item.mirrored and item.kind not in ("clock", "hotair_balloon")
        rounded = max(10, 2 * round(paper / 2))
        return draw_sprite(item.kind, item.colour, self.variants[number], self.poses[number], mirrored, rounded)

    def attach(self, number: int) -> None:
        """An item on, in or at another one, which stands already."""
        item = self.plan.items[number]
        carrier = "person" if item.carrier == "hand" else item.carrier
        bearer = next(placed for _, placed in sorted(self.placed.items()) if placed.item.kind == carrier)
        alike = [
            n for n, other in enumerate(self.plan.items) if other.carrier == item.carrier and other.kind == item.kind
        ]
        rank = (alike.index(number) + 0.5) / len(alike)  # 0 to 1 from the left to the right
        tall, wide = bearer.image.height, bearer.image.width
        person = item.kind == "person"
        if item.carrier == "hand":
            image = self._sprite(number, tall * 0.66)
            hand = 0.11 if bearer.item.mirrored else 0.89
            x, foot, depth = bearer.x + wide * hand, bearer.y + tall * 0.45, -0.5
        elif item.carrier == "vase":
            image = self._sprite(number, tall * (0.92 - 0.2 * abs(rank - 0.5)))
            x, foot, depth = (
                bearer.x + wide * (0.5 + 0.42 * len(alike) * (rank - 0.5)),
                bearer.y + tall * 0.3,
                -0.5,
            )
        else:
            image = self._sprite(number, tall * (1.42 if person else 0.62))
            x, foot, depth = (
                bearer.x + wide * (0.16 + 0.68 * rank),
                bearer.y + tall * (1.03 if person else 0.72),
                0.5,
            )
        left = min(max(round(x - image.width / 2), 2), self.plan.width - image.width - 2)
        top = max(round(foot - image.height), 2)
        self.placed[number] = PlacedSprite(item, image, left, top, bearer.depth + depth, False)


def _pose(item: SceneItem, holds: bool) -> str:
    if item.carrier == "couch":
        return "sit"
    if item.carrier is not None:
        return "held" if item.carrier == "hand" else "cut"
    if item.kind != "person":
        return ""
    return "hold" if holds else "wave" if item.variant % 4 == 2 else ""
