"""The geometry of plots that a template draws as SVG. Positions are in percent of the plot's box, so that text and dots
keep their size on a screen of any width.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

PlotData = dict[str, Any]
_DAYS, _MONTHS = 92, 180  # longest spans whose bars are days, months; longer ones have years
_OUTLIERS, _ENOUGH = 0.01, 20  # share of images at either end that the axis may leave out, if there are enough
_COLUMNS, _ROWS = 72, 44  # of the raster that gathers dots
_LARGE = 16  # images of a large dot, if no dot has more
_LEAST_SPAN = 0.02  # degrees: about two kilometres
_PROPORTIONS = (1.25, 2.1)  # of the scatter plot, width / height


def build_timeline(taken_at: pd.Series) -> PlotData | None:
    """Return bars of how many images were taken per day, month or year, or None without dates. Dates far from all
    others, as of a clock that was never set, are counted and not drawn."""
    counted = {date_: int(n) for text, n in taken_at.str[:10].value_counts().items() if (date_ := _date(str(text)))}
    if not counted:
        return None
    first, last = _ends(counted)
    unit = "day" if (last - first).days <= _DAYS else "month" if _months(last) - _months(first) <= _MONTHS else "year"
    bars: dict[int, int] = {}
    for day, number in counted.items():
        if first <= day <= last:
            at = _slot(day, unit)
            bars[at] = bars.get(at, 0) + number
    start = _slot(first, unit)
    slots = _slot(last, unit) - start + 1
    most = max(bars.values())
    return {
        "unit": unit,
        "first": first.isoformat(),
        "last": last.isoformat(),
        "most": most,
        "before": sum(number for day, number in counted.items() if day < first),
        "after": sum(number for day, number in counted.items() if day > last),
        "bars": [
            _bar((at - start) / slots, 1 / slots, n / most, _format_slot(at, unit), n) for at, n in sorted(bars.items())
        ],
        "ticks": _dates(start, slots, unit),
    }


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # a camera may write the 31st of February
        return None


def _months(day: date) -> int:
    return 12 * day.year + day.month - 1


def _slot(day: date, unit: str) -> int:
    return day.toordinal() if unit == "day" else _months(day) if unit == "month" else day.year


def _format_slot(at: int, unit: str) -> str:
    if unit == "day":
        return date.fromordinal(at).isoformat()
    return f"{at // 12:04}-{at % 12 + 1:02}" if unit == "month" else f"{at:04}"


def _ends(counted: Mapping[date, int]) -> tuple[date, date]:
    """Return the first and the last day, without the outermost images where that halves the span."""
    days = sorted(counted)
    passed = np.cumsum([counted[day] for day in days])
    few = max(1, passed[-1] * _OUTLIERS) if passed[-1] >= _ENOUGH else 0
    inner = days[int(np.searchsorted(passed, few, side="right"))]
    outer = days[int(np.searchsorted(passed, passed[-1] - few))]
    return (inner, outer) if (outer - inner).days < (days[-1] - days[0]).days / 2 else (days[0], days[-1])


def _dates(start: int, slots: int, unit: str) -> list[PlotData]:
    """Return up to five evenly spaced dates, the first and the last included. A narrow screen hides those marked
    `between`."""
    number = min(slots, 5)
    chosen = sorted({round(n * (slots - 1) / max(number - 1, 1)) for n in range(number)})
    sides = {0: "first", 1: "between", 3: "between", 4: "last"} if len(chosen) == 5 else {}
    ticks = [
        {"x": _percent((at + 0.5) / slots), "label": _format_slot(start + at, unit), "side": sides.get(n, "")}
        for n, at in enumerate(chosen)
    ]
    if len(chosen) == 5:
        ticks[0]["x"], ticks[-1]["x"] = _percent(0), _percent(1)  # flush with the ends of the axis
    return ticks


def _bar(x: float, width: float, height: float, label: str, number: int) -> PlotData:
    gap = min(0.0025, width * 0.12)
    return {
        "x": _percent(x + gap / 2),
        "width": _percent(max(width - gap, 0.0015)),
        "y": _percent(1 - height),
        "height": _percent(height),
        "label": label,
        "count": number,
    }


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def build_scatter_plot(latitude: pd.Series, longitude: pd.Series) -> PlotData | None:
    """Return dots where images were taken, larger where there are more, or None without locations. The projection is
    equirectangular, true to scale in the middle of the plot."""
    known = latitude.notna() & longitude.notna() & latitude.between(-90, 90) & longitude.between(-180, 180)
    north, east = latitude[known].to_numpy(dtype=np.float64), longitude[known].to_numpy(dtype=np.float64)
    if not len(north):
        return None
    east = _unbroken(east)
    (west, width), (south, height), shape = _frame(east, north)
    columns = np.minimum((east - west) / width * _COLUMNS, _COLUMNS - 1).astype(np.int64)
    rows = np.minimum((north - south) / height * _ROWS, _ROWS - 1).astype(np.int64)
    _, inverse, counts = np.unique(columns * _ROWS + rows, return_inverse=True, return_counts=True)
    xs, ys = (np.bincount(inverse, values) / counts for values in (east, north))
    order = np.lexsort((ys, xs, -counts))  # small dots lie on large ones
    return {
        "shape": f"{shape:.3f}",
        "pictures": len(north),
        "points": [
            {
                "x": _percent((xs[n] - west) / width),
                "y": _percent(1 - (ys[n] - south) / height),
                "r": f"{3 + 9 * math.sqrt(counts[n] / max(counts.max(), _LARGE)):.1f}",
                "label": format_location(ys[n], xs[n]),
                "count": int(counts[n]),
            }
            for n in order
        ],
        "x_ticks": [{"at": _percent((t - west) / width), "label": label} for t, label in _ticks(west, width, "EW")],
        "y_ticks": [
            {"at": _percent(1 - (t - south) / height), "label": label} for t, label in _ticks(south, height, "NS")
        ],
    }


def _unbroken(east: Any) -> Any:
    """Shift longitudes by 360 degrees where all lie within half the globe across the date line."""
    ordered = np.unique(east)
    gaps = np.diff(ordered)
    if len(gaps) and gaps.max() > 180:
        return np.where(east < ordered[gaps.argmax()] + gaps.max() / 2, east + 360, east)
    return east


def _frame(east: Any, north: Any) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Return west end and width, south end and height in degrees, and the proportions of the plot's box."""
    middle_east, middle_north = (east.min() + east.max()) / 2, (north.min() + north.max()) / 2
    shrink = max(math.cos(math.radians(middle_north)), 0.1)
    width = max(1.12 * float(np.ptp(east)), _LEAST_SPAN)
    height = max(1.12 * float(np.ptp(north)), _LEAST_SPAN)
    shape = min(max(width * shrink / height, _PROPORTIONS[0]), _PROPORTIONS[1])
    width = max(width, height * shape / shrink)
    if width > 360:  # the whole way round
        middle_east, width = 0.0, 360.0
    height = max(height, width * shrink / shape)
    return (middle_east - width / 2, width), (middle_north - height / 2, height), shape


