"""Which pictures make the gallery: as many places as possible, then other times, then the rest. (seeds: 图片数据清洗)

What nobody wrote down never counts as different: a picture without a time can be another *place* but not another
time, one without a place can be another time but not another place. Pictures with neither come last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import AnyArray
from builders.records import stable_hash

SELECTION_PASSES = ("another_place", "another_place_or_time", "filled_up", "filled_up_without_exif")
TIME_PREFIX_LENGTHS = {
    "year": 4,
    "month": 7,
    "day": 10,
    "hour": 13,
}  # characters of the ISO form, as the camera's clock said
_AT_ONCE = 1 << 16  # ids as Python strings


@dataclass(frozen=True, slots=True)
class ImageSelection:
    """One entry per row. `rank` is the row's turn (0 is taken first) and `pass_index` the place in PASSES of the pass
    that takes it, both whatever the count; `chosen` are the rows whose turn comes before the count is reached."""

    rank: AnyArray
    pass_index: AnyArray
    chosen: AnyArray

    def counts(self) -> dict[str, int]:
        """How many pictures each pass took."""
        return {
            name: int((self.chosen & (self.pass_index == number)).sum()) for number, name in enumerate(SELECTION_PASSES)
        }


def select_images(
    frame: pd.DataFrame, *, count: int | None, place_degrees: float, time: str, seed: int
) -> ImageSelection:
    """The first `count` rows (None: all) of an order in which every picture has its turn; columns image_id,
    taken_at, latitude, longitude.

    All pictures are shuffled by the hash of seed and id. The first of each place come first; then, of the rest, the
    first of each (place, time) that is not taken yet, and a picture without a place if its time is not taken yet;
    then the others; then those without EXIF.

    The order does not depend on `count`, since each pass looks only at what the passes before it hold in full: a
    pass that the count cuts short is the last one. So a selection of 1,000 contains the selection of 100 with the
    same seed. No selection of its size has more places. One picture more or less in the folder moves at most five
    pictures in the order (itself, and in each of two passes those it displaces or lets in), hence at most five in
    the selection.
    """
    turn = _shuffled(frame["image_id"], seed)
    places, times = (
        codes[turn]
        for codes in (place_codes(frame, place_degrees), _time_codes(frame["taken_at"], TIME_PREFIX_LENGTHS[time]))
    )
    passes = np.empty(len(frame), dtype=np.int8)
    passes[turn] = _passes(places, times)
    order = turn[np.argsort(passes[turn], kind="stable")]
    rank = np.empty(len(frame), dtype=np.int64)
    rank[order] = np.arange(len(frame))
    return ImageSelection(rank, passes, rank < (len(frame) if count is None else count))


def _shuffled(ids: pd.Series, seed: int) -> AnyArray:
    """The rows in the order of their hashes; ids whose hashes meet stand in their own order, as in no million do."""
    chunks: Iterable[Any] = (ids.iloc[start : start + _AT_ONCE].tolist() for start in range(0, len(ids), _AT_ONCE))
    hashes = np.fromiter(
        (stable_hash(str(seed), "select", name) for chunk in chunks for name in chunk), np.uint64, len(ids)
    )
    order = np.argsort(hashes, kind="stable")
    if (hashes[order][1:] == hashes[order][:-1]).any():
        order = np.lexsort((ids.to_numpy(dtype=object), hashes))
    return order


def _passes(places: AnyArray, times: AnyArray) -> AnyArray:
    """The pass of each row, the rows being in shuffled order; codes are -1 where nothing is known."""
    passes = np.full(len(places), 2, dtype=np.int8)
    passes[(places < 0) & (times < 0)] = 3
    passes[_firsts(places)] = 0
    rest = np.concatenate([np.flatnonzero(passes == 0), np.flatnonzero(passes == 2)])  # pass 0 has taken its own
    places, times = places[rest], times[rest]
    pairs = np.where((places >= 0) & (times >= 0), pair_codes(places, times), -1)
    # Of a time that none of the pictures before it has; one of them without a place stands for that time, too.
    alone = np.where(places < 0, _firsts(times), False)
    another = (_firsts(pairs) | alone) & (passes[rest] == 2)
    passes[rest[another]] = 1
    return passes


def _firsts(codes: AnyArray) -> AnyArray:
    """Whether a row is the first of its code; rows of code -1 are not."""
    first: AnyArray = ~pd.Series(codes).duplicated().to_numpy() & (codes >= 0)
    return first


def _time_codes(taken_at: pd.Series, characters: int) -> AnyArray:
    """A number per year, month, day or hour, -1 without a time."""
    codes: AnyArray = pd.factorize(taken_at.astype("str").str[:characters])[0]
    return codes


def place_codes(frame: pd.DataFrame, degrees: float) -> AnyArray:
    """A number per cell of `degrees` by `degrees`, -1 for an image without a place; columns latitude, longitude."""
    rows, columns = place_cells(frame, degrees)
    known = ~np.isnan(rows)
    rows, columns = (pd.factorize(np.where(known, cells, 0.0))[0] for cells in (rows, columns))
    return np.where(known, pd.factorize(pair_codes(rows, columns))[0], -1)


def place_cells(frame: pd.DataFrame, degrees: float) -> tuple[AnyArray, AnyArray]:
    """How many cells north of the equator and east of Greenwich an image lies, NaN without a place. 180 degrees
    east and west are one meridian, and at a pole all are."""
    latitude = frame["latitude"].to_numpy(dtype=np.float64, na_value=np.nan)
    longitude = frame["longitude"].to_numpy(dtype=np.float64, na_value=np.nan)
    known = (np.abs(latitude) <= 90) & np.isfinite(longitude)
    latitude, longitude = np.where(known, latitude, np.nan), np.where(known, longitude, np.nan)
    longitude = np.where(np.abs(latitude) == 90, 0.0, longitude - 360 * np.floor((longitude + 180) / 360))
    return np.floor(latitude / degrees), np.floor(longitude / degrees)


def pair_codes(one: AnyArray, other: AnyArray) -> AnyArray:
    """A number per pair of codes, each of which is 0 or more."""
    return one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other
