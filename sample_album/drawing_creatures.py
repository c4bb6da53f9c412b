"""People and animals."""

from sample_album.colours import CREAM, INK, NAMED_COLOURS, Rgb, darker, lighter
from sample_album.pen import Pen

_SKINS: tuple[Rgb, ...] = ((247, 208, 176), (228, 178, 138), (196, 140, 102), (142, 96, 70))
_HAIRS: tuple[Rgb, ...] = ((62, 48, 50), (110, 70, 48), (196, 132, 70), (50, 50, 66), (170, 82, 56))
_TROUSERS: tuple[Rgb, ...] = ((70, 84, 120), (96, 82, 92), (206, 180, 146), (88, 110, 104))
_BLUSH: Rgb = (238, 156, 138)


def person(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """80 x 170 units, facing the reader; `sit` has the legs forward, `hold` and `wave` a raised arm."""
    skin, hair = _SKINS[variant % 4], _HAIRS[variant % 5]
    trousers = _TROUSERS[(variant // 3) % 4]
    legs_end = 132 if pose == "sit" else 164
    if pose not in ("hold", "wave") and variant % 2:
        pose = pose or "walk"
    if variant % 3 == 0:  # long hair falls behind the shoulders
        pen.blob([(22, 34), (26, 8), (54, 8), (59, 34), (60, 62), (40, 68), (20, 62)], hair)
    _legs(pen, trousers, pose, legs_end)
    _arms(pen, colour, skin, pose)
    pen.blob([(28, 62), (40, 56), (52, 62), (58, 84), (57, 112), (40, 115), (23, 112), (22, 84)], colour)
    pen.polygon([(33, 58), (47, 58), (40, 68)], skin)
    pen.box(35, 46, 45, 60, darker(skin, 0.14), 4)
    pen.ellipse(40, 33, 18, 19, skin)
    _face(pen, skin, hair, variant)


def _legs(pen: Pen, trousers: Rgb, pose: str, end: float) -> None:
    shoe = darker(trousers, 0.55)
    if pose == "sit":
        pen.line([(32, 108), (27, 118), (28, end)], trousers, 15)
        pen.line([(48, 108), (53, 118), (52, end)], darker(trousers, 0.1), 15)
        feet = ((26, end + 2), (54, end + 2))
    elif pose == "walk":
        pen.line([(46, 108), (52, 136), (58, end - 6)], darker(trousers, 0.15), 14)
        pen.line([(34, 108), (31, 136), (25, end)], trousers, 15)
        feet = ((61, end - 4), (22, end + 1))
    else:
        pen.line([(33, 108), (31, end)], trousers, 15)
        pen.line([(47, 108), (49, end)], darker(trousers, 0.1), 15)
        feet = ((29, end + 1), (51, end + 1))
    for x, y in feet:
        pen.ellipse(x, y, 10, 5, shoe)


def _arms(pen: Pen, colour: Rgb, skin: Rgb, pose: str) -> None:
    sleeve = darker(colour, 0.12)
    pen.curve([(28, 68), (17, 86), (18, 106)], sleeve, 12)
    pen.dot(18, 110, 6, skin)
    if pose == "wave":
        pen.curve([(53, 68), (68, 62), (72, 42)], sleeve, 12)
        pen.dot(73, 36, 6.5, skin)
    elif pose == "hold":
        pen.curve([(53, 68), (66, 84), (70, 68)], sleeve, 12)
        pen.dot(70, 62, 6.5, skin)
    else:
        pen.curve([(52, 68), (63, 86), (62, 106)], sleeve, 12)
        pen.dot(62, 110, 6, skin)


def _face(pen: Pen, skin: Rgb, hair: Rgb, variant: int) -> None:
    pen.filled_arc(40, 31, 19.5, 21, 180, 360, hair)
    if variant % 3 == 0:
        pen.blob([(21, 32), (22, 18), (40, 10), (30, 24), (25, 40)], hair)
        pen.blob([(59, 32), (58, 18), (40, 10), (50, 24), (55, 40)], hair)
        pen.ellipse(40, 34, 14, 12, skin)
    elif variant % 3 == 1:
        pen.blob([(22, 26), (40, 34), (58, 24), (56, 12), (40, 8), (24, 12)], hair)
    else:
        pen.dot(40, 10, 8, hair)  # a bun
        pen.blob([(21, 32), (28, 22), (52, 22), (59, 32), (56, 16), (24, 16)], hair)
    for x in (33, 47):
        pen.ellipse(x, 35, 1.9, 2.5, INK)
    for x in (29, 51):
        pen.ellipse(x, 41, 3.6, 2.4, _BLUSH if variant % 4 < 3 else darker(skin, 0.15))
    pen.arc(40, 39, 5.5, 5, 25, 155, darker(skin, 0.6), 1.8)


def dog(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """120 x 100 units; standing in profile, `sit` sits upright."""
    dark = darker(colour, 0.22)
    if pose == "sit" or variant % 3 == 0:
        _sitting_dog(pen, colour, dark)
    else:
        pen.curve([(20, 48), (8, 36), (10, 22)], colour, 9)
        for x, tone in ((34, dark), (82, dark), (25, colour), (73, colour)):
            pen.line([(x, 62), (x, 93)], tone, 11)
            pen.ellipse(x + 2, 95, 8, 4.5, lighter(colour, 0.45))
        pen.blob([(16, 50), (30, 40), (62, 43), (84, 38), (92, 56), (80, 74), (46, 73), (20, 70)], colour)
        pen.blob([(74, 66), (88, 58), (90, 70), (78, 76)], lighter(colour, 0.5))
        _dog_head(pen, colour, dark, 90, 34)


def _sitting_dog(pen: Pen, colour: Rgb, dark: Rgb) -> None:
    pen.curve([(36, 86), (20, 86), (14, 72)], colour, 9)
    pen.blob([(34, 92), (32, 66), (48, 44), (74, 38), (86, 54), (84, 92), (60, 97)], colour)
    pen.blob([(34, 92), (36, 72), (52, 72), (58, 94)], dark)
    pen.blob([(70, 50), (84, 48), (86, 72), (76, 76)], lighter(colour, 0.5))
    for x, tone in ((68, dark), (80, colour)):
        pen.line([(x, 66), (x, 92)], tone, 11)
        pen.ellipse(x + 3, 95, 8.5, 4.5, lighter(colour, 0.45))
    pen.ellipse(48, 95, 12, 4.5, lighter(colour, 0.45))
    _dog_head(pen, colour, dark, 78, 30)


def _dog_head(pen: Pen, colour: Rgb, dark: Rgb, x: float, y: float) -> None:
    pen.box(x - 12, y + 14, x + 4, y + 20, NAMED_COLOURS["red"], 3)
    pen.ellipse(x, y, 21, 19, colour)
    pen.ellipse(x + 14, y + 7, 14, 10, lighter(colour, 0.5))
    pen.ellipse(x + 25, y + 2, 4.5, 3.8, INK)
    pen.curve([(x + 10, y + 13), (x + 17, y + 14), (x + 22, y + 10)], darker(colour, 0.55), 2)
    pen.ellipse(x + 8, y - 4, 2.8, 3.4, INK)
    pen.dot(x + 9, y - 5.2, 1, CREAM)
    pen.blob([(x - 14, y - 16), (x - 2, y - 16), (x - 3, y + 4), (x - 12, y + 14), (x - 20, y + 4)], dark)


def cat(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """100 x 110 units, sitting; odd variants are striped."""
    dark = darker(colour, 0.25)
    pen.curve([(66, 96), (88, 98), (93, 78), (86, 62)], dark, 9)
    pen.blob([(26, 103), (24, 74), (36, 54), (58, 54), (70, 74), (72, 103), (48, 108)], colour)
    pen.blob([(40, 104), (37, 74), (48, 62), (58, 74), (55, 104)], lighter(colour, 0.5))
    for x in (38, 57):
        pen.ellipse(x, 103, 9, 5.5, lighter(colour, 0.55))
    for tip, side in ((18, -1), (76, 1)):
        inner = tip - side * 4
        pen.polygon([(tip, 3), (tip - side * 2, 36), (tip - side * 25, 18)], colour)
        pen.polygon([(inner, 11), (inner - side * 2, 28), (inner - side * 13, 18)], NAMED_COLOURS["pink"])
    pen.ellipse(47, 36, 31, 25, colour)
    if variant % 2:
        for x, end in ((40, 22), (47, 24), (54, 22)):
            pen.line([(x, 13), (x, end)], dark, 3)
        for x in (28, 66):
            pen.line([(x, 76), (x + (6 if x < 47 else -6), 78)], dark, 3)
            pen.line([(x, 86), (x + (6 if x < 47 else -6), 88)], dark, 3)
    pen.ellipse(47, 45, 13, 9, lighter(colour, 0.55))
    for x in (34, 60):
        pen.ellipse(x, 35, 4.2, 5.4, (112, 168, 110) if colour != NAMED_COLOURS["grey"] else NAMED_COLOURS["yellow"])
        pen.ellipse(x, 35, 2, 4.8, INK)
        pen.dot(x + 1.2, 33, 1.2, CREAM)
    pen.polygon([(43.5, 41), (50.5, 41), (47, 45)], (226, 118, 118))
    pen.arc(43.5, 45, 3.6, 4, 10, 160, INK, 1.4)
    pen.arc(50.5, 45, 3.6, 4, 20, 170, INK, 1.4)
    for side in (-1, 1):
        for rise in (-3, 2):
            pen.line([(47 + side * 16, 45 + rise * 0.6), (47 + side * 33, 45 + rise * 2)], lighter(dark, 0.5), 1.1)


def sheep(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """120 x 95 units, in profile."""
    face = (92, 78, 80) if colour == NAMED_COLOURS["white"] else (46, 42, 50)
    for x in (36, 80, 46, 70):
        pen.line([(x, 66), (x, 88)], darker(face, 0.1) if x in (36, 80) else face, 8)
    shade = darker(colour, 0.12)
    puffs = (
        (30, 50, 18),
        (42, 66, 17),
        (62, 70, 18),
        (82, 64, 17),
        (88, 46, 17),
        (74, 32, 18),
        (54, 28, 18),
        (36, 36, 17),
    )
    for x, y, r in puffs:
        pen.dot(x, y + 3, r, shade)
    for x, y, r in puffs:
        pen.dot(x, y - 1, r - 1.5, colour)
    pen.ellipse(60, 48, 32, 24, colour)
    pen.ellipse(16, 55, 7, 5, colour)
    pen.ellipse(82, 34, 9, 4.6, face)
    pen.ellipse(113, 35, 7, 4.2, face)
    pen.blob([(88, 28), (98, 22), (109, 28), (112, 44), (106, 57), (97, 57), (89, 46)], face)
    pen.dot(94, 24, 8, colour)
    pen.dot(102, 22, 7, colour)
    for x in (96, 106):
        pen.dot(x, 39, 2.7, CREAM)
        pen.dot(x + 0.4, 39.4, 1.5, INK)


def bird(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """110 x 70 units, gliding with both wings up; `perch` stands."""
    tip = darker(colour, 0.4)
    if pose == "perch":
        for x in (46, 54):
            pen.line([(x, 52), (x, 66)], NAMED_COLOURS["orange"], 3)
        pen.polygon([(8, 46), (34, 34), (34, 48)], tip)
        pen.blob([(24, 42), (44, 26), (70, 24), (76, 40), (60, 56), (36, 54)], colour)
        pen.blob([(24, 44), (40, 32), (58, 38), (42, 50)], tip)
        pen.dot(74, 20, 13, colour)
        pen.polygon([(84, 16), (98, 21), (84, 25)], NAMED_COLOURS["orange"])
        pen.dot(77, 17, 2.4, INK)
        return
    pen.blob([(58, 40), (50, 22), (60, 4), (70, 2), (72, 24), (72, 38)], darker(colour, 0.18))
    pen.polygon([(60, 4), (70, 2), (72, 14), (58, 14)], tip)
    pen.polygon([(2, 50), (26, 42), (26, 54)], tip)
    pen.blob([(16, 48), (46, 36), (78, 34), (90, 42), (72, 56), (40, 56)], colour)
    pen.dot(86, 38, 10, colour)
    pen.polygon([(93, 34), (107, 40), (93, 43)], NAMED_COLOURS["orange"])
    pen.dot(88, 36, 2.2, INK)
    pen.blob([(46, 46), (34, 30), (24, 8), (34, 6), (54, 22), (68, 44)], lighter(colour, 0.25))
    pen.polygon([(24, 8), (34, 6), (44, 15), (29, 20)], tip)
