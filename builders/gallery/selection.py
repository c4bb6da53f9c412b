"""Selection of gallery images: as many places as possible, then other times, then the rest.

Missing metadata never counts as different: an image without a time can be another *place* but not another time, one
without a place can be another time but not another place. Images with neither come last. (seeds: 图片数据清洗)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray
from querytruth.records import stable_hash

SELECTION_PASSES = ("another_place", "another_place_or_time", "filled_up", "filled_up_without_exif")
# Characters of the ISO form, in the camera's time.
TIME_PREFIX_LENGTHS = {"year": 4, "month": 7, "day": 10, "hour": 13}
_AT_ONCE = 1 << 16  # ids converted to Python strings at a time


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
