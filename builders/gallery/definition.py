"""The keys of a gallery's definition."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field, create_model

from builders.gallery.filters import list_image_filters
from querytruth.definitions import Location, NearDuplicateOptions, RenderOptions, SetDefinition, StrictModel

if TYPE_CHECKING:
    ImageFilterOptions = StrictModel
else:
    ImageFilterOptions = create_model(
        "ImageFilterOptions",
        __base__=StrictModel,
        __module__=__name__,
        __doc__="Which images go on: a threshold per filter of builders/gallery/filters; sides are in pixels.",
        **{one.key: (one.threshold_type, one.default) for one in list_image_filters()},
    )


class SelectionOptions(StrictModel):
    """How many pictures, of as many places and times as possible; count null: all of them."""

    count: int | None = Field(None, ge=1)
    place_degrees: float = Field(0.01, gt=0, le=180)
    time: Literal["year", "month", "day", "hour"] = "day"


class GalleryDefinition(SetDefinition):
    """A gallery: pictures without queries. `images`: a folder, a list file, a table, or an fsspec URL of one."""

    kind: Literal["gallery"] = "gallery"
    images: Location = Field(min_length=1)
    filter: ImageFilterOptions = ImageFilterOptions()
    near_duplicates: NearDuplicateOptions = NearDuplicateOptions()
    select: SelectionOptions = SelectionOptions()
    render: RenderOptions | None = RenderOptions()