def _ticks(start: float, span: float, letters: str) -> list[tuple[float, str]]:
    """Return three to five round degrees with their labels."""
    rough = span / 4
    ten = 10 ** math.floor(math.log10(rough))
    steps = (30, 45, 60, 90) if rough > 20 else (ten, 2 * ten, 5 * ten, 10 * ten)
    step = next(step for step in steps if step >= rough)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    room = 0.04 * span  # for half a label at either end
    ticks = [n * step for n in range(math.ceil((start + room) / step), math.floor((start + span - room) / step) + 1)]
    limit = 90 if letters == "NS" else 540
    return [(tick, _degrees(tick, letters, digits)) for tick in ticks if abs(tick) <= limit]


def _degrees(value: float, letters: str, digits: int) -> str:
    """Return a coordinate such as 31.2° N."""
    value = value if letters == "NS" else (value + 180) % 360 - 180
    shown = f"{abs(value):.{digits}f}°"
    return shown if float(shown[:-1]) == 0 else f"{shown} {letters[int(value < 0)]}"


def format_location(latitude: float, longitude: float) -> str:
    """Return a location such as 31.230° N, 121.470° E, or "" where it is unknown."""
    if pd.isna(latitude) or pd.isna(longitude):
        return ""
    return f"{_degrees(latitude, 'NS', 3)}, {_degrees(longitude, 'EW', 3)}"


def build_histogram(counts: Sequence[int], cuts: Sequence[Mapping[str, Any]]) -> PlotData | None:
    """Return the histogram of a score between 0 and 1, or None without counts. `cuts`: thresholds of the manifest; bars
    that do not pass them are `out`."""
    if not sum(counts):
        return None
    most, bins = max(counts), len(counts)
    bars = []
    for n, number in enumerate(counts):
        middle = (n + 0.5) / bins
        out = any((middle < cut["value"]) == (cut["passes"] in ("over", "at least")) for cut in cuts)
        bar = _bar(n / bins, 1 / bins, number / most, f"{n / bins:.3g} to {(n + 1) / bins:.3g}", number)
        bars += [{**bar, "out": out}] if number else []
    lines = [{"x": _percent(cut["value"]), "label": f"{cut['passes']} {cut['value']:g}"} for cut in cuts]
    return {"bars": bars, "cuts": lines}


def build_line_plot(values: Sequence[float], highest: float, cuts: Mapping[str, float]) -> PlotData | None:
    """Return a line through the values in a box of 100 by 100, or None without values. `highest`: the least upper end
    of the axis; `cuts`: labelled horizontal lines."""
    if not values:
        return None
    top = max(highest, *values, *cuts.values())
    steps = max(len(values) - 1, 1)
    heights = [100 - 100 * value / top for value in (values if len(values) > 1 else [*values, *values])]
    return {
        "top": top,
        "last": values[-1],
        "line": " ".join(f"{100 * n / steps:.2f},{height:.2f}" for n, height in enumerate(heights)),
        "cuts": [{"label": name, "value": cut, "y": f"{100 - 100 * cut / top:.2f}"} for name, cut in cuts.items()],
    }


def build_bars(numbers: Sequence[int], most: int, slots: int) -> list[PlotData]:
    """Return small bars; a bar of `most` is as high as the box, and zeros have none."""
    return [
        _bar(at / slots, 1 / slots, number / most, str(at + 1), number) for at, number in enumerate(numbers) if number
    ]
