"""Filters of images. Each file in this folder holds some in `FILTERS`; a filter is a key of a definition's `filter`."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from querytruth.array_types import AnyArray
from querytruth.sets.manifest import Direction


@dataclass(frozen=True, slots=True)
class ImageFilter:
    """Images whose measure is `comparison` (over, at least, under, at most) the threshold go on; others are rejected
    for the `reason`. `compute` gives the measure of each row of a frame with the `columns` (those of a scan), NaN where
    it is unknown. `threshold_type` is for pydantic; `default` None: the filter is off unless a definition names it."""

    key: str
    measure: str
    comparison: Direction
    reason: str
    columns: tuple[str, ...]
    compute: Callable[[pd.DataFrame], AnyArray]
    threshold_type: Any
    default: float | None = None


def list_image_filters() -> list[ImageFilter]:
    """Return all filters in the order in which they are applied: by file name, then by position in the file."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [one for name in names for one in importlib.import_module(f"{__name__}.{name}").FILTERS]
