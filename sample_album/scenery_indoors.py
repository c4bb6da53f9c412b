"""Backdrops of the living room, the kitchen table and the shop."""

from sample_album.colours import CREAM, Rgb, darker, lighter, mix_colours
from sample_album.lighting import LIGHTS
from sample_album.sky import Backdrop

_WALLS: tuple[Rgb, ...] = (
    (238, 214, 190),
    (200, 216, 206),
    (222, 204, 206),
    (196, 210, 224),
    (240, 226, 190),
)


def _window(b: Backdrop, left: float, top: float, width: float, height: float, curtain: Rgb) -> None:
    """A window that shows the hour outside."""
    outside = LIGHTS["day"].sky if b.light.name == "day" else b.light.sky
    frame = b.tint((250, 246, 238))
    b.box(left - 6, top - 6, left + width + 6, top + height + 6, frame, 4)
    for row in range(24):
        y = top + height * row / 24
        b.box(left, y, left + width, y + height / 24 + 0.5, mix_colours(*outside, row / 24))
    green = b.tint((130, 176, 120))
    b.filled_arc(
        left + width * 0.3, top + height, width * 0.3, height * 0.26, 180, 360, mix_colours(green, outside[1], 0.35)
    )
    b.filled_arc(
        left + width * 0.75, top + height, width * 0.25, height * 0.36, 180, 360, mix_colours(green, outside[1], 0.15)
    )
    if b.light.name == "night":
        b.dot(left + width * 0.72, top + height * 0.25, width * 0.07, (250, 244, 214))
    b.box(left + width / 2 - 2, top, left + width / 2 + 2, top + height, frame)
    b.box(left, top + height * 0.48, left + width, top + height * 0.48 + 4, frame)
    b.box(left - 12, top + height + 4, left + width + 12, top + height + 13, darker(frame, 0.08), 3)
    for x, side in ((left - 8, 1), (left + width + 8, -1)):
        b.blob(
            [
                (x - side * 8, top - 14),
                (x + side * width * 0.2, top - 12),
                (x + side * width * 0.14, top + height * 0.5),
                (x + side * width * 0.04, top + height * 0.8),
                (x + side * width * 0.1, top + height + 18),
                (x - side * 10, top + height + 18),
            ],
            curtain,
        )
    b.line([(left - 30, top - 14), (left + width + 30, top - 14)], b.tint((150, 110, 84)), 5)


def living_room(b: Backdrop) -> None:
    """A wall with a window down to 0.66, a wooden floor and a rug below."""
    w, h = b.width, b.height
    wall = b.tint(b.rng.choice(_WALLS))
    b.fade(0, 0.67 * h, lighter(wall, 0.25), wall)
    for k in range(13):
        b.box(w * k / 12.5, 0, w * k / 12.5 + w * 0.036, 0.67 * h, mix_colours(wall, lighter(wall, 0.3), 0.45))
    side = b.rng.choice((0.09, 0.57))
    if b.occupied_wall is not None:
        side = 0.57 if b.occupied_wall < 0.5 else 0.09
    _window(
        b,
        side * w,
        0.1 * h,
        0.33 * w,
        0.36 * h,
        b.tint(b.rng.choice(((226, 150, 128), (132, 168, 160), (236, 196, 120)))),
    )
    b.box(0, 0.635 * h, w, 0.672 * h, b.tint((250, 246, 238)))
    floor = b.tint((206, 158, 114))
    b.fade(0.67 * h, h, floor, darker(floor, 0.1))
    for k in range(-6, 19):
        x = w / 2 + (k - 6.2) * w * 0.09
        b.line([(x, 0.67 * h), (w / 2 + (x - w / 2) * 1.9, h)], darker(floor, 0.13), 1.6)
    for y in (0.73, 0.81, 0.91):
        b.line([(0, y * h), (w, y * h)], darker(floor, 0.08), 1.2)
    rug = b.tint(b.rng.choice(((214, 128, 112), (116, 150, 160), (226, 184, 110), (160, 146, 178))))
    for rx, ry, tone in (
        (0.43, 0.125, rug),
        (0.38, 0.105, lighter(rug, 0.55)),
        (0.35, 0.095, lighter(rug, 0.15)),
    ):
        b.ellipse(w / 2, 0.875 * h, rx * w, ry * h, tone)


