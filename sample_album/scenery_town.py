"""Backdrops of the street and the airfield."""

from sample_album.colours import CREAM, Rgb, darker, lighter, mix_colours
from sample_album.sky import Backdrop, draw_hills, draw_sky, draw_tree, draw_tufts

_FACADES: tuple[Rgb, ...] = (
    (242, 206, 170),
    (232, 174, 152),
    (206, 218, 204),
    (244, 226, 184),
    (190, 208, 222),
    (224, 190, 196),
)
_ROOFS: tuple[Rgb, ...] = ((178, 98, 84), (138, 110, 118), (112, 128, 148))


def street(b: Backdrop) -> None:
    """A row of houses down to 0.6, a pavement to 0.68, the road below."""
    w, h = b.width, b.height
    draw_sky(b, 0.6 * h)
    left, order = -0.04 * w, b.rng.sample(range(len(_FACADES)), len(_FACADES))
    for number in range(6):
        house = max(w, 520) * b.rng.uniform(0.2, 0.27)
        _house(b, left, house, h * b.rng.uniform(0.14, 0.27), b.tint(_FACADES[order[number]]))
        left += house
        if left > w:
            break
    pavement = b.tint((226, 216, 204)) if b.light.name != "snow" else (236, 240, 246)
    b.fade(0.6 * h, 0.69 * h, pavement, lighter(pavement, 0.2))
    for x in (b.rng.uniform(0.02, 0.3), b.rng.uniform(0.7, 0.98)):
        draw_tree(b, x * w, 0.64 * h, 0.32 * h)
    b.fade(0.682 * h, 0.7 * h, darker(pavement, 0.25), darker(pavement, 0.32))
    road = b.tint((134, 132, 146)) if b.light.name != "snow" else (196, 202, 214)
    b.fade(0.7 * h, h, road, darker(road, 0.14))
    for k in range(6):
        x = (k - 0.3) * w / 5
        b.polygon(
            [(x, 0.84 * h), (x + 0.1 * w, 0.84 * h), (x + 0.094 * w, 0.862 * h), (x - 0.012 * w, 0.862 * h)],
            mix_colours(road, b.tint(CREAM), 0.75),
        )
    b.fade(0.938 * h, 0.95 * h, darker(pavement, 0.25), darker(pavement, 0.3))
    b.fade(0.95 * h, h, pavement, lighter(pavement, 0.15))


def _house(b: Backdrop, left: float, width: float, top: float, tone: Rgb) -> None:
    h = b.height
    right, foot = left + width, 0.61 * h
    roof = b.tint(b.rng.choice(_ROOFS))
    if b.rng.random() < 0.55:
        b.polygon([(left - 3, top), (left + width / 2, top - 0.1 * h), (right + 3, top)], roof)
    else:
        b.box(left + width * 0.7, top - 0.06 * h, left + width * 0.82, top, darker(roof, 0.15))
        b.polygon(
            [
                (left - 2, top),
                (left + width * 0.1, top - 0.045 * h),
                (right - width * 0.1, top - 0.045 * h),
                (right + 2, top),
            ],
            roof,
        )
    b.box(left, top, right, foot, tone)
    b.box(right - width * 0.06, top, right, foot, darker(tone, 0.08))
    lit = (
        (255, 222, 130)
        if b.light.name == "night"
        else (255, 214, 150)
        if b.light.name == "evening"
        else (176, 210, 222)
    )
    rows, pane = max(1, int((foot - 0.13 * h - top) / (0.1 * h))), width * 0.17
    for row in range(rows):
        for column in range(3):
            shines = b.rng.random() < 0.7 or b.light.name == "day"
            x, y = left + width * (0.1 + 0.29 * column), top + 0.03 * h + row * 0.1 * h
            b.box(x - 2, y - 2, x + pane + 2, y + 0.064 * h + 2, lighter(tone, 0.5), 2)
            b.box(x, y, x + pane, y + 0.064 * h, lit if shines else b.tint((122, 140, 160)), 1)
            b.line([(x + pane / 2, y), (x + pane / 2, y + 0.064 * h)], lighter(tone, 0.5), 1.6)
    door = left + width * b.rng.choice((0.18, 0.44, 0.62))
    b.box(door, foot - 0.12 * h, door + width * 0.2, foot, darker(roof, 0.2), 4)
    b.dot(door + width * 0.16, foot - 0.055 * h, 2, lighter(tone, 0.6))
    b.box(door - 4, foot - 0.145 * h, door + width * 0.2 + 4, foot - 0.12 * h, lighter(roof, 0.2), 3)


