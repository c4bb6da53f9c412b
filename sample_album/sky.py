"""Skies, hills and trees: what lies behind every outdoor scene."""

import random
from collections.abc import Sequence

from PIL import Image, ImageDraw

from sample_album.colours import CREAM, Rgb, darker, lighter, mix_colours
from sample_album.lighting import Light
from sample_album.pen import Pen

_OVERSIZE = 2
_HALO = 3.4  # radii of the sun that its light reaches
GRASS: dict[str, Rgb] = {
    "spring": (158, 202, 116),
    "summer": (126, 186, 104),
    "autumn": (198, 180, 104),
    "winter": (164, 172, 128),
}
_CROWNS: dict[str, tuple[Rgb, ...]] = {
    "spring": ((244, 186, 196), (150, 196, 116), (250, 206, 210), (124, 180, 106)),
    "summer": ((96, 164, 98), (120, 182, 104), (80, 148, 98), (140, 194, 110)),
    "autumn": ((232, 140, 66), (242, 180, 80), (206, 98, 66), (170, 160, 84)),
    "winter": ((116, 140, 112), (134, 150, 118), (104, 130, 112), (146, 146, 118)),
}
_SNOW: Rgb = (242, 246, 250)


class Backdrop(Pen):
    """What stands behind the objects, in units of the finished picture's pixels; `wall_taken`: from the left,
    the share of the width where something hangs on the wall."""

    def __init__(
        self,
        width: int,
        height: int,
        light: Light,
        season: str,
        rng: random.Random,
        wall_taken: float | None = None,
    ) -> None:
        super().__init__(Image.new("RGB", (width * _OVERSIZE, height * _OVERSIZE)), _OVERSIZE)
        self.width, self.height = width, height
        self.light, self.season, self.rng, self.occupied_wall = light, season, rng, wall_taken

    def tint(self, colour: Rgb) -> Rgb:
        """A colour in the scene's light."""
        return self.light.tint_colour(colour)

    def grass(self) -> Rgb:
        """The meadow's colour by season, white under snow."""
        return _SNOW if self.light.name == "snow" else self.tint(GRASS[self.season])

    def fade(self, top: float, bottom: float, upper: Rgb, lower: Rgb) -> None:
        """Fill the band between two heights with a gradient."""
        rows = max(1, round((bottom - top) * _OVERSIZE))
        strip = Image.new("RGB", (1, rows))
        strip.putdata([mix_colours(upper, lower, row / rows) for row in range(rows)])
        band = strip.resize((self.image.width, rows), Image.Resampling.NEAREST)
        self.image.paste(band, (0, round(top * _OVERSIZE)))

    def render(self) -> Image.Image:
        """The picture at its final size."""
        return self.image.reduce(_OVERSIZE)


def draw_sky(b: Backdrop, horizon: float) -> None:
    """Gradient, sun or moon, stars by night, flakes in snow, clouds otherwise; `horizon` in pixels."""
    b.fade(0, horizon + 2, *b.light.sky)
    _sun(b, b.width * b.rng.uniform(0.12, 0.88), horizon)
    if b.light.name == "night":
        for _ in range(46):
            b.dot(
                b.rng.uniform(0, b.width),
                b.rng.uniform(0, horizon * 0.9),
                b.rng.choice((0.8, 1.1, 1.6)),
                (244, 240, 214),
            )
    for _ in range(b.rng.randint(2, 4)):
        _cloud(
            b,
            b.rng.uniform(0, b.width),
            b.rng.uniform(0.12, 0.72) * horizon,
            b.rng.uniform(0.6, 1.25) * b.width / 9,
        )
    if b.light.name == "snow":
        for _ in range(90):
            b.dot(
                b.rng.uniform(0, b.width),
                b.rng.uniform(0, horizon * 1.2),
                b.rng.uniform(1, 2.6),
                (255, 255, 255),
            )


def _sun(b: Backdrop, x: float, horizon: float) -> None:
    low = b.light.name == "evening"
    y = horizon * (0.72 if low else b.rng.uniform(0.2, 0.34))
    radius = min(b.width, b.height) * (0.085 if low else 0.055)
    side = round(radius * _HALO * 2 * _OVERSIZE)
    glow = Image.new("L", (side, side))
    draw = ImageDraw.Draw(glow)
    for reach, strength in ((_HALO, 26), (2.5, 48), (1.7, 84), (1, 255)):
        r = radius * reach * _OVERSIZE
        draw.ellipse((side / 2 - r, side / 2 - r, side / 2 + r, side / 2 + r), fill=strength)
    if b.light.name == "night":  # a crescent: what is bitten off shines like the halo around
        r, cx, cy = radius * 0.86 * _OVERSIZE, side / 2 + radius * 0.9, side / 2 - radius * 0.4
        draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill=84)
    b.image.paste(b.light.sun, (round(x * _OVERSIZE - side / 2), round(y * _OVERSIZE - side / 2)), glow)


