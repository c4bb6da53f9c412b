"""Filters by the quality scores of images, which are measured at every scan; all are off by default."""

from typing import Annotated

import numpy as np
import pandas as pd
from annotated_types import Ge, Le

from builders.gallery.filters import ImageFilter
from querytruth.array_types import AnyArray
from querytruth.sets.manifest import Direction

_Share = Annotated[float, Ge(0), Le(1)] | None


def _score_filter(key: str, score: str, comparison: Direction, reason: str) -> ImageFilter:
    def compute(frame: pd.DataFrame) -> AnyArray:
        # Scores stay float32: a threshold of 0.1 is the float32 next to it, too.
        scores: AnyArray = frame[score].to_numpy(dtype=np.float32, na_value=np.nan)
        return scores

    return ImageFilter(key, score, comparison, reason, (score,), compute, _Share)


FILTERS = (
    _score_filter("min_brightness", "brightness", "at least", "too_dark"),
    _score_filter("max_brightness", "brightness", "at most", "too_light"),
    _score_filter("min_contrast", "contrast", "at least", "nearly_uniform"),
    _score_filter("min_sharpness", "sharpness", "at least", "blurred"),
    _score_filter("max_flatness", "flatness", "at most", "screen_or_text"),
)
