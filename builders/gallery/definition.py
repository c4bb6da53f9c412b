"""The keys of a gallery's definition."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model, model_validator

from builders.gallery.filters import list_image_filters
from querytruth import definitions

if TYPE_CHECKING:
    ImageFilterOptions = definitions.StrictModel
else:
    ImageFilterOptions = create_model(
        "ImageFilterOptions",
        __base__=definitions.StrictModel,
        __module__=__name__,
        __doc__="Which images are kept: a threshold per filter in builders/gallery/filters; sides are in pixels.",
        **{one.key: (one.threshold_type, one.default) for one in list_image_filters()},
    )


class SelectionOptions(definitions.StrictModel):
    """How many images, of as many places and times as possible; count null: all of them. `uncovered_by`: a published
    set; only images of folders, formats, creators, months and places that no query of it asks about are selected."""

    count: int | None = Field(None, ge=1)
    place_degrees: float = Field(0.01, gt=0, le=180)
    time: Literal["year", "month", "day", "hour"] = "day"
    uncovered_by: definitions.SetPathOrName | None = None


class GalleryDefinition(definitions.SetDefinition):
    """A gallery: images without queries. `images`: a folder, a list file, a table, or an fsspec URL of one."""

    kind: Literal["gallery"] = "gallery"
    images: definitions.Location = Field(min_length=1)
    filter: ImageFilterOptions = ImageFilterOptions()
    near_duplicates: definitions.NearDuplicateOptions = definitions.NearDuplicateOptions()
    select: SelectionOptions = SelectionOptions()
    render: definitions.RenderOptions | None = definitions.RenderOptions()


_RULES = ("filter", "near_duplicates", "render")


class GallerySource(definitions.SetDefinition):
    """A set of the images of `gallery` (a published set with its own rules), or of `images` by the rules here."""

    gallery: definitions.SetPathOrName | None = None
    images: definitions.Location | None = Field(None, min_length=1)
    filter: ImageFilterOptions | None = ImageFilterOptions()
    near_duplicates: definitions.NearDuplicateOptions | None = definitions.NearDuplicateOptions()
    select: SelectionOptions = SelectionOptions()
    render: definitions.RenderOptions | None = definitions.RenderOptions()

    @model_validator(mode="before")
    @classmethod
    def _no_rules_of_its_own(cls, data: Any) -> Any:
        named = isinstance(data, dict) and data.get("gallery") is not None
        return dict.fromkeys(_RULES) | data if named else data

    @model_validator(mode="after")
    def _one_gallery(self) -> "GallerySource":
        if (self.gallery is None) == (self.images is None):
            raise ValueError("give either gallery (a published set) or images")
        given = [name for name in _RULES if getattr(self, name) is not None]
        if self.gallery is None and len(given) < len(_RULES):
            missing = next(name for name in _RULES if name not in given)
            raise ValueError(f"{missing} cannot be null: the images that pass it are shown to a model")
        if self.gallery is not None and (given or self.select.count is not None):
            name = given[0] if given else "select.count"
            raise ValueError(f"{name} has no effect together with gallery: set it in the gallery's own definition")
        return self

    def as_gallery(self) -> GalleryDefinition:
        """Return the definition of the gallery that the keys describe."""
        shared = {name: getattr(self, name) for name in GalleryDefinition.model_fields if name != "kind"}
        return GalleryDefinition(kind="gallery", **shared)
