"""Places: cells of latitude and longitude on a round earth."""

from __future__ import annotations

import numpy as np
import pandas as pd

from builders.array_types import AnyArray


def place_codes(frame: pd.DataFrame, degrees: float) -> AnyArray:
    """A number per cell of `degrees` by `degrees`, -1 for a picture without a place; columns latitude, longitude."""
    rows, columns = place_cells(frame, degrees)
    known = ~np.isnan(rows)
    rows, columns = (pd.factorize(np.where(known, cells, 0.0))[0] for cells in (rows, columns))
    return np.where(known, pd.factorize(pair_codes(rows, columns))[0], -1)


def place_cells(frame: pd.DataFrame, degrees: float) -> tuple[AnyArray, AnyArray]:
    """How many cells north of the equator and east of Greenwich a picture lies, NaN without a place. 180 degrees
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
