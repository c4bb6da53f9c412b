"""What stands in rooms, parks and streets."""

from sample_album.colours import CREAM, INK, LEAF, NAMED_COLOURS, STEEL, WOOD, Rgb, darker, lighter
from sample_album.pen import Pen


def bench(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """170 x 88 units: slats on two iron frames."""
    for x in (26, 144):
        pen.line([(x, 10), (x, 52), (x - 5, 83)], INK, 6)
        pen.line([(x, 56), (x + 7, 83)], INK, 6)
        pen.curve([(x - 7, 36), (x + 3, 34), (x + 7, 48)], INK, 5)
    for y, height in ((8, 10), (22, 10)):
        pen.box(6, y, 164, y + height, colour, 4)
        pen.box(6, y + height - 3, 164, y + height, darker(colour, 0.22), 2)
    pen.box(3, 46, 167, 55, lighter(colour, 0.16), 4)
    pen.box(3, 53, 167, 61, darker(colour, 0.18), 4)


def couch(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """200 x 98 units, two seats and two cushions, seen from the front."""
    dark = darker(colour, 0.22)
    for x in (24, 176):
        pen.line([(x, 84), (x + (-3 if x < 100 else 3), 94)], darker(WOOD, 0.25), 7)
    pen.box(18, 4, 182, 74, darker(colour, 0.1), 16)
    pen.box(24, 8, 98, 62, colour, 12)
    pen.box(102, 8, 176, 62, colour, 12)
    pen.box(22, 66, 178, 88, dark, 6)
    pen.box(24, 54, 99, 74, lighter(colour, 0.14), 9)
    pen.box(101, 54, 176, 74, lighter(colour, 0.14), 9)
    for left in (3, 169):
        pen.box(left, 34, left + 28, 88, lighter(colour, 0.06), 12)
        pen.box(left + 3, 37, left + 25, 46, lighter(colour, 0.2), 6)
    cushion = NAMED_COLOURS["yellow"] if colour != NAMED_COLOURS["yellow"] else NAMED_COLOURS["blue"]
    pen.polygon([(32, 32), (56, 26), (62, 52), (38, 57)], cushion)
    pen.polygon([(142, 27), (166, 33), (160, 57), (136, 52)], lighter(cushion, 0.45))


def chair(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """76 x 120 units, seen half from the side."""
    dark = darker(colour, 0.3)
    for x, top in ((18, 64), (58, 64)):
        pen.line([(x + 3, top), (x + (-1 if x < 38 else 8), 108)], dark, 6)
    pen.line([(14, 8), (16, 66), (10, 116)], colour, 7)
    pen.line([(60, 8), (61, 66), (66, 116)], colour, 7)
    for y in (8, 24, 40):
        pen.box(12, y, 63, y + 9, lighter(colour, 0.12), 4)
    pen.blob([(8, 66), (20, 60), (58, 60), (71, 66), (70, 74), (38, 78), (9, 74)], lighter(colour, 0.08))
    pen.blob([(14, 64), (24, 59), (55, 59), (65, 64), (38, 70)], CREAM)


def lamp(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """70 x 170 units: a floor lamp; the shade bears the colour."""
    pen.ellipse(35, 162, 21, 5.5, darker(WOOD, 0.3))
    pen.line([(35, 50), (35, 160)], darker(WOOD, 0.15), 5)
    pen.ellipse(35, 55, 27, 7, (255, 240, 190))
    pen.polygon([(20, 8), (50, 8), (66, 54), (4, 54)], colour)
    pen.ellipse(35, 8, 15, 4, lighter(colour, 0.45))
    pen.ellipse(35, 54, 31, 6, lighter(colour, 0.5))
    pen.polygon([(26, 12), (33, 12), (26, 50), (13, 50)], lighter(colour, 0.28))
    pen.line([(50, 56), (50, 76)], darker(WOOD, 0.2), 1.4)
    pen.dot(50, 78, 2.4, NAMED_COLOURS["yellow"])


def potted_plant(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """100 x 140 units; the pot bears the colour."""
    if variant % 2:
        for x, y, reach in ((18, 36, 0), (82, 34, 0), (32, 14, 0), (68, 12, 0), (50, 4, 0)):
            tone = LEAF if (x // 2) % 2 else darker(LEAF, 0.18)
            mid = (50 + x) / 2 + (x - 50) * 0.2
            pen.blob([(48, 100), (mid - 8, 62 + reach), (x, y), (mid + 9, 58 + reach), (53, 100)], tone)
    else:
        for x, y, size in (
            (26, 62, 17),
            (74, 60, 17),
            (20, 36, 15),
            (80, 34, 15),
            (50, 50, 20),
            (36, 20, 16),
            (64, 18, 16),
        ):
            pen.curve([(50, 100), (50, 78), (x, y)], darker(LEAF, 0.35), 2.6)
            tone = LEAF if size > 15 else lighter(LEAF, 0.16)
            pen.ellipse(x, y, size, size * 0.86, darker(tone, 0.08) if x < 50 else tone)
            pen.curve([(x, y + size * 0.6), (x, y - size * 0.5)], lighter(tone, 0.28), 1.6)
    pen.polygon([(24, 96), (76, 96), (68, 136), (32, 136)], colour)
    pen.box(20, 90, 80, 103, lighter(colour, 0.16), 4)
    pen.box(31, 131, 69, 138, darker(colour, 0.15), 4)
    pen.curve([(29, 116), (40, 111), (50, 117), (60, 111), (71, 116)], lighter(colour, 0.5), 3)


def vase(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """70 x 106 units, with a band of glaze."""
    pen.blob(
        [(24, 8), (46, 8), (45, 24), (62, 48), (62, 78), (48, 101), (22, 101), (8, 78), (8, 48), (25, 24)],
        colour,
    )
    pen.blob([(8, 52), (35, 58), (62, 52), (63, 64), (35, 71), (7, 64)], lighter(colour, 0.6))
    pen.ellipse(35, 9, 14, 5, lighter(colour, 0.35))
    pen.ellipse(35, 9.6, 10.5, 3, darker(colour, 0.55))
    pen.blob([(17, 46), (22, 38), (23, 50), (19, 54)], lighter(colour, 0.6))
    pen.blob([(16, 70), (21, 74), (22, 88), (17, 82)], lighter(colour, 0.4))


def flower(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """64 x 130 units: tulip, daisy or poppy on a stem; `cut` has a shorter stem and no ground leaves."""
    stem = darker(LEAF, 0.08)
    pen.curve([(32, 36), (34, 80), (32, 126)], stem, 5)
    if pose != "cut":
        pen.blob([(32, 124), (10, 106), (5, 74), (20, 88), (33, 112)], LEAF)
        pen.blob([(32, 124), (50, 110), (59, 84), (45, 92), (31, 112)], lighter(LEAF, 0.14))
    shape = variant % 3
    if shape == 0:
        pen.blob([(10, 14), (22, 26), (32, 50), (14, 46), (9, 30)], darker(colour, 0.12))
        pen.blob([(54, 14), (42, 26), (32, 50), (50, 46), (55, 30)], darker(colour, 0.12))
        pen.blob([(32, 5), (46, 26), (43, 46), (32, 53), (21, 46), (18, 26)], colour)
    elif shape == 1:
        petals = ((0, -19), (16, -11), (19, 5), (8, 18), (-8, 18), (-19, 5), (-16, -11))
        for dx, dy in petals:
            pen.ellipse(32 + dx, 30 + dy, 11, 11, colour)
        pen.dot(
            32,
            30,
            11,
            NAMED_COLOURS["yellow"] if colour != NAMED_COLOURS["yellow"] else darker(NAMED_COLOURS["orange"], 0.1),
        )
        pen.dot(29, 27, 4, lighter(NAMED_COLOURS["yellow"], 0.4))
    else:
        for x, y in ((19, 24), (45, 24), (32, 16), (32, 38)):
            pen.ellipse(x, y, 17, 16, colour if x == 32 else darker(colour, 0.12))
        pen.dot(32, 28, 8, darker(colour, 0.6))
        pen.dot(32, 28, 3, NAMED_COLOURS["yellow"])


def clock(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """100 x 100 units: a round wall clock, hands by `variant`."""
    pen.dot(50, 50, 48, darker(colour, 0.14))
    pen.dot(50, 49, 46, colour)
    pen.dot(50, 50, 37, CREAM)
    marks = ((0, -1), (0.5, -0.866), (0.866, -0.5), (1, 0), (0.866, 0.5), (0.5, 0.866))
    for dx, dy in (*marks, *((-x, -y) for x, y in marks)):
        inner = 28 if 0 in (dx, dy) else 30.5
        pen.line([(50 + dx * inner, 50 + dy * inner), (50 + dx * 33, 50 + dy * 33)], STEEL, 2.6)
    hour, minute = marks[variant % 6], marks[(variant * 2 + 1) % 6]
    pen.line([(50, 50), (50 + hour[0] * 17, 50 + hour[1] * 17)], INK, 5)
    pen.line([(50, 50), (50 - minute[0] * 26, 50 - minute[1] * 26)], INK, 3.4)
    pen.dot(50, 50, 4.4, NAMED_COLOURS["red"])


def traffic_light(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """46 x 190 units, on its pole; one of the three lamps shines."""
    pen.line([(23, 80), (23, 184)], STEEL, 7)
    pen.box(10, 181, 36, 188, darker(STEEL, 0.35), 3)
    for y in (20, 46, 72):
        pen.polygon([(2, y - 6), (10, y - 2), (10, y + 7)], darker(colour, 0.25))
        pen.polygon([(44, y - 6), (36, y - 2), (36, y + 7)], darker(colour, 0.25))
    pen.box(6, 2, 40, 92, colour, 9)
    lamps = (NAMED_COLOURS["red"], NAMED_COLOURS["yellow"], (98, 190, 110))
    for number, (y, tone) in enumerate(zip((20, 46, 72), lamps, strict=True)):
        shines = number == variant % 3
        pen.dot(23, y, 11, lighter(tone, 0.1) if shines else darker(tone, 0.66))
        if shines:
            pen.dot(20, y - 3, 4, lighter(tone, 0.6))
