"""The keys of a training's definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from querytruth.backends.files.option_paths import PathOrName
from querytruth.definitions import OutputFolder, SetDefinition, SetPathOrName, StrictModel

RECURRENT_ARCHITECTURES = ("gru", "lstm")
ENLARGEMENT = 1.15  # images are kept larger than they are shown, by so much


class SplitOptions(StrictModel):
    """The number of images (below 1: the share) that choose the best epoch, and of those held out for the figures.
    `lists`: files with the names of the images of each part, as publishers have them; the images of none are left out.
    """

    validation: float = Field(0.125, gt=0)
    test: float = Field(0.125, gt=0)
    lists: dict[Literal["train", "validation", "test"], Path] | None = Field(None, min_length=3)

    @model_validator(mode="after")
    def _numbers_are_whole(self) -> SplitOptions:
        if self.lists is not None and self.model_fields_set & {"validation", "test"}:
            raise ValueError("lists already assign the images to parts: leave out validation and test")
        for value in (self.validation, self.test):
            if value >= 1 and value != int(value):
                raise ValueError(f"{value} is neither a share nor a whole number of images")
        return self


class TowerOptions(StrictModel):
    """A model of transformers: `name`, a trained one on the hub or in a folder, or `architecture` with the `options` of
    its configuration, trained from random weights."""

    name: PathOrName | None = None
    architecture: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> TowerOptions:
        if (self.name is None) == (self.architecture is None):
            raise ValueError("give either name, a trained model, or architecture with options")
        if self.options and self.name is not None:
            raise ValueError("options belong to an architecture: a trained model has its own")
        return self


class HeadOptions(StrictModel):
    """The layers over both towers: `pooling` of tokens to one vector, a map to `width`, and a projection head with
    `hidden` units and `dimensions` outputs."""

    pooling: Literal["cls", "mean", "max", "mean_max"] = "mean_max"
    width: int = Field(768, ge=1)
    hidden: int = Field(1024, ge=1)
    dimensions: int = Field(512, ge=2)
    dropout: float = Field(0.1, ge=0, lt=1)


class LossOptions(StrictModel, allow_inf_nan=False):
    """InfoNCE, and margins to hard negatives, weighted as in docs/evaluation.md. `hard_negatives` false: InfoNCE
    only."""

    temperature: float = Field(0.07, gt=0)
    smoothing: float = Field(0.1, ge=0, lt=1)
    hard_negatives: bool = True


class OptimizationOptions(StrictModel, allow_inf_nan=False):
    """The optimization. `rate`: the highest learning rate, after `warm_up` epochs; `stages`: the first epochs of the
    four stages of unfreezing, [] to train all from the start; `clip`: maximum gradient norm; `patience`: epochs
    without improvement before it stops, null: never; `keep_every`: seconds between two states on disk."""

    epochs: int = Field(20, ge=1)
    batch: int = Field(64, ge=2)
    rate: float = Field(3e-5, gt=0)
    decay: float = Field(0.01, ge=0)
    warm_up: float = Field(1, ge=0)
    stages: list[int] = Field([1, 4, 7, 11])
    clip: float = Field(1.0, gt=0)
    patience: int | None = Field(5, ge=1)
    keep_every: float = Field(300, ge=0)

    @model_validator(mode="after")
    def _four_stages(self) -> OptimizationOptions:
        rising = all(earlier < later for earlier, later in zip(self.stages, self.stages[1:], strict=False))
        if self.stages and (len(self.stages) != 4 or self.stages[0] != 1 or not rising):
            raise ValueError("stages needs four rising epochs from 1 on, or []")
        return self


class AugmentationOptions(StrictModel, allow_inf_nan=False):
    """Random changes of the training images (0: none), with the values of the report. `flip`, `perspective` and the
    like are shares of images; `crop` is the smallest share of the area that is kept; `rotation` is in degrees; jitters
    are around 1, the hue's in turns. `respect_captions`: no mirroring if a caption says left or right, no change of hue
    and no greyscale if it names a colour."""

    crop: float = Field(0.6, gt=0, le=1)
    flip: float = Field(0.7, ge=0, le=1)
    rotation: float = Field(15, ge=0, le=180)
    brightness: float = Field(0.4, ge=0, le=1)
    contrast: float = Field(0.4, ge=0, le=1)
    saturation: float = Field(0.4, ge=0, le=1)
    hue: float = Field(0.2, ge=0, le=0.5)
    perspective: float = Field(0.3, ge=0, le=1)
    distortion: float = Field(0.3, ge=0, lt=1)
    autocontrast: float = Field(0.3, ge=0, le=1)
    greyscale: float = Field(0.15, ge=0, le=1)
    erase: float = Field(0.3, ge=0, le=1)
    respect_captions: bool = True


class TrainingDefinition(SetDefinition):
    """A dual encoder trained on a set. `set`: name, name/v3 or folder; `languages`: languages of the queries, null:
    all; `size`: side of the input images in pixels; `max_length`: tokens of a text; `device`: null uses a GPU if there
    is one; `out`: the folder of all models."""

    kind: Literal["training"] = "training"
    set: SetPathOrName
    out: OutputFolder = Path("models")
    languages: list[str] | None = Field(None, min_length=1)
    split: SplitOptions = SplitOptions()
    images: TowerOptions = TowerOptions(name="microsoft/resnet-101")
    texts: TowerOptions = TowerOptions(name="google-bert/bert-base-chinese")
    size: int = Field(224, ge=16, le=1024)
    max_length: int = Field(40, ge=4, le=512)
    heads: HeadOptions = HeadOptions()
    loss: LossOptions = LossOptions()
    steps: OptimizationOptions = OptimizationOptions()
    augmentation: AugmentationOptions | None = AugmentationOptions()
    device: str | None = None

    @model_validator(mode="after")
    def _towers_fit(self) -> TrainingDefinition:
        if self.work is not None:
            raise ValueError("a training does not use a bucket: leave out work")
        if self.publish_to is not None:
            raise ValueError("models are stored on disk: set out to a folder, and leave out publish_to")
        if self.images.architecture in RECURRENT_ARCHITECTURES:
            raise ValueError(f"images.architecture: {self.images.architecture} reads texts, not images")
        if self.texts.architecture in RECURRENT_ARCHITECTURES and self.heads.pooling == "cls":
            raise ValueError("heads.pooling: cls is the first token's vector, which a gru or lstm has not filled yet")
        return self
