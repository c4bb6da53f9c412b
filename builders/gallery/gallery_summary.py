"""Summary statistics of a gallery, as plain data for the manifest, a page and the terminal."""

from typing import Any

import numpy as np
import pandas as pd

from builders.gallery.selection import TIME_PREFIX_LENGTHS, place_cells, place_codes

QUALITY_SCORE_NAMES = ("brightness", "contrast", "sharpness", "flatness")
HISTOGRAM_BINS = 40  # of a score's histogram, from 0 to 1
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_LISTED = 12  # of places, days, sizes: the most frequent; the others are counted together
_LISTED_MONTHS, _LISTED_YEARS = 600, 200  # more than the age of cameras: others come from wrong clocks


def summarize_gallery(gallery: pd.DataFrame, readable: pd.DataFrame, *, place_degrees: float) -> dict[str, Any]:
    """Returns the gallery's images by place, time, format and size, and the quality scores of all readable images, so
    that a page can show a threshold among them. Both frames have the columns of SCANNED_IMAGES_SCHEMA; every count is
    of images."""
    return {
        "pictures": len(gallery),
        "known": _known(gallery, place_degrees),
        "places": _places(gallery, place_degrees),
        "days": _times(gallery, "day", _LISTED),
        "months": _times(gallery, "month", _LISTED_MONTHS),
        "years": _times(gallery, "year", _LISTED_YEARS),
        "formats": _most(gallery["format"], _LISTED),
        "sizes": _sizes(gallery),
        "scores": {name: _score(readable[name]) for name in QUALITY_SCORE_NAMES},
    }


def _known(gallery: pd.DataFrame, degrees: float) -> dict[str, int]:
    placed, timed = place_codes(gallery, degrees) >= 0, gallery["taken_at"].notna().to_numpy()
    both, neither = placed & timed, ~placed & ~timed
    ways = {"place_and_time": both, "place_only": placed & ~timed, "time_only": timed & ~placed, "neither": neither}
    return {way: int(rows.sum()) for way, rows in ways.items()}


def _places(gallery: pd.DataFrame, degrees: float) -> dict[str, Any]:
    """Returns the cells with the most images, by the coordinates of their centres."""
    rows_columns = np.stack(place_cells(gallery, degrees), axis=1)
    cells, counts = np.unique(rows_columns[~np.isnan(rows_columns[:, 0])], axis=0, return_counts=True)
    middles = np.round((cells + 0.5) * degrees, 6).clip([-90, -180], [90, 180])
    order = np.lexsort((middles[:, 1], middles[:, 0], -counts))[:_LISTED]
    rows = zip(middles[order].tolist(), counts[order].tolist(), strict=True)
    most = [{"latitude": north, "longitude": east, "pictures": number} for (north, east), number in rows]
    rest = int(counts.sum() - counts[order].sum())
    return {"cell_degrees": degrees, "distinct": len(cells), "most": most, "rest": rest}


def _times(gallery: pd.DataFrame, unit: str, listed: int) -> dict[str, Any]:
    """Returns images by day, most frequent first, or by month or year in order of time; times are the camera's."""
    times = gallery["taken_at"].astype("str").str[: TIME_PREFIX_LENGTHS[unit]]
    summary = _most(times, listed)
    ends = {} if unit != "day" else {"first": _text(times.min()), "last": _text(times.max())}
    return {**summary, "most": summary["most"] if unit == "day" else sorted(summary["most"]), **ends}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _most(values: pd.Series, listed: int) -> dict[str, Any]:
    """Returns the most frequent values with their counts, ties in the values' order, and the count of the rest."""
    counts = values.value_counts()
    least = counts.iloc[min(listed, len(counts)) - 1] if len(counts) else 0
    near = [(str(value), int(number)) for value, number in counts[counts >= least].items()]
    most = sorted(near, key=lambda pair: (-pair[1], pair[0]))[:listed]
    rest = int(counts.sum()) - sum(number for _, number in most)
    return {"distinct": len(counts), "most": [list(pair) for pair in most], "rest": rest}


def _sizes(gallery: pd.DataFrame) -> dict[str, Any]:
    width, height = (gallery[side].to_numpy(dtype=np.int64) for side in ("width", "height"))
    factor = 1 << 32  # sides are below 2^31
    names = _most(pd.Series(width * factor + height), _LISTED)
    most = [[f"{int(code) // factor} x {int(code) % factor}", number] for code, number in names["most"]]
    shapes = {"landscape": width > height, "portrait": width < height, "square": width == height}
    return {
        **names,
        "most": most,
        "shapes": {name: int(rows.sum()) for name, rows in shapes.items()},
        "megapixels": _quantiles(width * height / 1e6),
    }


def _score(column: pd.Series) -> dict[str, Any]:
    values = column.dropna().to_numpy(dtype=np.float64)
    histogram = np.histogram(values.clip(0, 1), bins=HISTOGRAM_BINS, range=(0, 1))[0]
    return {"pictures": len(values), "quantiles": _quantiles(values), "histogram": [int(n) for n in histogram]}


def _quantiles(values: Any) -> dict[str, float]:
    """Returns quantiles by percent ("0" is the minimum, "50" the median); none without values."""
    quantiles = np.quantile(values, _QUANTILES) if len(values) else []
    return {f"{100 * q:g}": round(float(value), 4) for q, value in zip(_QUANTILES, quantiles, strict=False)}
