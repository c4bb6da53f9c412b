"""Draws smooth flat shapes in a drawing's own units, larger than needed, to be reduced to soft edges."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from sample_album.colours import Rgb

Point = tuple[float, float]
_STEPS = 8  # straight pieces per curved piece: smooth at the sizes drawn here


class Pen:
    """A canvas `width` x `height` drawing units large, at `scale` pixels per unit."""

    def __init__(self, image: Image.Image, scale: float) -> None:
        self.image = image
        self.scale = scale
        self._draw = ImageDraw.Draw(image)

    def _at(self, points: Sequence[Point]) -> list[Point]:
        return [(x * self.scale, y * self.scale) for x, y in points]

    def ellipse(self, x: float, y: float, rx: float, ry: float, fill: Rgb) -> None:
        """An ellipse around a centre."""
        s = self.scale
        self._draw.ellipse(((x - rx) * s, (y - ry) * s, (x + rx) * s, (y + ry) * s), fill=fill)

    def dot(self, x: float, y: float, radius: float, fill: Rgb) -> None:
        """A disc around a centre."""
        self.ellipse(x, y, radius, radius, fill)

    def box(self, left: float, top: float, right: float, bottom: float, fill: Rgb, radius: float = 0) -> None:
        """A rectangle, its corners rounded by `radius` units."""
        s = self.scale
        edges = (left * s, top * s, right * s, bottom * s)
        if radius:
            self._draw.rounded_rectangle(edges, radius=radius * s, fill=fill)
        else:
            self._draw.rectangle(edges, fill=fill)

    def polygon(self, points: Sequence[Point], fill: Rgb) -> None:
        """A shape with straight edges."""
        self._draw.polygon(self._at(points), fill=fill)

    def blob(self, points: Sequence[Point], fill: Rgb) -> None:
        """A closed shape that runs smoothly through its points."""
        self._draw.polygon(self._at(smooth_curve(points, closed=True)), fill=fill)

    def line(self, points: Sequence[Point], fill: Rgb, width: float) -> None:
        """Straight strokes `width` units wide, with round joints and ends."""
        at, thick = self._at(points), width * self.scale
        self._draw.line(at, fill=fill, width=max(1, round(thick)), joint="curve")
        for x, y in (at[0], at[-1]):
            r = thick / 2
            self._draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)

    def curve(self, points: Sequence[Point], fill: Rgb, width: float) -> None:
        """One smooth stroke through the points."""
        self.line(smooth_curve(points, closed=False), fill, width)

    def pie(self, x: float, y: float, rx: float, ry: float, start: float, end: float, fill: Rgb) -> None:
        """A sector of an ellipse, in degrees clockwise from the right."""
        s = self.scale
        self._draw.pieslice(((x - rx) * s, (y - ry) * s, (x + rx) * s, (y + ry) * s), start, end, fill=fill)

    def filled_arc(self, x: float, y: float, rx: float, ry: float, start: float, end: float, fill: Rgb) -> None:
        """A segment of an ellipse, cut off straight, in degrees clockwise from the right."""
        s = self.scale
        self._draw.chord(((x - rx) * s, (y - ry) * s, (x + rx) * s, (y + ry) * s), start, end, fill=fill)

    def arc(self, x: float, y: float, rx: float, ry: float, start: float, end: float, fill: Rgb, width: float) -> None:
        """A stroke along an ellipse, in degrees clockwise from the right, `width` units inward."""
        s = self.scale
        edges = ((x - rx) * s, (y - ry) * s, (x + rx) * s, (y + ry) * s)
        self._draw.arc(edges, start, end, fill=fill, width=max(1, round(width * s)))


def smooth_curve(points: Sequence[Point], *, closed: bool) -> list[Point]:
    """Points along the Catmull-Rom curve through the given ones."""
    count = len(points)
    out: list[Point] = []
    for number in range(count if closed else count - 1):
        neighbours = [number - 1, number, number + 1, number + 2]
        a, b, c, d = (points[k % count if closed else min(max(k, 0), count - 1)] for k in neighbours)
        out.extend(_between(a, b, c, d, step / _STEPS) for step in range(_STEPS))
    if not closed:
        out.append(points[-1])
    return out


def _between(a: Point, b: Point, c: Point, d: Point, t: float) -> Point:
    def along(p: float, q: float, r: float, s: float) -> float:
        return q + 0.5 * t * (r - p + t * (2 * p - 5 * q + 4 * r - s + t * (3 * (q - r) + s - p)))

    return along(a[0], b[0], c[0], d[0]), along(a[1], b[1], c[1], d[1])
