"""The keys of a precision set's definition."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from backends.annotations.label_tables import list_shipped_tables
from backends.option_paths import BaseFolder, PathRule, resolve_if_exists
from flows.definitions.common import (
    NearDuplicateOptions,
    OneOrMore,
    RenderOptions,
    SetDefinition,
    StrictModel,
    reject_repetition,
)


class SearchableLabelOptions(StrictModel):
    """Which labels become queries. `count`: `any`: `min_images` images have the label, and it is prominent on one of
    them; `prominent`: it is prominent on `min_images` images. Prominent: a box larger than `area_ratio`."""

    area_ratio: float = Field(0.10, ge=0, lt=1)
    min_images: int = Field(10, ge=1)
    count: Literal["any", "prominent"] = "any"


class MixOptions(StrictModel):
    """Queries for several labels at once. `draws`: other labels sampled per seed; `cap`: maximum of mixes per level;
    `near_misses`: maximum of judgments with grade 0 per mix."""

    levels: int = Field(3, ge=1, le=5)
    mode: Literal["sampled", "exhaustive"] = "sampled"
    draws: int = Field(5, ge=1)
    cap: int | None = Field(None, ge=0)
    min_images: int = Field(10, ge=1)
    near_misses: int = Field(100, ge=0)


class BoxOptions(StrictModel):
    """Whether to count boxes of a crowd, and of a depiction or toy of the object (Objects365's isfake)."""

    crowd: bool = True
    fake: bool = True


def _resolve_table(text: str, folder: BaseFolder) -> str:
    return text if text in list_shipped_tables() else resolve_if_exists(text, folder)


TableName = Annotated[str, PathRule(_resolve_table)]  # of a shipped table, or a path
Once = AfterValidator(reject_repetition)


class PrecisionDefinition(SetDefinition):
    """A precision set. `labels`: a shipped table (objects365, coco80), a folder with labels.csv and tree.csv,
    `from_annotations` or `from_supercategories`; `parents`: which nodes of the tree become queries."""

    kind: Literal["precision"]
    annotations: Annotated[list[Path], OneOrMore, Field(min_length=1)]
    images: Path | None = None
    labels: TableName = "from_annotations"
    compatible: TableName | None = None
    boxes: BoxOptions = BoxOptions()
    searchable: SearchableLabelOptions = SearchableLabelOptions()
    parents: bool = True
    near_duplicates: NearDuplicateOptions = NearDuplicateOptions()
    mixes: MixOptions = MixOptions()
    texts: Annotated[list[Literal["word", "sentence"]], Once] = Field(["word", "sentence"], min_length=1)
    # null: those the labels have
    languages: Annotated[list[Literal["zh", "en"]], Once] | None = Field(None, min_length=1)
    grades: Literal["graded", "binary"] = "graded"
    render: RenderOptions | None = RenderOptions()
