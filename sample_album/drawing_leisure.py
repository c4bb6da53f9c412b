"""What one takes outdoors for fun, and a guitar."""

from sample_album.colours import CREAM, INK, NAMED_COLOURS, WOOD, Rgb, darker, lighter, mix_colours
from sample_album.pen import Pen


def umbrella(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """170 x 170 units: a parasol stuck in the sand; `held` has a hooked handle."""
    pale = (
        lighter(colour, 0.72) if colour != NAMED_COLOURS["white"] else mix_colours(NAMED_COLOURS["blue"], CREAM, 0.45)
    )
    if pose == "held":
        pen.line([(85, 40), (85, 150)], INK, 4.4)
        pen.curve([(85, 148), (87, 162), (97, 160), (98, 152)], darker(WOOD, 0.2), 6)
    else:
        pen.line([(85, 40), (85, 167)], (236, 226, 208), 5)
    pen.line([(85, 3), (85, 14)], darker(colour, 0.3), 5)
    pen.filled_arc(85, 80, 82, 70, 180, 360, colour)
    for outer, tone in ((0.62, pale), (0.24, colour)):
        pen.filled_arc(85, 80, 82 * outer, 70, 180, 360, tone)
    for number in range(6):
        x = 3 + 27.33 * (number + 0.5)
        tone = colour if number in (0, 5) else pale if number in (1, 4) else colour
        pen.filled_arc(x, 79, 13.9, 9, 0, 180, darker(tone, 0.12))


def kite(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """90 x 130 units: a diamond in two tones with a tail of bows."""
    second = lighter(colour, 0.55)
    pen.curve([(45, 84), (58, 98), (42, 110), (54, 126)], darker(colour, 0.3), 2.4)
    for x, y, tone in ((53, 96, "yellow"), (46, 109, "red"), (52, 122, "blue")):
        pen.polygon([(x - 9, y - 5), (x + 9, y + 5), (x + 9, y - 5), (x - 9, y + 5)], NAMED_COLOURS[tone])
    pen.polygon([(45, 2), (86, 34), (45, 86), (4, 34)], colour)
    pen.polygon([(45, 2), (86, 34), (45, 34)], second)
    pen.polygon([(45, 34), (45, 86), (4, 34)], darker(second, 0.05))
    pen.line([(45, 4), (45, 84)], darker(colour, 0.4), 1.8)
    pen.line([(6, 34), (84, 34)], darker(colour, 0.4), 1.8)


def soccer(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """100 x 100 units: pentagons on white."""
    pen.dot(50, 50, 48, INK)
    pen.dot(50, 50, 46, (250, 249, 245))
    pentagon = ((0, -1), (0.951, -0.309), (0.588, 0.809), (-0.588, 0.809), (-0.951, -0.309))
    for dx, dy in pentagon:
        pen.line([(50 + dx * 15, 50 + dy * 15), (50 + dx * 32, 50 + dy * 32)], INK, 2.4)
        tx, ty = -dy, dx
        near, far, wide = 31, 45.5, 13
        pen.polygon(
            [
                (50 + dx * near, 50 + dy * near),
                (50 + dx * 37 + tx * wide, 50 + dy * 37 + ty * wide),
                (50 + dx * far + tx * 9, 50 + dy * far + ty * 9),
                (50 + dx * far - tx * 9, 50 + dy * far - ty * 9),
                (50 + dx * 37 - tx * wide, 50 + dy * 37 - ty * wide),
            ],
            INK,
        )
    pen.polygon([(50 + dx * 16, 50 + dy * 16) for dx, dy in pentagon], INK)


def guitar(pen: Pen, colour: Rgb, variant: int, pose: str) -> None:
    """70 x 180 units, upright."""
    pen.blob(
        [
            (24, 92),
            (46, 92),
            (54, 104),
            (48, 122),
            (63, 140),
            (60, 166),
            (35, 177),
            (10, 166),
            (7, 140),
            (22, 122),
            (16, 104),
        ],
        darker(colour, 0.3),
    )
    pen.blob(
        [
            (26, 95),
            (44, 95),
            (50, 105),
            (45, 122),
            (59, 141),
            (56, 163),
            (35, 173),
            (14, 163),
            (11, 141),
            (25, 122),
            (20, 105),
        ],
        colour,
    )
    pen.dot(35, 124, 10, darker(WOOD, 0.6))
    pen.box(30.5, 22, 39.5, 116, darker(WOOD, 0.4), 1)
    pen.blob([(28, 24), (27, 5), (35, 3), (43, 5), (42, 24)], darker(WOOD, 0.25))
    for y in (8, 15):
        pen.dot(25, y, 2.6, CREAM)
        pen.dot(45, y, 2.6, CREAM)
    for y in (34, 46, 57, 67, 76, 84):
        pen.line([(31, y), (39, y)], (214, 190, 150), 1)
    pen.box(24, 148, 46, 153, darker(WOOD, 0.5), 1.5)
    for x in (33, 37):
        pen.line([(x, 10), (x, 150)], CREAM, 0.8)
