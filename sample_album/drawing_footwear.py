"""Five kinds of shoes, each as a pair: one behind, one in front."""

from sample_album.colours import CREAM, INK, NAMED_COLOURS, WOOD, Rgb, darker, lighter
from sample_album.pen import Pen

_OFFSETS = ((30.0, 0.0), (0.0, 16.0))  # the far shoe, the near shoe


def sneakers(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """150 x 86 units: thick white soles, laces and a stripe."""
    for dx, dy in _OFFSETS:
        tone = colour if dy else darker(colour, 0.14)
        pen.blob(
            [
                (6 + dx, 12 + dy),
                (20 + dx, 7 + dy),
                (36 + dx, 14 + dy),
                (46 + dx, 10 + dy),
                (66 + dx, 30 + dy),
                (96 + dx, 37 + dy),
                (110 + dx, 48 + dy),
                (106 + dx, 57 + dy),
                (10 + dx, 57 + dy),
                (3 + dx, 36 + dy),
            ],
            tone,
        )
        pen.blob([(84 + dx, 56 + dy), (90 + dx, 36 + dy), (105 + dx, 40 + dy), (113 + dx, 53 + dy)], CREAM)
        pen.box(2 + dx, 53 + dy, 117 + dx, 66 + dy, (250, 248, 243), 6)
        pen.line([(6 + dx, 62 + dy), (113 + dx, 62 + dy)], darker(tone, 0.05), 2.6)
        pen.curve([(18 + dx, 50 + dy), (44 + dx, 44 + dy), (62 + dx, 32 + dy)], CREAM, 5.5)
        for x, y in ((50, 17), (58, 24), (67, 30), (77, 33.5)):
            pen.line([(x - 4 + dx, y + 7 + dy), (x + 4 + dx, y - 3 + dy)], CREAM, 3.4)
        pen.ellipse(22 + dx, 12 + dy, 14, 4.6, darker(tone, 0.5))


def leather_shoes(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """150 x 80 units: polished, with a heel and a seam across the toe."""
    for dx, dy in _OFFSETS:
        tone = colour if dy else darker(colour, 0.18)
        pen.blob(
            [
                (6 + dx, 16 + dy),
                (24 + dx, 10 + dy),
                (44 + dx, 16 + dy),
                (60 + dx, 28 + dy),
                (92 + dx, 34 + dy),
                (114 + dx, 44 + dy),
                (115 + dx, 53 + dy),
                (60 + dx, 54 + dy),
                (8 + dx, 53 + dy),
                (4 + dx, 34 + dy),
            ],
            tone,
        )
        pen.box(3 + dx, 51 + dy, 117 + dx, 56 + dy, darker(tone, 0.5), 2)
        pen.box(3 + dx, 51 + dy, 34 + dx, 63 + dy, darker(tone, 0.5), 2)
        pen.curve([(84 + dx, 50 + dy), (80 + dx, 42 + dy), (86 + dx, 34 + dy)], darker(tone, 0.32), 2.4)
        pen.curve([(94 + dx, 41 + dy), (102 + dx, 43 + dy), (108 + dx, 47 + dy)], lighter(tone, 0.6), 3.4)
        for x, y in ((48, 22), (56, 28), (64, 32)):
            pen.line([(x - 3 + dx, y + 5 + dy), (x + 4 + dx, y - 2 + dy)], darker(tone, 0.55), 2.8)
        pen.ellipse(24 + dx, 15 + dy, 17, 4.6, darker(tone, 0.5))
        pen.curve([(12 + dx, 28 + dy), (14 + dx, 40 + dy), (20 + dx, 46 + dy)], lighter(tone, 0.25), 2.6)


def other_shoes(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """150 x 74 units: flat canvas slip-ons with a bow."""
    for dx, dy in _OFFSETS:
        tone = colour if dy else darker(colour, 0.15)
        pen.blob(
            [
                (6 + dx, 16 + dy),
                (16 + dx, 14 + dy),
                (40 + dx, 34 + dy),
                (70 + dx, 28 + dy),
                (100 + dx, 34 + dy),
                (115 + dx, 46 + dy),
                (110 + dx, 53 + dy),
                (10 + dx, 53 + dy),
                (3 + dx, 36 + dy),
            ],
            tone,
        )
        pen.blob(
            [
                (13 + dx, 19 + dy),
                (40 + dx, 38 + dy),
                (72 + dx, 32 + dy),
                (62 + dx, 28 + dy),
                (40 + dx, 28 + dy),
                (20 + dx, 15 + dy),
            ],
            darker(tone, 0.5),
        )
        pen.box(3 + dx, 48 + dy, 116 + dx, 56 + dy, (222, 188, 140), 4)
        pen.ellipse(73 + dx, 30 + dy, 8, 5, lighter(tone, 0.55))
        pen.ellipse(87 + dx, 32 + dy, 8, 5, lighter(tone, 0.55))
        pen.dot(80 + dx, 31 + dy, 3.6, lighter(tone, 0.2))


def slippers(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """140 x 84 units: soft house slippers, seen from above and behind."""
    for left in (6, 74):
        pen.blob(
            [
                (left + 8, 76),
                (left + 2, 44),
                (left + 8, 14),
                (left + 30, 5),
                (left + 52, 14),
                (left + 58, 44),
                (left + 52, 76),
                (left + 30, 81),
            ],
            darker(colour, 0.38),
        )
        pen.blob(
            [(left + 12, 73), (left + 8, 48), (left + 52, 48), (left + 48, 73), (left + 30, 76)],
            lighter(colour, 0.6),
        )
        pen.blob(
            [
                (left + 2, 50),
                (left + 4, 18),
                (left + 30, 3),
                (left + 56, 18),
                (left + 58, 50),
                (left + 30, 42),
            ],
            colour,
        )
        pen.curve([(left + 3, 50), (left + 30, 42), (left + 57, 50)], CREAM, 8)
        pen.dot(left + 30, 22, 8.5, CREAM)
        pen.dot(left + 30, 22, 4, lighter(colour, 0.3))


def sandals(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """140 x 96 units: a cork sole and two crossed straps with a buckle, seen from above."""
    cork = (222, 182, 134)
    for left in (6, 74):
        outline = [
            (left + 30, 4),
            (left + 52, 14),
            (left + 58, 36),
            (left + 49, 58),
            (left + 51, 80),
            (left + 30, 92),
            (left + 9, 80),
            (left + 11, 58),
            (left + 2, 36),
            (left + 8, 14),
        ]
        pen.blob([(x, y + 2.5) for x, y in outline], darker(WOOD, 0.35))
        pen.blob([(x, y - 1) for x, y in outline], cork)
        pen.ellipse(left + 30, 76, 13, 10, darker(cork, 0.1))
        pen.line([(left + 7, 22), (left + 54, 44)], colour, 11)
        pen.line([(left + 53, 22), (left + 6, 44)], lighter(colour, 0.14), 11)
        pen.line([(left + 9, 64), (left + 30, 60), (left + 51, 64)], colour, 9)
        pen.box(left + 44, 57, left + 54, 69, NAMED_COLOURS["yellow"] if colour != NAMED_COLOURS["yellow"] else INK, 2)