def kitchen_table(b: Backdrop) -> None:
    """Tiles and a window behind, the table's top from 0.56 down, with a runner of cloth."""
    w, h = b.width, b.height
    wall = b.tint(b.rng.choice(((206, 222, 214), (240, 222, 198), (206, 216, 230), (236, 208, 200))))
    b.fade(0, 0.57 * h, lighter(wall, 0.35), wall)
    tile = w / 14
    for row in range(int(0.58 * h / (tile / 2)) + 1):
        for column in range(16):
            x = (column - (row % 2) * 0.5) * tile
            if b.rng.random() < 0.16:
                b.box(x + 1, row * tile / 2 + 1, x + tile - 1, (row + 1) * tile / 2 - 1, lighter(wall, 0.5), 2)
            b.line([(x, row * tile / 2), (x, (row + 1) * tile / 2)], lighter(wall, 0.55), 1.2)
        b.line([(0, row * tile / 2), (w, row * tile / 2)], lighter(wall, 0.55), 1.2)
    _window(
        b,
        b.rng.choice((0.1, 0.52)) * w,
        0.07 * h,
        0.36 * w,
        0.34 * h,
        b.tint(b.rng.choice(((232, 160, 140), (246, 214, 140), (150, 180, 170)))),
    )
    table = b.tint(b.rng.choice(((214, 162, 112), (190, 136, 98), (228, 190, 146))))
    b.fade(0.56 * h, h, lighter(table, 0.1), table)
    b.box(0, 0.56 * h, w, 0.572 * h, lighter(table, 0.4))
    for y in (0.63, 0.71, 0.81, 0.92):
        b.curve([(0, y * h), (0.3 * w, y * h + 3), (0.7 * w, y * h - 3), (w, y * h)], darker(table, 0.09), 1.8)
    cloth = b.tint(b.rng.choice(((250, 240, 226), (222, 232, 236), (248, 224, 214))))
    b.polygon([(0.14 * w, 0.63 * h), (0.86 * w, 0.63 * h), (1.04 * w, 1.02 * h), (-0.04 * w, 1.02 * h)], cloth)
    stripe = b.tint(b.rng.choice(((220, 110, 98), (98, 146, 180), (124, 166, 116), (230, 170, 84))))
    for near, wide in ((0.03, 0.012), (0.06, 0.006)):
        for left, right in ((0.14, -0.04), (0.86, 1.04)):
            sign = 1 if left < 0.5 else -1
            b.polygon(
                [
                    ((left + sign * near) * w, 0.63 * h),
                    ((left + sign * (near + wide)) * w, 0.63 * h),
                    ((right + sign * (near + wide) * 1.5) * w, 1.02 * h),
                    ((right + sign * near * 1.5) * w, 1.02 * h),
                ],
                stripe,
            )


def shop(b: Backdrop) -> None:
    """Two shelves with their boards at 0.5 and 0.9, under a striped awning."""
    w, h = b.width, b.height
    wall = b.tint(b.rng.choice(((226, 206, 190), (196, 212, 208), (214, 202, 220), (240, 220, 186))))
    b.fade(0, h, lighter(wall, 0.3), darker(wall, 0.06))
    for k in range(1, 6):
        b.line([(w * k / 6, 0), (w * k / 6, h)], darker(wall, 0.05), 2)
    board = b.tint((190, 142, 100))
    for y in (0.5, 0.9):
        b.fade(y * h + 0.034 * h, y * h + 0.075 * h, darker(wall, 0.2), mix_colours(darker(wall, 0.08), wall, 0.5))
        b.box(0, (y - 0.035) * h, w, y * h + 0.022 * h, lighter(board, 0.3))
        b.box(0, y * h + 0.02 * h, w, y * h + 0.045 * h, darker(board, 0.12))
    stripe = b.tint(b.rng.choice(((216, 104, 92), (92, 142, 150), (232, 164, 86), (146, 120, 170))))
    count = 12
    for k in range(count):
        tone = stripe if k % 2 else b.tint(CREAM)
        left, right = w * k / count, w * (k + 1) / count
        b.box(left, 0, right, 0.075 * h, tone)
        b.filled_arc((left + right) / 2, 0.0745 * h, (right - left) / 2, 0.03 * h, 0, 180, darker(tone, 0.08))
