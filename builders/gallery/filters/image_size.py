"""Filters by sides and shape. The defaults are the seed article's: a side of 5000 and a ratio of 0.2 or 5 are out
(选取宽高均小于5000的图片，并且宽高比大于0.2小于5).
"""

import math
from typing import Annotated

import numpy as np
import pandas as pd
from annotated_types import Ge, Gt, Lt

from builders.gallery.filters import ImageFilter
from querytruth.array_types import AnyArray

_COLUMNS = ("width", "height")
_Pixels = Annotated[int, Ge(1)]
_Ratio = Annotated[float, Gt(0), Lt(math.inf)]


def _shorter_side(frame: pd.DataFrame) -> AnyArray:
    return np.minimum(*_sides(frame))


def _longer_side(frame: pd.DataFrame) -> AnyArray:
    return np.maximum(*_sides(frame))


def _ratio(frame: pd.DataFrame) -> AnyArray:
    width, height = _sides(frame)
    return width / height


def _sides(frame: pd.DataFrame) -> tuple[AnyArray, AnyArray]:
    """Return widths and heights in pixels; NaN where one is missing or nothing."""
    width, height = (frame[side].to_numpy(dtype=np.float64, na_value=np.nan) for side in _COLUMNS)
    return np.where(width > 0, width, np.nan), np.where(height > 0, height, np.nan)


FILTERS = (
    ImageFilter("min_side", "shorter_side", "at least", "too_small", _COLUMNS, _shorter_side, _Pixels, 1),
    ImageFilter("max_side", "longer_side", "under", "too_large", _COLUMNS, _longer_side, _Pixels, 5000),
    ImageFilter("min_ratio", "ratio", "over", "too_narrow", _COLUMNS, _ratio, _Ratio, 0.2),
    ImageFilter("max_ratio", "ratio", "under", "too_wide", _COLUMNS, _ratio, _Ratio, 5),
)
