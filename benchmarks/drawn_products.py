"""Drawings for benchmarks of near-duplicates that differ in one thing: a colour, a print, a shape, a code, a time.

All images of a series are different ones. `seed` draws other shapes and texts, so that cuts are judged on drawings that
they were not fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from drawn_pages import CITIES, Colour, font, sentence
from PIL import Image, ImageDraw, ImageFilter

PRODUCT_COLOURS: dict[str, Colour] = {
    "red": (196, 30, 45),
    "black": (28, 28, 30),
    "grey": (128, 128, 130),
    "pink": (240, 160, 185),
    "navy": (24, 36, 88),
    "sky blue": (130, 190, 235),
    "green": (35, 120, 65),
    "yellow": (240, 205, 60),
    "white": (246, 246, 244),
    "brown": (110, 70, 40),
    "purple": (110, 50, 140),
    "orange": (235, 120, 30),
}
SHAPES = ("shirt", "mug", "bag", "chair", "bottle", "shoe", "lamp", "sofa")
GROUNDS: tuple[Colour, ...] = ((255, 255, 255), (238, 238, 236), (250, 244, 232))


def darker(colour: Colour, share: float) -> Colour:
    red, green, blue = (round(value * share) for value in colour)
    return red, green, blue


def draw_product(shape: str, colour: Colour, seed: int = 0, side: int = 640) -> Image.Image:
    """A thing on a plain ground, softly lit from the left."""
    rng = np.random.default_rng([seed, SHAPES.index(shape)])
    image = Image.new("RGB", (side, side), GROUNDS[int(rng.integers(len(GROUNDS)))])
    draw, dark = ImageDraw.Draw(image), darker(colour, 0.72)
    grown = rng.uniform(0.92, 1.08)

    def box(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        x, y = (
            ((0.5 + (value - 0.5) * grown) * side for value in (left, right)),
            ((0.5 + (value - 0.5) * grown) * side for value in (top, bottom)),
        )
        (a, b), (c, d) = x, y
        return a, c, b, d

    def points(*shares: tuple[float, float]) -> list[tuple[float, float]]:
        return [box(x, y, x, y)[:2] for x, y in shares]

    width = round(side / 60)
    if shape == "shirt":
        body = ((0.31, 0.19), (0.43, 0.15), (0.5, 0.2), (0.57, 0.15), (0.69, 0.19), (0.87, 0.4), (0.76, 0.49))
        draw.polygon(
            points(*body, (0.7, 0.41), (0.7, 0.87), (0.3, 0.87), (0.3, 0.41), (0.24, 0.49), (0.13, 0.4)), colour
        )
        for fold in range(5):
            draw.line(points((0.36 + 0.06 * fold, 0.5 + 0.02 * fold), (0.34 + 0.06 * fold, 0.84)), dark, width)
    elif shape == "mug":
        draw.ellipse(box(0.58, 0.38, 0.84, 0.68), outline=colour, width=4 * width)
        draw.rounded_rectangle(box(0.24, 0.28, 0.68, 0.78), 30, colour)
        draw.ellipse(box(0.24, 0.22, 0.68, 0.34), dark)
    elif shape == "bag":
        draw.arc(box(0.36, 0.12, 0.64, 0.6), 180, 360, dark, 3 * width)
        draw.polygon(points((0.26, 0.38), (0.74, 0.38), (0.8, 0.84), (0.2, 0.84)), colour)
        draw.line(points((0.25, 0.5), (0.75, 0.5)), dark, width)
    elif shape == "chair":
        draw.rounded_rectangle(box(0.32, 0.12, 0.68, 0.5), 24, colour)
        draw.rounded_rectangle(box(0.28, 0.5, 0.72, 0.6), 12, dark)
        for x in (0.31, 0.67):
            draw.rectangle(box(x, 0.6, x + 0.03, 0.9), (90, 70, 50))
    elif shape == "bottle":
        draw.rectangle(box(0.45, 0.1, 0.55, 0.26), dark)
        draw.rounded_rectangle(box(0.36, 0.24, 0.64, 0.9), 40, colour)
        draw.rectangle(box(0.36, 0.46, 0.64, 0.66), (250, 250, 246))
        draw.text(box(0.4, 0.52, 0, 0)[:2], "AQUA", (60, 60, 60), font(round(side / 18)))
    elif shape == "shoe":
        outline = ((0.12, 0.66), (0.2, 0.44), (0.36, 0.4), (0.5, 0.52), (0.82, 0.58), (0.9, 0.68))
        draw.polygon(points(*outline, (0.9, 0.72), (0.12, 0.72)), colour)
        draw.rectangle(box(0.11, 0.72, 0.91, 0.77), (225, 225, 222))
        for lace in range(4):
            draw.line(
                points((0.36 + 0.05 * lace, 0.44 + 0.025 * lace), (0.42 + 0.05 * lace, 0.52)), (235, 235, 235), width
            )
    elif shape == "lamp":
        draw.polygon(points((0.4, 0.14), (0.6, 0.14), (0.74, 0.44), (0.26, 0.44)), colour)
        draw.rectangle(box(0.48, 0.44, 0.52, 0.84), (120, 100, 70))
        draw.ellipse(box(0.34, 0.82, 0.66, 0.9), dark)
    else:
        draw.rounded_rectangle(box(0.12, 0.34, 0.88, 0.66), 36, colour)
        draw.rounded_rectangle(box(0.08, 0.46, 0.92, 0.74), 30, dark)
        for x in (0.2, 0.51):
            draw.rounded_rectangle(box(x, 0.5, x + 0.29, 0.66), 18, colour)
    light = np.linspace(6, -6, side)[None, :, None] + rng.normal(0, 2, (side, side, 1))
    return Image.fromarray((np.asarray(image) + light).clip(0, 255).astype(np.uint8))


def products(seed: int) -> Iterator[Image.Image]:
    for shape in SHAPES[seed % 2 :: 2]:
        yield from (draw_product(shape, colour, seed) for colour in PRODUCT_COLOURS.values())


def prints(seed: int) -> Iterator[Image.Image]:
    """White shirts that have another print each: words, signs, stripes."""
    rng = np.random.default_rng([seed, 21])
    for number in range(12):
        image = draw_product("shirt", PRODUCT_COLOURS["white"], seed)
        draw, ink = ImageDraw.Draw(image), tuple(rng.integers(0, 120, 3).tolist())
        left, top = 240, 220
        if number % 3 == 0:
            for line in range(2):
                draw.text((left, top + 44 * line), sentence(rng, 1)[:8].upper(), ink, font(36))
        elif number % 3 == 1:
            count, turn = int(rng.integers(3, 9)), rng.uniform(0, 360)
            draw.regular_polygon((320, 280, 62), count, turn, ink)
        else:
            for x, y in rng.uniform(-55, 55, (6, 2)):
                draw.ellipse((320 + x - 14, 280 + y - 14, 320 + x + 14, 280 + y + 14), ink)
        yield image


def silhouettes(seed: int) -> Iterator[Image.Image]:
    """Black shapes on white: a closed curve of eight waves each."""
    rng = np.random.default_rng([seed, 22])
    angles = np.linspace(0, 2 * math.pi, 240)
    for _ in range(16):
        waves = sum(rng.normal(0, 1 / order) * np.cos(order * angles + rng.uniform(0, 6)) for order in range(2, 9))
        radius = 190 * np.exp(0.22 * waves)
        image = Image.new("RGB", (600, 600), "white")
        outline = np.stack([300 + radius * np.cos(angles), 300 + radius * np.sin(angles)], axis=1)
        ImageDraw.Draw(image).polygon([(x, y) for x, y in outline.tolist()], fill=(12, 12, 12))
        yield image


def codes(seed: int) -> Iterator[Image.Image]:
    """Square codes with three finders each, and striped ones."""
    rng = np.random.default_rng([seed, 23])
    for number in range(16):
        if number % 2:
            bars = np.repeat(rng.integers(0, 2, 95), 5) * 255
            stripes = np.tile(bars.astype(np.uint8), (260, 1))
            image = Image.new("L", (595, 360), 255)
            image.paste(Image.fromarray(stripes), (60, 50))
        else:
            modules = rng.integers(0, 2, (25, 25), dtype=np.uint8) * 255
            for y, x in ((0, 0), (0, 18), (18, 0)):
                modules[y : y + 7, x : x + 7] = 0
                modules[y + 1 : y + 6, x + 1 : x + 6] = 255
                modules[y + 2 : y + 5, x + 2 : x + 5] = 0
            image = Image.new("L", (400, 400), 255)
            image.paste(Image.fromarray(modules).resize((350, 350), Image.Resampling.NEAREST), (25, 25))
        yield image.convert("RGB")


def clocks(seed: int) -> Iterator[Image.Image]:
    """One dial that shows another time each."""
    rng = np.random.default_rng([seed, 24])
    for minutes in rng.choice(720, 16, replace=False).tolist():
        image = Image.new("RGB", (480, 480), (245, 244, 240))
        draw = ImageDraw.Draw(image)
        draw.ellipse((40, 40, 440, 440), "white", (40, 40, 40), 12)
        for hour in range(12):
            turn = hour * math.pi / 6
            draw.line([(240 + r * math.sin(turn), 240 - r * math.cos(turn)) for r in (160, 185)], (40, 40, 40), 6)
        for length, share, width in ((105, minutes / 720, 14), (150, minutes % 60 / 60, 8)):
            turn = 2 * math.pi * share
            draw.line((240, 240, 240 + length * math.sin(turn), 240 - length * math.cos(turn)), (20, 20, 20), width)
        yield image


def cards(seed: int) -> Iterator[Image.Image]:
    """Visiting cards of one company."""
    rng = np.random.default_rng([seed, 25])
    for _ in range(12):
        image = Image.new("RGB", (700, 420), (250, 250, 250))
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 0, 180, 420), (20, 70, 120))
        draw.ellipse((50, 60, 130, 140), "white")
        draw.text((220, 110), sentence(rng, 2).title(), (30, 30, 30), font(40))
        draw.text((220, 180), sentence(rng, 2), (90, 90, 90), font(26))
        draw.text((220, 280), f"+49 {rng.integers(10**8, 10**9)}", (90, 90, 90), font(26))
        yield image


def talks(seed: int) -> Iterator[Image.Image]:
    """Slides of one talk: a title and four lines."""
    rng = np.random.default_rng([seed, 26])
    for _ in range(12):
        image = Image.new("RGB", (800, 450), "white")
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 0, 800, 80), (150, 30, 50))
        draw.text((30, 18), sentence(rng, 3).capitalize(), "white", font(40))
        for line in range(4):
            draw.text((60, 120 + 70 * line), f"• {sentence(rng, 5)}", (40, 40, 40), font(28))
        yield image


def posters(seed: int) -> Iterator[Image.Image]:
    """One blurred scene with the name of another city each."""
    rng = np.random.default_rng([seed, 27])
    scene = Image.fromarray(rng.integers(30, 220, (8, 12, 3), dtype=np.uint8)).resize(
        (720, 480), Image.Resampling.BICUBIC
    )
    scene = scene.filter(ImageFilter.GaussianBlur(3))
    for city in CITIES:
        image = scene.copy()
        ImageDraw.Draw(image).text((90, 160), city, "white", font(110), stroke_width=4, stroke_fill="black")
        yield image


DRAWN: dict[str, Callable[[int], Iterator[Image.Image]]] = {
    "products in 12 colours": products,
    "white shirts, 12 prints": prints,
    "silhouettes": silhouettes,
    "codes": codes,
    "clocks": clocks,
    "cards": cards,
    "slides": talks,
    "posters": posters,
}
