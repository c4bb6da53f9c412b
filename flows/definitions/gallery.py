"""The keys of a gallery's definition."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flows.definitions.common import Location, NearDuplicateOptions, RenderOptions, SetDefinition, StrictModel


class ImageFilterOptions(StrictModel, allow_inf_nan=False):
    """Which pictures go on. Sides in pixels (under max_side), ratio is width to height; the scores, 0 to 1, are
    measured at every scan and cut only where a number is given."""

    min_side: int = Field(1, ge=1)
    max_side: int = Field(5000, ge=1)
    min_ratio: float = Field(0.2, gt=0)
    max_ratio: float = Field(5, gt=0)
    min_brightness: float | None = Field(None, ge=0, le=1)
    max_brightness: float | None = Field(None, ge=0, le=1)
    min_contrast: float | None = Field(None, ge=0, le=1)
    min_sharpness: float | None = Field(None, ge=0, le=1)
    max_flatness: float | None = Field(None, ge=0, le=1)


class SelectionOptions(StrictModel):
    """How many pictures, of as many places and times as possible; count null: all of them."""

    count: int | None = Field(None, ge=1)
    place_degrees: float = Field(0.01, gt=0, le=180)
    time: Literal["year", "month", "day", "hour"] = "day"


class GalleryDefinition(SetDefinition):
    """A gallery: pictures without queries. `images`: a folder, a list file, a table, or an fsspec URL of one."""

    kind: Literal["gallery"]
    images: Location = Field(min_length=1)
    filter: ImageFilterOptions = ImageFilterOptions()
    near_duplicates: NearDuplicateOptions = NearDuplicateOptions()
    select: SelectionOptions = SelectionOptions()
    render: RenderOptions | None = RenderOptions()