def airfield(b: Backdrop) -> None:
    """Much sky, a tower and hangars at 0.58, the runway below 0.7."""
    w, h = b.width, b.height
    grass = b.grass()
    draw_sky(b, 0.58 * h)
    draw_hills(b, 0.58 * h, 0.1 * h, mix_colours(darker(grass, 0.1), b.light.sky[1], 0.5))
    side = b.rng.choice((0.14, 0.82))
    _tower(b, side * w, 0.6 * h, 0.27 * h)
    for k in range(3):
        x = (side + (0.1 if side < 0.5 else -0.28) + k * 0.13) * w
        wall = b.tint((214, 218, 224))
        b.filled_arc(x + 0.06 * w, 0.575 * h, 0.062 * w, 0.07 * h, 180, 360, b.tint((150, 168, 188)))
        b.box(x - 0.002 * w, 0.57 * h, x + 0.122 * w, 0.61 * h, wall)
        b.box(x + 0.02 * w, 0.55 * h, x + 0.1 * w, 0.61 * h, darker(wall, 0.25), 2)
    b.fade(0.595 * h, 0.71 * h, darker(grass, 0.1), grass)
    draw_tufts(b, 0.62 * h, 0.7 * h, darker(grass, 0.14), 14)
    runway = b.tint((146, 148, 160)) if b.light.name != "snow" else (204, 210, 220)
    b.fade(0.71 * h, 0.98 * h, runway, darker(runway, 0.12))
    line = mix_colours(runway, b.tint(CREAM), 0.85)
    b.box(0, 0.722 * h, w, 0.73 * h, line)
    for k in range(5):
        x = (k + 0.1) * w / 4.4
        b.polygon(
            [
                (x, 0.865 * h),
                (x + 0.12 * w, 0.865 * h),
                (x + 0.112 * w, 0.885 * h),
                (x - 0.014 * w, 0.885 * h),
            ],
            line,
        )
    b.fade(0.975 * h, h, grass, darker(grass, 0.08))


def _tower(b: Backdrop, x: float, base: float, height: float) -> None:
    wall = b.tint((240, 234, 224))
    b.polygon(
        [
            (x - height * 0.09, base),
            (x - height * 0.065, base - height * 0.7),
            (x + height * 0.065, base - height * 0.7),
            (x + height * 0.09, base),
        ],
        wall,
    )
    b.polygon(
        [
            (x, base),
            (x, base - height * 0.7),
            (x + height * 0.065, base - height * 0.7),
            (x + height * 0.09, base),
        ],
        darker(wall, 0.1),
    )
    glass = (255, 226, 150) if b.light.name in ("night", "evening") else (140, 184, 206)
    b.polygon(
        [
            (x - height * 0.12, base - height * 0.7),
            (x - height * 0.17, base - height * 0.88),
            (x + height * 0.17, base - height * 0.88),
            (x + height * 0.12, base - height * 0.7),
        ],
        glass,
    )
    b.box(
        x - height * 0.19,
        base - height * 0.93,
        x + height * 0.19,
        base - height * 0.87,
        b.tint((206, 92, 80)),
        3,
    )
    b.line([(x, base - height * 0.93), (x, base - height * 1.08)], darker(wall, 0.3), 2)