def _cloud(b: Backdrop, x: float, y: float, size: float) -> None:
    # A cloud takes on some of the sky behind it: far ones fade.
    tone = mix_colours(b.light.cloud, b.light.sky[1], 0.15)
    b.box(x - size, y - size * 0.13, x + size, y + size * 0.16, tone, size * 0.14)
    for dx, r in ((-0.45, 0.26), (0.02, 0.38), (0.46, 0.24)):
        b.filled_arc(x + dx * size, y + size * 0.1, r * size, r * size, 180, 360, tone)


def draw_hills(b: Backdrop, base: float, rise: float, colour: Rgb) -> None:
    """A ridge of soft hills reaching `rise` pixels above `base`, filled down to the picture's foot."""
    steps = b.rng.randint(4, 6)
    tops = [
        (
            b.width * (k - 0.5) / (steps - 1),
            base - rise * (b.rng.uniform(0.45, 1) if k % 2 else b.rng.uniform(0, 0.4)),
        )
        for k in range(steps + 1)
    ]
    b.blob([(-b.width * 0.3, b.height * 1.2), *tops, (b.width * 1.3, b.height * 1.2)], colour)


def draw_mountains(b: Backdrop, base: float, rise: float, colour: Rgb) -> None:
    """Three or four peaks with pale caps standing on `base`."""
    count = b.rng.randint(3, 4)
    for k in range(count):
        x = b.width * (k + b.rng.uniform(0.2, 0.8)) / count
        top, half = rise * b.rng.uniform(0.62, 1), b.width * b.rng.uniform(0.2, 0.3)
        tone = mix_colours(colour, b.light.sky[1], 0.12 * (k % 3))
        b.polygon([(x - half, base), (x, base - top), (x + half, base)], tone)
        b.polygon([(x, base - top), (x + half, base), (x + half * 0.25, base)], darker(tone, 0.1))
        cap = 0.3
        b.polygon(
            [
                (x, base - top),
                (x + half * cap, base - top * (1 - cap)),
                (x + half * 0.1, base - top * 0.78),
                (x - half * 0.06, base - top * 0.66),
                (x - half * 0.14, base - top * 0.77),
                (x - half * cap, base - top * (1 - cap)),
            ],
            mix_colours(b.tint(CREAM), b.light.sky[1], 0.2),
        )


def draw_tree(b: Backdrop, x: float, base: float, height: float) -> None:
    """A round tree in the season's colour; a snowy fir where it snows."""
    if b.light.name == "snow":
        draw_fir(b, x, base, height)
        return
    tone = b.tint(b.rng.choice(_CROWNS[b.season]))
    b.line([(x, base), (x, base - height * 0.5)], b.tint((122, 88, 72)), height * 0.07)
    crowns = ((-0.17, 0.5, 0.2), (0.18, 0.52, 0.19), (0, 0.72, 0.25))
    for dx, up, r in crowns:
        b.dot(
            x + dx * height + height * 0.02,
            base - up * height + height * 0.03,
            r * height,
            darker(tone, 0.14),
        )
    for dx, up, r in crowns:
        b.dot(x + dx * height, base - up * height, r * height * 0.93, tone)
    b.dot(x - 0.07 * height, base - 0.78 * height, 0.1 * height, lighter(tone, 0.2))


def draw_fir(b: Backdrop, x: float, base: float, height: float) -> None:
    """A fir of three tiers, white on its tops under snow."""
    tone = b.tint((78, 126, 108)) if b.rng.random() < 0.5 else b.tint((92, 140, 112))
    b.line([(x, base), (x, base - height * 0.3)], b.tint((112, 82, 70)), height * 0.06)
    for low, high, half in ((0.14, 0.55, 0.26), (0.36, 0.78, 0.2), (0.58, 1.0, 0.14)):
        b.polygon(
            [
                (x - half * height, base - low * height),
                (x, base - high * height),
                (x + half * height, base - low * height),
            ],
            tone,
        )
        if b.light.name == "snow":
            mid = low + (high - low) * 0.55
            share = half * 0.45
            b.polygon(
                [
                    (x - share * height, base - mid * height),
                    (x, base - high * height),
                    (x + share * height, base - mid * height),
                ],
                _SNOW,
            )


def draw_tufts(b: Backdrop, top: float, bottom: float, colour: Rgb, count: int) -> None:
    """Little strokes of grass, larger toward the foot of the picture."""
    for _ in range(count):
        y = b.rng.uniform(top, bottom)
        size = 3 + 7 * (y - top) / max(1.0, bottom - top)
        x = b.rng.uniform(0, b.width)
        for lean in (-0.5, 0, 0.5):
            b.line([(x, y), (x + lean * size, y - size)], colour, max(1.2, size * 0.2))


def draw_path(b: Backdrop, points: Sequence[tuple[float, float, float]], colour: Rgb) -> None:
    """A way that runs through (x, y, half width) stations."""
    left = [(x - half, y) for x, y, half in points]
    right = [(x + half, y) for x, y, half in reversed(points)]
    b.blob(left + right, colour)
