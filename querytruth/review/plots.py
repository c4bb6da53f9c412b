"""The plots of a gallery and of a generator's course: images by time, by place and by score, and curves."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import FloatArray
from querytruth.review import vega_lite
from querytruth.review.page_parts import translate

PlotData = dict[str, Any]
_DAYS, _MONTHS = 92, 180  # longest spans whose bars are days, months; longer ones have years
_OUTLIERS, _ENOUGH = 0.01, 20  # share of images at either end that the axis may leave out, if there are enough
_COLUMNS, _ROWS = 72, 44  # of the raster that gathers dots
_LEAST_SPAN = 0.02  # degrees: about two kilometres
_WIDE, _PHONE = 1080, 300  # pixels of a plot across a desk's page, and of one that a phone shows whole


def draw_timeline(taken_at: pd.Series) -> PlotData | None:
    """Return bars of how many images were taken per day, month or year, or None without dates. Dates far from all
    others, as of a clock that was never set, are counted and not drawn."""
    counted = {date_: int(n) for text, n in taken_at.str[:10].value_counts().items() if (date_ := _date(str(text)))}
    if not counted:
        return None
    first, last = _ends(counted)
    months = 12 * (last.year - first.year) + last.month - first.month
    unit = "day" if (last - first).days <= _DAYS else "month" if months <= _MONTHS else "year"
    bars: dict[date, int] = {}
    for day, number in counted.items():
        if first <= day <= last:
            start = day if unit == "day" else day.replace(day=1, month=day.month if unit == "month" else 1)
            bars[start] = bars.get(start, 0) + number
    values = [{"at": f"{start.isoformat()}T00:00", "images": number} for start, number in sorted(bars.items())]
    units = {"day": ("yearmonthdate", "%Y-%m-%d"), "month": ("yearmonth", "%Y-%m"), "year": ("year", "%Y")}
    time_unit, form = units[unit]
    encoding = {
        "x": {"field": "at", "type": "temporal", "timeUnit": time_unit, "title": None,
              "axis": {"format": form, "grid": False, "labelOverlap": True}},
        "y": _number("images", tickCount=3),
    }  # fmt: skip
    spec = {
        "width": _WIDE,
        "height": 120,
        "data": {"values": values},
        "mark": {"type": "bar", "color": vega_lite.ACCENT},
        "encoding": encoding,
    }
    what = translate("Images by %(unit)s, from %(first)s to %(last)s", unit=translate(unit), first=first, last=last)
    return {
        "unit": unit,
        "first": first.isoformat(),
        "last": last.isoformat(),
        "most": max(bars.values()),
        "before": sum(number for day, number in counted.items() if day < first),
        "after": sum(number for day, number in counted.items() if day > last),
        "bars": bars,
        "svg": vega_lite.draw_svg(spec, what),
    }


def _number(field: str, **axis: object) -> vega_lite.VegaSpec:
    return {"field": field, "type": "quantitative", "title": None, "axis": {"domain": False, **axis}}


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # a camera may write the 31st of February
        return None


def _ends(counted: Mapping[date, int]) -> tuple[date, date]:
    """Return the first and the last day, without the outermost images where that halves the span."""
    days = sorted(counted)
    passed = np.cumsum([counted[day] for day in days])
    few = max(1, passed[-1] * _OUTLIERS) if passed[-1] >= _ENOUGH else 0
    inner = days[int(np.searchsorted(passed, few, side="right"))]
    outer = days[int(np.searchsorted(passed, passed[-1] - few))]
    return (inner, outer) if (outer - inner).days < (days[-1] - days[0]).days / 2 else (days[0], days[-1])


def draw_places(latitude: pd.Series, longitude: pd.Series) -> PlotData | None:
    """Return dots where images were taken, larger where there are more, or None without locations. The projection is
    equirectangular, true to scale in the middle of the plot."""
    known = latitude.notna() & longitude.notna() & latitude.between(-90, 90) & longitude.between(-180, 180)
    north, east = latitude[known].to_numpy(dtype=np.float64), longitude[known].to_numpy(dtype=np.float64)
    if not len(north):
        return None
    east = _unbroken(east)
    shrink = max(math.cos(math.radians(float(north.min() + north.max()) / 2)), 0.1)
    spans = [max(float(np.ptp(values)), _LEAST_SPAN) for values in (east, north)]
    cells = [np.minimum((values - values.min()) / span * n, n - 1).astype(np.int64)
             for values, span, n in zip((east, north), spans, (_COLUMNS, _ROWS), strict=True)]  # fmt: skip
    _, inverse, counts = np.unique(cells[0] * _ROWS + cells[1], return_inverse=True, return_counts=True)
    xs, ys = (np.bincount(inverse, values) / counts for values in (east, north))
    points = [
        {"east": float(x), "north": float(y), "images": int(n)}
        for n, x, y in sorted(zip(counts, xs, ys, strict=True), reverse=True)  # small dots lie on large ones
    ]
    turned = "(datum.value + 540) % 360 - 180"
    encoding = {
        "x": _degrees("east", f"format(abs({turned}), '.6~') + ({turned} < 0 ? '° W' : '° E')"),
        "y": _degrees("north", "format(abs(datum.value), '.6~') + (datum.value < 0 ? '° S' : '° N')"),
        "size": {"field": "images", "type": "quantitative", "legend": None, "scale": {"range": [30, 300]}},
    }
    mark = {"type": "point", "filled": True, "color": vega_lite.ACCENT, "opacity": 0.75}
    height = min(max(_PHONE * spans[1] / (spans[0] * shrink), 140), 240)
    spec = {"width": _PHONE, "height": height, "data": {"values": points}, "mark": mark, "encoding": encoding}
    what = translate("Places of %(images)s images", images=len(north))
    return {"images": len(north), "points": points, "svg": vega_lite.draw_svg(spec, what)}


def _degrees(field: str, label: str) -> vega_lite.VegaSpec:
    axis = {"labelExpr": label, "tickCount": 4}
    return _number(field, **axis) | {"scale": {"zero": False, "nice": True, "padding": 12}}


def _unbroken(east: FloatArray) -> FloatArray:
    """Shift longitudes by 360 degrees where all points are on the half of the globe around the date line."""
    ordered = np.unique(east)
    gaps = np.diff(ordered)
    if len(gaps) and gaps.max() > 180:
        shifted: FloatArray = np.where(east < ordered[gaps.argmax()] + gaps.max() / 2, east + 360, east)
        return shifted
    return east


def format_location(latitude: float, longitude: float) -> str:
    """Return a location such as 31.230° N, 121.470° E, or "" where it is unknown."""
    if pd.isna(latitude) or pd.isna(longitude):
        return ""
    east = (longitude + 180) % 360 - 180
    return f"{abs(latitude):.3f}° {'NS'[int(latitude < 0)]}, {abs(east):.3f}° {'EW'[int(east < 0)]}"


def draw_histogram(name: str, counts: Sequence[int], cuts: Sequence[Mapping[str, Any]]) -> PlotData | None:
    """Return the histogram of a score between 0 and 1, or None without counts. `cuts`: thresholds of the manifest; bars
    that do not pass them are `out`."""
    if not sum(counts):
        return None
    bins = len(counts)
    bars = [
        {
            "from": n / bins,
            "to": (n + 1) / bins,
            "images": number,
            "out": any(((n + 0.5) / bins < cut["value"]) == (cut["passes"] in ("over", "at least")) for cut in cuts),
        }
        for n, number in enumerate(counts)
    ]
    colour = {"condition": {"test": "datum.out", "value": "var(--mark)"}, "value": vega_lite.ACCENT}
    x = {**_number("from", tickCount=3, grid=False), "bin": "binned", "scale": {"domain": [0, 1]}}
    encoding = {"x": x, "x2": {"field": "to"}, "y": _number("images", tickCount=3), "color": colour}
    rule = {"type": "rule", "color": vega_lite.WARM, "strokeDash": [4, 3], "strokeWidth": 1.5}
    layers = [
        {"data": {"values": bars}, "mark": {"type": "bar", "binSpacing": 0.5}, "encoding": encoding},
        vega_lite.make_layer([{"a": cut["value"]} for cut in cuts], rule, x={"field": "a", "type": "quantitative"}),
    ]
    svg = vega_lite.draw_svg({"width": 200, "height": 90, "layer": layers}, f"{translate(name)}: {sum(counts):,}")
    return {"bars": bars, "cuts": [f"{cut['passes']} {cut['value']:g}" for cut in cuts], "svg": svg}


def draw_curve(
    title: str, points: Sequence[tuple[float, float]], highest: float, cuts: Mapping[str, float]
) -> PlotData | None:
    """Return a line through points (replies, value), or None without any. `highest`: the least upper end of the axis;
    `cuts`: labelled horizontal lines."""
    if not points:
        return None
    values = [{"x": x, "y": y} for x, y in points]
    x = {**_number("x", tickCount=3, grid=False), "scale": {"nice": False}}
    y = {**_number("y", tickCount=4), "scale": {"domain": [0, max(highest, *(y for _, y in points), *cuts.values())]}}
    rule = {"type": "rule", "color": vega_lite.WARM, "strokeDash": [4, 3], "strokeWidth": 1.5}
    layers = [
        vega_lite.make_layer(values, {"type": "line", "color": vega_lite.ACCENT, "point": len(points) == 1}, x=x, y=y),
        vega_lite.make_layer([{"y": cut} for cut in cuts.values()], rule, y={"field": "y", "type": "quantitative"}),
    ]  # fmt: skip
    svg = vega_lite.draw_svg({"width": 200, "height": 110, "layer": layers}, f"{translate(title)}: {points[-1][1]:.3g}")
    return {"last": points[-1][1], "points": points, "cuts": cuts, "svg": svg}
