"""Backdrops of the beach, the park, the lake and the meadow."""

from sample_album.colours import CREAM, Rgb, darker, lighter, mix_colours
from sample_album.sky import Backdrop, draw_hills, draw_mountains, draw_path, draw_sky, draw_tree, draw_tufts


def _water(b: Backdrop, top: float, bottom: float) -> None:
    far, near = b.tint((88, 164, 196)), b.tint((130, 204, 206))
    if b.light.name in ("evening", "night"):
        far, near = mix_colours(far, b.light.sky[1], 0.45), mix_colours(near, b.light.sky[0], 0.3)
    b.fade(top, bottom, far, near)
    for _ in range(26):
        y = b.rng.uniform(top + 4, bottom)
        length = b.width * 0.02 + b.width * 0.09 * (y - top) / (bottom - top) * b.rng.uniform(0.5, 1)
        x = b.rng.uniform(0, b.width)
        b.line([(x, y), (x + length, y)], mix_colours(lighter(near, 0.4), near, b.rng.uniform(0.1, 0.6)), 1.8)


def beach(b: Backdrop) -> None:
    """Sea to 0.58 of the height, sand below; palms at one side."""
    w, h = b.width, b.height
    draw_sky(b, 0.40 * h)
    if b.rng.random() < 0.5:
        b.filled_arc(
            w * b.rng.choice((0.16, 0.84)),
            0.402 * h,
            w * 0.17,
            h * 0.07,
            180,
            360,
            mix_colours(b.tint((104, 150, 140)), b.light.sky[1], 0.35),
        )
    _water(b, 0.40 * h, 0.66 * h)
    sand = b.tint((246, 220, 170))
    shore = [(x * w, h * (0.57 + b.rng.uniform(-0.016, 0.016))) for x in (0, 0.2, 0.4, 0.6, 0.8, 1)]

    def strip(drop: float) -> list[tuple[float, float]]:
        return [
            (-w, h * 1.3),
            (-0.1 * w, h * 0.58 + drop),
            *((x, y + drop) for x, y in shore),
            (1.1 * w, h * 0.58 + drop),
            (w * 2, h * 1.3),
        ]

    b.blob(strip(-0.012 * h), mix_colours(b.tint(CREAM), b.light.sky[1], 0.12))
    b.blob(strip(0), mix_colours(sand, darker(sand, 0.16), 0.8))
    b.blob(strip(0.024 * h), sand)
    for _ in range(5):
        x, y = b.rng.uniform(0, w), b.rng.uniform(0.68, 0.97) * h
        reach = w * b.rng.uniform(0.1, 0.2)
        b.curve(
            [(x - reach, y), (x - reach / 3, y - 4), (x + reach / 3, y + 2), (x + reach, y - 2)],
            darker(sand, 0.055),
            3,
        )
    for _ in range(26):
        b.dot(b.rng.uniform(0, w), b.rng.uniform(0.64, 1) * h, b.rng.uniform(0.8, 1.8), darker(sand, 0.13))
    if b.rng.random() < 0.7:
        _palm(b, b.rng.choice((0.03, 0.97)) * w, 0.70 * h, 0.5 * h)


def _palm(b: Backdrop, x: float, base: float, height: float) -> None:
    lean = 0.16 * height if x < b.width / 2 else -0.16 * height
    top = (x + lean, base - height)
    trunk, leaf = b.tint((168, 122, 86)), b.tint((86, 152, 98))
    b.curve([(x, base), (x + lean * 0.2, base - height * 0.5), top], trunk, height * 0.05)
    for dx, dy in ((-0.42, 0.06), (0.42, 0.06), (-0.34, -0.14), (0.34, -0.14), (-0.26, 0.24), (0.26, 0.24)):
        tip = (top[0] + dx * height, top[1] + dy * height)
        bend = (top[0] + dx * height * 0.55, top[1] + dy * height * 0.4 - 0.1 * height)
        b.blob(
            [top, (bend[0], bend[1] - 0.035 * height), tip, (bend[0], bend[1] + 0.05 * height)],
            leaf if dy < 0.1 else darker(leaf, 0.16),
        )


def park(b: Backdrop) -> None:
    """Trees on the horizon at 0.5, a lawn with a path before it."""
    w, h = b.width, b.height
    grass = b.grass()
    draw_sky(b, 0.52 * h)
    draw_hills(b, 0.50 * h, 0.13 * h, mix_colours(darker(grass, 0.12), b.light.sky[1], 0.45))
    for k in range(9):
        draw_tree(b, w * (k + b.rng.uniform(0.1, 0.9)) / 9, 0.53 * h, h * b.rng.uniform(0.16, 0.3))
    b.blob(
        [
            (-w, h * 1.4),
            (-0.1 * w, 0.53 * h),
            (0.3 * w, 0.51 * h),
            (0.7 * w, 0.525 * h),
            (1.1 * w, 0.515 * h),
            (2 * w, h * 1.4),
        ],
        darker(grass, 0.07),
    )
    b.blob(
        [
            (-w, h * 1.5),
            (-0.1 * w, 0.68 * h),
            (0.35 * w, 0.62 * h),
            (0.7 * w, 0.66 * h),
            (1.1 * w, 0.60 * h),
            (2 * w, h * 1.5),
        ],
        grass,
    )
    side = b.rng.choice((-1, 1))
    stone = b.tint((238, 222, 190)) if b.light.name != "snow" else (224, 230, 238)
    draw_path(
        b,
        [
            (w * (0.5 + side * 0.3), 0.535 * h, 0.012 * w),
            (w * (0.5 + side * 0.12), 0.62 * h, 0.04 * w),
            (w * (0.5 - side * 0.02), 0.78 * h, 0.1 * w),
            (w * (0.5 + side * 0.2), 1.1 * h, 0.24 * w),
        ],
        stone,
    )
    draw_tufts(b, 0.66 * h, h, darker(grass, 0.13), 16)
    for x in (b.rng.uniform(0, 0.12), b.rng.uniform(0.88, 1)):
        _bush(b, x * w, 0.60 * h, 0.085 * h)


