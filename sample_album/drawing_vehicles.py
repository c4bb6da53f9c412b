"""What drives, sails and flies."""

from sample_album.colours import CREAM, GLASS, INK, NAMED_COLOURS, STEEL, WOOD, Rgb, darker, lighter, mix_colours
from sample_album.pen import Pen

_TYRE: Rgb = (56, 54, 66)


def _wheel(pen: Pen, x: float, y: float, radius: float) -> None:
    pen.dot(x, y, radius, _TYRE)
    pen.dot(x, y, radius * 0.56, (206, 208, 214))
    pen.dot(x, y, radius * 0.22, STEEL)


def car(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """160 x 74 units: a small round saloon, driving right."""
    dark = darker(colour, 0.2)
    pen.blob([(34, 36), (48, 12), (66, 5), (96, 5), (116, 14), (132, 36), (84, 46)], colour)
    pen.polygon([(46, 33), (57, 14), (79, 12), (79, 33)], GLASS)
    pen.polygon([(85, 33), (85, 12), (104, 15), (119, 33)], GLASS)
    pen.polygon([(60, 33), (70, 13), (76, 12.5), (66, 33)], lighter(GLASS, 0.6))
    pen.blob([(6, 42), (20, 33), (80, 31), (134, 33), (153, 42), (155, 56), (120, 62), (40, 62), (5, 56)], colour)
    pen.box(4, 50, 156, 62, dark, 5)
    pen.box(3, 53, 16, 59, CREAM, 2)
    pen.box(146, 53, 158, 59, CREAM, 2)
    pen.line([(82, 34), (82, 52)], dark, 1.6)
    pen.box(88, 39, 98, 42, lighter(colour, 0.5), 1.5)
    pen.ellipse(149, 44, 5, 5, (255, 236, 170))
    pen.ellipse(8, 44, 3.6, 4.6, darker(NAMED_COLOURS["red"], 0.1))
    for x in (38, 122):
        pen.filled_arc(x, 62, 18, 18, 180, 360, darker(colour, 0.5))
        _wheel(pen, x, 60, 13.5)


def suv(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """160 x 96 units: tall and square, a rack on the roof, a spare wheel behind."""
    dark = darker(colour, 0.2)
    pen.line([(40, 5), (108, 5)], STEEL, 3.5)
    for x in (48, 74, 100):
        pen.line([(x, 5), (x, 14)], STEEL, 3.5)
    pen.box(1, 32, 12, 60, _TYRE, 5)
    pen.polygon([(12, 46), (20, 14), (30, 10), (110, 10), (118, 14), (134, 46)], colour)
    pen.box(24, 19, 52, 43, GLASS, 4)
    pen.box(58, 19, 84, 43, GLASS, 4)
    pen.polygon([(90, 43), (90, 19), (107, 19), (122, 43)], GLASS)
    for x in (32, 64):
        pen.polygon([(x, 43), (x + 9, 19), (x + 15, 19), (x + 6, 43)], lighter(GLASS, 0.6))
    pen.box(9, 42, 156, 76, colour, 8)
    pen.box(7, 64, 158, 80, dark, 5)
    pen.line([(87, 46), (87, 66)], dark, 1.8)
    for x in (72, 96):
        pen.box(x, 50, x + 9, 53, lighter(colour, 0.5), 1.5)
    pen.box(146, 48, 157, 58, (255, 236, 170), 3)
    pen.box(9, 48, 15, 60, darker(NAMED_COLOURS["red"], 0.1), 2)
    for x in (38, 126):
        pen.filled_arc(x, 78, 22, 24, 180, 360, darker(colour, 0.5))
        _wheel(pen, x, 77, 17)


def bus(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """220 x 104 units: a city bus with a light band."""
    dark = darker(colour, 0.2)
    pen.box(3, 4, 217, 92, colour, 13)
    pen.box(3, 12, 217, 54, lighter(colour, 0.72), 9)
    for x in (12, 44, 76, 108):
        pen.box(x, 17, x + 27, 48, GLASS, 4)
        pen.polygon([(x + 5, 48), (x + 13, 17), (x + 19, 17), (x + 11, 48)], lighter(GLASS, 0.6))
    pen.box(141, 17, 169, 88, darker(colour, 0.35), 4)
    for x in (144, 156):
        pen.box(x, 20, x + 10, 85, GLASS, 3)
    pen.box(177, 17, 214, 56, GLASS, 6)
    pen.polygon([(186, 56), (196, 17), (204, 17), (194, 56)], lighter(GLASS, 0.6))
    pen.box(3, 70, 140, 76, CREAM)
    pen.box(3, 82, 217, 93, dark, 5)
    pen.box(207, 66, 217, 75, (255, 236, 170), 3)
    pen.box(3, 62, 8, 70, darker(NAMED_COLOURS["red"], 0.1), 2)
    for x in (44, 184):
        pen.filled_arc(x, 93, 19, 21, 180, 360, darker(colour, 0.5))
        _wheel(pen, x, 88, 14.5)


def bicycle(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """150 x 100 units, in profile."""
    for x in (33, 117):
        pen.arc(x, 66, 31, 31, 0, 360, _TYRE, 4.6)
        pen.arc(x, 66, 25.6, 25.6, 0, 360, (190, 194, 202), 1.6)
        for dx, dy in ((25, 0), (12.5, 21.6), (-12.5, 21.6)):
            pen.line([(x - dx, 66 - dy), (x + dx, 66 + dy)], (190, 194, 202), 1)
        pen.dot(x, 66, 4, STEEL)
    pen.line([(33, 66), (70, 66)], darker(colour, 0.2), 4.5)
    pen.line([(33, 66), (57, 32)], darker(colour, 0.2), 4.5)
    pen.line([(54, 22), (70, 66), (108, 34), (58, 34)], colour, 5.6)
    pen.line([(117, 66), (103, 16)], colour, 5.6)
    pen.curve([(92, 10), (103, 14), (112, 8), (106, 3)], INK, 4.6)
    pen.blob([(40, 19), (48, 14), (68, 18), (64, 23), (46, 24)], darker(NAMED_COLOURS["brown"], 0.3))
    pen.dot(70, 66, 8.5, STEEL)
    pen.dot(70, 66, 4, CREAM)
    pen.line([(70, 66), (76, 80)], INK, 3.4)
    pen.line([(71, 81), (82, 81)], INK, 4)
    if variant % 2:
        pen.polygon([(109, 24), (136, 24), (132, 44), (112, 44)], WOOD)
        pen.line([(108, 25), (137, 25)], lighter(WOOD, 0.3), 4)


def boat(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """160 x 66 units: a wooden rowing boat with its oars in."""
    pen.line([(30, 6), (76, 40)], lighter(WOOD, 0.25), 4)
    pen.line([(130, 6), (92, 40)], lighter(WOOD, 0.25), 4)
    for x, y in ((28, 5), (132, 5)):
        pen.ellipse(x, y, 8, 4.4, lighter(WOOD, 0.4))
    pen.blob([(4, 22), (40, 29), (80, 30), (120, 29), (156, 20), (140, 42), (80, 44), (22, 42)], darker(WOOD, 0.35))
    for x in (56, 98):
        pen.box(x - 12, 26, x + 12, 33, lighter(WOOD, 0.2), 2)
    pen.blob(
        [
            (2, 22),
            (30, 34),
            (80, 37),
            (130, 34),
            (158, 20),
            (150, 46),
            (132, 61),
            (80, 64),
            (32, 61),
            (12, 46),
        ],
        colour,
    )
    pen.curve([(3, 23), (30, 34), (80, 37), (130, 34), (157, 21)], CREAM, 4.6)
    pen.curve([(14, 46), (40, 53), (80, 54.5), (120, 53), (148, 45)], darker(colour, 0.28), 2.6)


def sailboat(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """130 x 150 units; the hull bears the colour, the sails are pale with a stripe of it."""
    pen.line([(62, 6), (62, 122)], darker(WOOD, 0.2), 4)
    pen.blob([(68, 10), (104, 58), (120, 104), (92, 106), (68, 106)], CREAM)
    pen.polygon([(68, 78), (110, 76), (116, 92), (68, 92)], mix_colours(colour, CREAM, 0.12))
    pen.blob([(57, 22), (34, 64), (14, 104), (36, 106), (57, 106)], darker(CREAM, 0.1))
    pen.polygon([(63, 3), (84, 8), (63, 13)], NAMED_COLOURS["red"])
    pen.blob([(4, 112), (40, 116), (90, 116), (127, 110), (116, 134), (98, 145), (34, 145), (14, 134)], colour)
    pen.curve([(6, 114), (40, 118), (90, 118), (125, 112)], CREAM, 4)
    for x in (44, 64, 84):
        pen.dot(x, 130, 3.4, CREAM)


def airplane(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """230 x 92 units, in profile, wheels down; tail and stripe bear the colour."""
    body = (248, 246, 242)
    for x in (96, 186):
        pen.line([(x, 64), (x, 80)], STEEL, 4)
        pen.dot(x, 83, 7, _TYRE)
    pen.polygon([(6, 2), (26, 2), (52, 36), (18, 40)], colour)
    pen.polygon([(114, 46), (90, 22), (100, 22), (138, 46)], darker(body, 0.22))
    pen.blob(
        [
            (8, 40),
            (40, 33),
            (110, 31),
            (184, 32),
            (214, 40),
            (226, 52),
            (212, 62),
            (180, 67),
            (90, 67),
            (40, 58),
        ],
        body,
    )
    pen.blob([(8, 42), (60, 50), (140, 56), (222, 54), (212, 62), (180, 67), (90, 67), (40, 58)], darker(body, 0.1))
    pen.curve([(20, 46), (80, 53), (150, 56), (222, 54)], colour, 4.6)
    for x in range(66, 186, 13):
        pen.box(x, 40, x + 6.5, 48, GLASS, 3)
    pen.polygon([(197, 41), (208, 41), (217, 48), (197, 48)], darker(GLASS, 0.25))
    pen.polygon([(14, 44), (2, 30), (14, 30), (42, 46)], darker(colour, 0.2))
    pen.polygon([(122, 56), (158, 56), (108, 84), (90, 84)], darker(body, 0.3))
    pen.box(118, 66, 148, 78, colour, 6)
    pen.ellipse(147, 72, 4, 6, darker(colour, 0.4))


def hotair_balloon(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """110 x 150 units: a striped envelope over a basket."""
    second = lighter(colour, 0.78) if variant % 2 else mix_colours(NAMED_COLOURS["yellow"], CREAM, 0.35)
    if colour == NAMED_COLOURS["yellow"]:
        second = mix_colours(NAMED_COLOURS["orange"], CREAM, 0.2)
    for x in (32, 78):
        pen.line([(x, 98), (46 if x < 55 else 64, 128)], darker(WOOD, 0.4), 1.8)
    outline = [
        (55, 3),
        (91, 16),
        (106, 46),
        (98, 78),
        (76, 106),
        (55, 110),
        (34, 106),
        (12, 78),
        (4, 46),
        (19, 16),
    ]
    pen.blob(outline, colour)
    for spread, tone in ((0.64, second), (0.3, colour)):
        pen.blob([(55 + (x - 55) * spread, y) for x, y in outline], tone)
    pen.box(35, 103, 75, 109, darker(colour, 0.25), 3)
    pen.box(43, 125, 67, 147, WOOD, 4)
    pen.box(41, 124, 69, 129, darker(WOOD, 0.35), 2)
    for y in (134, 140):
        pen.line([(45, y), (65, y)], darker(WOOD, 0.25), 1.6)
