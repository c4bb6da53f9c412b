"""Selection of gallery images, and its statistics: as many places as possible, then other times, then the rest.

Missing metadata never counts as different: an image without a time can be another *place* but not another time, one
without a place can be another time but not another place. Images with neither come last. (seeds: 图片数据清洗)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray
from querytruth.records import stable_hash
from querytruth.sets.manifest_notes import GallerySummary

SELECTION_PASSES = ("another_place", "another_place_or_time", "filled_up", "filled_up_without_exif")
# Characters of the ISO form, in the camera's time.
TIME_PREFIX_LENGTHS = {"year": 4, "month": 7, "day": 10, "hour": 13}
_AT_ONCE = 1 << 16  # ids converted to Python strings at a time
QUALITY_SCORE_NAMES = ("brightness", "contrast", "sharpness", "flatness")
HISTOGRAM_BINS = 40  # of a score's histogram, from 0 to 1
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_LISTED = 12  # of places, days, sizes: the most frequent; the others are counted together
_LISTED_MONTHS, _LISTED_YEARS = 600, 200  # more than the age of cameras: others come from wrong clocks


@dataclass(frozen=True, slots=True)
class ImageSelection:
    """Arrays (n,) with an entry per row. `rank`: the row's position in the order (0 is selected first); `pass_index`:
    the index in SELECTION_PASSES of the pass that selects it; both do not depend on the count. `chosen`: whether the
    rank is below the count."""

    rank: AnyArray
    pass_index: AnyArray
    chosen: AnyArray

    def counts(self) -> dict[str, int]:
        """Return the number of images by pass."""
        chosen = np.bincount(self.pass_index[self.chosen], minlength=len(SELECTION_PASSES)).tolist()
        return dict(zip(SELECTION_PASSES, chosen, strict=True))


def select_images(
    frame: pd.DataFrame, *, count: int | None, place_degrees: float, time: str, seed: int
) -> ImageSelection:
    """Return the order of all images and the first `count` of it (None: all); columns image_id, taken_at, latitude,
    longitude.

    Images are shuffled by the hash of seed and id. The first of each place come first; then, of the rest, the first
    of each (place, time) that is not selected yet, and an image without a place if its time is not selected yet; then
    the others; then those without EXIF.

    The order does not depend on `count`, since each pass depends only on the complete passes before it: a pass that
    the count cuts short is the last one. So a selection of 1,000 contains the selection of 100 with the same seed. No
    selection of its size has more places. Adding or removing one image moves at most five images in the order
    (itself, and in each of two passes those that it replaces or admits), hence at most five in the selection.
    """
    turn = _shuffled(frame["image_id"], seed)
    places = place_codes(frame, place_degrees)[turn]
    times = _time_codes(frame["taken_at"], TIME_PREFIX_LENGTHS[time])[turn]
    passes = np.empty(len(frame), dtype=np.int8)
    passes[turn] = _passes(places, times)
    order = turn[np.argsort(passes[turn], kind="stable")]
    rank = np.empty(len(frame), dtype=np.int64)
    rank[order] = np.arange(len(frame))
    return ImageSelection(rank, passes, rank < (len(frame) if count is None else count))


def _shuffled(ids: pd.Series, seed: int) -> AnyArray:
    """Return the rows in the order of their hashes; the few ids with equal hashes keep their own order."""
    chunks: Iterable[Any] = (ids.iloc[start : start + _AT_ONCE].tolist() for start in range(0, len(ids), _AT_ONCE))
    hash_of_ids = (stable_hash(str(seed), "select", name) for chunk in chunks for name in chunk)
    hashes = np.fromiter(hash_of_ids, np.uint64, len(ids))
    order = np.argsort(hashes, kind="stable")
    if (hashes[order][1:] == hashes[order][:-1]).any():
        order = np.lexsort((ids.to_numpy(dtype=object), hashes))
    return order


def _passes(places: AnyArray, times: AnyArray) -> AnyArray:
    """Return the pass of each row; rows are in shuffled order, codes are -1 where the metadata is missing."""
    passes = np.full(len(places), 2, dtype=np.int8)
    passes[(places < 0) & (times < 0)] = 3
    passes[_firsts(places)] = 0
    rest = np.concatenate([np.flatnonzero(passes == 0), np.flatnonzero(passes == 2)])  # pass 0 has selected its rows
    places, times = places[rest], times[rest]
    pairs = np.where((places >= 0) & (times >= 0), pair_codes(places, times), -1)
    # The first row of a time, if it has no place; rows of pass 0 come before it.
    alone = np.where(places < 0, _firsts(times), False)
    another = (_firsts(pairs) | alone) & (passes[rest] == 2)
    passes[rest[another]] = 1
    return passes


def _firsts(codes: AnyArray) -> AnyArray:
    """Return per row whether it is the first of its code; rows of code -1 are not."""
    first: AnyArray = ~pd.Series(codes).duplicated().to_numpy() & (codes >= 0)
    return first


def _time_codes(taken_at: pd.Series, characters: int) -> AnyArray:
    """Return a number per year, month, day or hour, -1 without a time."""
    codes: AnyArray = pd.factorize(taken_at.astype("str").str[:characters])[0]
    return codes


def place_codes(frame: pd.DataFrame, degrees: float) -> AnyArray:
    """Return a number per cell of `degrees` by `degrees`, -1 without a place; columns latitude, longitude."""
    rows, columns = place_cells(frame, degrees)
    known = ~np.isnan(rows)
    rows, columns = (pd.factorize(np.where(known, cells, 0.0))[0] for cells in (rows, columns))
    return np.where(known, pd.factorize(pair_codes(rows, columns))[0], -1)


def place_cells(frame: pd.DataFrame, degrees: float) -> tuple[AnyArray, AnyArray]:
    """Return how many cells north of the equator and east of Greenwich an image is, NaN without a place. 180 degrees
    east and west are one meridian; at a pole all meridians are one."""
    latitude = frame["latitude"].to_numpy(dtype=np.float64, na_value=np.nan)
    longitude = frame["longitude"].to_numpy(dtype=np.float64, na_value=np.nan)
    known = (np.abs(latitude) <= 90) & np.isfinite(longitude)
    latitude, longitude = np.where(known, latitude, np.nan), np.where(known, longitude, np.nan)
    longitude = np.where(np.abs(latitude) == 90, 0.0, longitude - 360 * np.floor((longitude + 180) / 360))
    return np.floor(latitude / degrees), np.floor(longitude / degrees)


def pair_codes(one: AnyArray, other: AnyArray) -> AnyArray:
    """Return a number per pair of codes; the codes are 0 or more."""
    return one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other


def summarize_gallery(gallery: pd.DataFrame, readable: pd.DataFrame, *, place_degrees: float) -> GallerySummary:
    """Return the gallery's images by place, time, format and size, and the quality scores of all readable images, so
    that a page can show a threshold among them. Both frames have the columns of SCANNED_IMAGES_SCHEMA; every count is
    of images."""
    summary = {
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
    return cast(GallerySummary, summary)


def _known(gallery: pd.DataFrame, degrees: float) -> dict[str, int]:
    placed, timed = place_codes(gallery, degrees) >= 0, gallery["taken_at"].notna().to_numpy()
    both, neither = placed & timed, ~placed & ~timed
    ways = {"place_and_time": both, "place_only": placed & ~timed, "time_only": timed & ~placed, "neither": neither}
    return {way: int(rows.sum()) for way, rows in ways.items()}


def _places(gallery: pd.DataFrame, degrees: float) -> dict[str, Any]:
    """Return the cells with the most images, by the coordinates of their centres."""
    rows_columns = np.stack(place_cells(gallery, degrees), axis=1)
    cells, counts = np.unique(rows_columns[~np.isnan(rows_columns[:, 0])], axis=0, return_counts=True)
    middles = np.round((cells + 0.5) * degrees, 6).clip([-90, -180], [90, 180])
    order = np.lexsort((middles[:, 1], middles[:, 0], -counts))[:_LISTED]
    rows = zip(middles[order].tolist(), counts[order].tolist(), strict=True)
    most = [{"latitude": north, "longitude": east, "pictures": number} for (north, east), number in rows]
    rest = int(counts.sum() - counts[order].sum())
    return {"cell_degrees": degrees, "distinct": len(cells), "most": most, "rest": rest}


def _times(gallery: pd.DataFrame, unit: str, listed: int) -> dict[str, Any]:
    """Return images by day, most frequent first, or by month or year in order of time; times are the camera's."""
    times = gallery["taken_at"].astype("str").str[: TIME_PREFIX_LENGTHS[unit]]
    summary = _most(times, listed)
    ends = {} if unit != "day" else {"first": _text(times.min()), "last": _text(times.max())}
    return {**summary, "most": summary["most"] if unit == "day" else sorted(summary["most"]), **ends}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _most(values: pd.Series, listed: int) -> dict[str, Any]:
    """Return the most frequent values with their counts, ties in the values' order, and the count of the rest."""
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
    """Return quantiles by percent ("0" is the minimum, "50" the median); empty without values."""
    quantiles = np.quantile(values, _QUANTILES) if len(values) else []
    return {f"{100 * q:g}": round(float(value), 4) for q, value in zip(_QUANTILES, quantiles, strict=False)}