def _bush(b: Backdrop, x: float, base: float, size: float) -> None:
    tone = lighter(b.grass(), 0.2) if b.light.name == "snow" else b.tint((108, 162, 102))
    for dx, r in ((-0.9, 0.7), (0.9, 0.72), (0, 1.0)):
        b.filled_arc(x + dx * size, base, r * size * 1.1, r * size * 1.1, 180, 360, darker(tone, 0.08 if dx else 0))


def lake(b: Backdrop) -> None:
    """Mountains, firs on the far shore at 0.44, water to 0.84, a grassy bank at the foot."""
    w, h = b.width, b.height
    grass = b.grass()
    draw_sky(b, 0.44 * h)
    draw_mountains(b, 0.44 * h, 0.3 * h, mix_colours(b.tint((124, 142, 176)), b.light.sky[1], 0.25))
    draw_hills(b, 0.44 * h, 0.07 * h, mix_colours(darker(grass, 0.16), b.light.sky[1], 0.2))
    for k in range(16):
        draw_tree(b, w * (k + b.rng.random()) / 16, 0.45 * h, h * b.rng.uniform(0.06, 0.12))
    _water(b, 0.45 * h, 0.9 * h)
    b.fade(0.445 * h, 0.462 * h, darker(grass, 0.25), darker(grass, 0.3))
    bank = darker(grass, 0.06)
    b.blob(
        [
            (-w, 1.5 * h),
            (-0.1 * w, 0.82 * h),
            (0.25 * w, 0.86 * h),
            (0.6 * w, 0.835 * h),
            (1.1 * w, 0.80 * h),
            (2 * w, 1.5 * h),
        ],
        b.tint((222, 204, 164)),
    )
    b.blob(
        [
            (-w, 1.5 * h),
            (-0.1 * w, 0.84 * h),
            (0.25 * w, 0.88 * h),
            (0.6 * w, 0.855 * h),
            (1.1 * w, 0.82 * h),
            (2 * w, 1.5 * h),
        ],
        bank,
    )
    draw_tufts(b, 0.9 * h, h, darker(bank, 0.16), 22)
    for side in (0.02, 0.98):
        _reeds(b, side * w, 0.93 * h, 0.2 * h)


def _reeds(b: Backdrop, x: float, base: float, height: float) -> None:
    tone = b.tint((122, 150, 92))
    for k in range(6):
        dx = (k - 2.5) * height * 0.09
        tip = (x + dx * 1.6, base - height * b.rng.uniform(0.6, 1))
        b.line([(x + dx, base), tip], tone, 2.4)
        if k % 2:
            b.line([tip, (tip[0], tip[1] + height * 0.2)], b.tint((140, 92, 66)), 6)


def meadow(b: Backdrop) -> None:
    """Rolling green with the horizon at 0.5, mountains far behind."""
    w, h = b.width, b.height
    grass = b.grass()
    draw_sky(b, 0.54 * h)
    draw_mountains(b, 0.5 * h, 0.2 * h, mix_colours(b.tint((132, 152, 180)), b.light.sky[1], 0.4))
    for base, rise, share in ((0.54, 0.14, 0.5), (0.6, 0.12, 0.28)):
        draw_hills(b, base * h, rise * h, mix_colours(darker(grass, 0.1), b.light.sky[1], share))
    for _ in range(5):
        draw_tree(b, b.rng.uniform(0, w), b.rng.uniform(0.545, 0.575) * h, h * b.rng.uniform(0.07, 0.12))
    draw_hills(b, 0.66 * h, 0.1 * h, darker(grass, 0.05))
    b.blob(
        [
            (-w, 1.5 * h),
            (-0.1 * w, 0.74 * h),
            (0.3 * w, 0.69 * h),
            (0.75 * w, 0.75 * h),
            (1.1 * w, 0.7 * h),
            (2 * w, 1.5 * h),
        ],
        grass,
    )
    _fence(b, 0.64 * h, b.tint((190, 150, 112)))
    draw_tufts(b, 0.74 * h, h, darker(grass, 0.13), 34)


def _fence(b: Backdrop, base: float, tone: Rgb) -> None:
    start = b.rng.choice((0.0, 0.62)) * b.width
    for k in range(6):
        x = start + k * b.width * 0.076
        b.line([(x, base + 6), (x, base - 18)], tone, 3.4)
    for up in (4, 13):
        b.line([(start, base - up), (start + 5 * b.width * 0.076, base - up)], darker(tone, 0.08), 2.6)
