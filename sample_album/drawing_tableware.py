"""What lies on a kitchen table: fruit, cake, cups and bottles."""

from sample_album.colours import CREAM, LEAF, NAMED_COLOURS, WOOD, Rgb, darker, lighter, mix_colours
from sample_album.pen import Pen


def bottle(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """50 x 150 units: coloured glass with a paper label."""
    pen.box(18, 3, 32, 18, darker(WOOD, 0.15) if variant % 2 else CREAM, 3)
    pen.blob(
        [
            (18, 14),
            (32, 14),
            (32, 44),
            (45, 62),
            (46, 100),
            (45, 142),
            (25, 146),
            (5, 142),
            (4, 100),
            (5, 62),
            (18, 44),
        ],
        colour,
    )
    pen.box(4.5, 84, 45.5, 122, CREAM)
    pen.dot(25, 103, 10, lighter(colour, 0.25))
    pen.polygon([(25, 96), (31, 107), (19, 107)], CREAM)
    pen.line([(12, 64), (11, 78)], lighter(colour, 0.6), 4)
    pen.line([(22, 24), (22, 42)], lighter(colour, 0.6), 3)


def cup(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """106 x 84 units: a wide cup of tea or coffee, no saucer."""
    pen.arc(80, 40, 23, 22, 270, 90, darker(colour, 0.12), 8)
    pen.blob([(6, 14), (84, 14), (84, 44), (70, 74), (45, 80), (20, 74), (6, 44)], colour)
    pen.ellipse(45, 14, 40, 9, lighter(colour, 0.4))
    pen.ellipse(45, 15, 35, 6.6, (128, 78, 50) if variant % 2 else (196, 138, 66))
    pen.curve([(16, 30), (17, 48), (25, 62)], lighter(colour, 0.5), 4.6)
    if variant % 3 == 0:
        for x in (36, 50, 64):
            pen.dot(x, 48, 4.4, lighter(colour, 0.6))
    elif variant % 3 == 1:
        pen.curve([(9, 46), (28, 54), (46, 46), (64, 54), (81, 46)], lighter(colour, 0.6), 4.4)


def apple(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """90 x 100 units, with its leaf."""
    pen.curve([(45, 30), (46, 16), (52, 5)], darker(WOOD, 0.3), 5)
    pen.blob([(50, 17), (64, 5), (80, 8), (68, 20)], LEAF)
    pen.blob(
        [
            (45, 28),
            (64, 22),
            (83, 34),
            (86, 60),
            (72, 90),
            (56, 97),
            (45, 93),
            (34, 97),
            (18, 90),
            (4, 60),
            (7, 34),
            (26, 22),
        ],
        colour,
    )
    pen.ellipse(45, 29, 11, 4, darker(colour, 0.28))
    pen.blob([(17, 44), (27, 33), (31, 40), (22, 58)], lighter(colour, 0.5))


def orange(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """92 x 92 units; odd variants are cut in half to show the flesh."""
    if variant % 2:
        pen.dot(46, 46, 43, colour)
        pen.dot(46, 46, 38, lighter(CREAM, 0.2))
        for number in range(8):
            pen.pie(
                46, 46, 35.5, 35.5, number * 45 + 4, number * 45 + 41, mix_colours(colour, NAMED_COLOURS["yellow"], 0.3)
            )
        pen.dot(46, 46, 4.4, CREAM)
        return
    pen.dot(46, 48, 42, colour)
    pen.blob([(16, 38), (26, 22), (33, 27), (22, 48)], lighter(colour, 0.45))
    for x, y in ((60, 70), (70, 56), (48, 78), (72, 40), (58, 52), (42, 62)):
        pen.dot(x, y, 1.6, darker(colour, 0.14))
    pen.dot(46, 13, 4.4, darker(LEAF, 0.25))
    pen.blob([(48, 12), (60, 2), (78, 6), (64, 16)], LEAF)


def banana(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """130 x 92 units: a hand of three."""
    stem = darker(mix_colours(colour, NAMED_COLOURS["brown"], 0.5), 0.2)
    tones = (darker(colour, 0.16), darker(colour, 0.06), lighter(colour, 0.1))
    for number, tone in enumerate(tones):
        drop = number * 9
        pen.blob(
            [
                (112, 8),
                (120, 12),
                (114, 34 + drop),
                (92, 58 + drop),
                (56, 70 + drop),
                (18, 60 + drop),
                (8, 48 + drop),
                (16, 46 + drop),
                (48, 50 + drop),
                (80, 40 + drop * 0.8),
                (102, 22 + drop * 0.5),
            ],
            tone,
        )
        pen.blob([(8, 47 + drop), (14, 47 + drop), (20, 58 + drop), (14, 57 + drop)], stem)
    pen.curve([(24, 70), (52, 76), (82, 66), (102, 48)], lighter(colour, 0.42), 3)
    pen.line([(115, 12), (119, 3)], stem, 8)


def cake(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """140 x 118 units: icing in the colour over sponge, on a plate, with candles or cherries."""
    sponge = (236, 190, 128)
    pen.ellipse(70, 104, 67, 11, (226, 226, 232))
    pen.ellipse(70, 101, 67, 10, (250, 249, 246))
    pen.blob(
        [(16, 46), (124, 46), (126, 72), (124, 98), (98, 106), (70, 107), (42, 106), (16, 98), (14, 72)],
        sponge,
    )
    pen.curve([(16, 80), (42, 87), (70, 88), (98, 87), (124, 80)], CREAM, 6)
    pen.ellipse(70, 46, 55, 15, lighter(colour, 0.22))
    for x, drop in ((20, 20), (36, 12), (52, 24), (70, 14), (88, 25), (104, 13), (119, 20)):
        pen.line([(x, 46 + (6 if 30 < x < 110 else 0)), (x, 50 + drop)], colour, 14)
    pen.ellipse(70, 44, 55, 14, lighter(colour, 0.26))
    if variant % 2:
        for x, tone in ((44, "blue"), (62, "yellow"), (80, "green"), (98, "purple")):
            pen.line([(x, 22), (x, 44)], NAMED_COLOURS[tone], 4.4)
            pen.blob([(x, 6), (x + 4.4, 15), (x, 20), (x - 4.4, 15)], (255, 190, 70))
    else:
        for x, y in ((34, 42), (58, 36), (82, 36), (106, 42), (70, 48)):
            pen.dot(x, y, 8.5, NAMED_COLOURS["red"] if colour != NAMED_COLOURS["red"] else NAMED_COLOURS["yellow"])
            pen.dot(x - 2.6, y - 3, 2.2, lighter(NAMED_COLOURS["red"], 0.65))
