"""The parameters of each flow: what Prefect's form asks for, and what prefect.yaml says.

The definition stays a file, read when the build starts: whoever edits it need not deploy again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from flows.definitions import (
    GalleryDefinition,
    GeneratedDefinition,
    PrecisionDefinition,
    RecallDefinition,
    SetDefinition,
    load_definition,
)
from flows.definitions.common import StrictModel

# On the form a file; a build that was started by hand brings what it has read.
_DEFINITION_FIELD = Field(description="The definition, a YAML file; a relative path is below the deployment's folder.")
_OVERRIDES_HELP = "Keys of the definition, changed for this run, such as select.count=1000."
_ASK_PEOPLE_HELP = (
    "Start with topics, and wait for people after topics and after objects; else what they kept before counts."
)
_LOSE_AT_MOST_HELP = "Wait for a person where more than this share of the last version's queries would go; 1: never."


class BuildParameters(StrictModel):
    """What all builds are given. `kind`: of the sets that they build, as definitions name it."""

    kind: ClassVar[str]

    definition: Annotated[Any, _DEFINITION_FIELD]
    overrides: list[str] = Field(default_factory=list, description=_OVERRIDES_HELP)
    lose_at_most: float = Field(0.2, ge=0, le=1, description=_LOSE_AT_MOST_HELP)
    workers: int = Field(2, ge=1, le=256, description="Parts of the work done at once.")
    runner: str = Field("threads", description="threads, dask or ray; dask:ADDRESS for a cluster that is up.")
    hours: float | None = Field(None, gt=0, description="Stop after so long; the next run goes on from there.")

    def load_definition(self) -> SetDefinition:
        """The definition with its overrides; its own `lose_at_most` counts first."""
        if isinstance(self.definition, SetDefinition):
            return self.definition
        read = load_definition(self.definition, self.overrides, self.kind)
        if read.lose_at_most is not None:
            return read
        return read.model_copy(update={"lose_at_most": self.lose_at_most})

    @property
    def label(self) -> str:
        """A short name for the run, before anything is read."""
        given = self.definition
        return given.name if isinstance(given, SetDefinition) else Path(given).stem

    @property
    def source(self) -> str:
        """The definition as the person named it, for the next command."""
        return self.label if isinstance(self.definition, SetDefinition) else str(self.definition)


class GalleryBuild(BuildParameters):
    """A gallery from a pile of pictures."""

    kind = "gallery"

    definition: Annotated[Path | SkipJsonSchema[GalleryDefinition], _DEFINITION_FIELD]


class PrecisionBuild(BuildParameters):
    """A precision set from detection labels."""

    kind = "precision"

    definition: Annotated[Path | SkipJsonSchema[PrecisionDefinition], _DEFINITION_FIELD]


class ChatModelBuild(BuildParameters):
    """A build that asks chat models."""

    offline: bool = Field(False, description="Ask no chat model: recorded replies are all there is.")
    retry_failures: bool = Field(False, description="Ask again what a chat model failed at for good.")


class RecallBuild(ChatModelBuild):
    """A recall set from pictures and their captions."""

    kind = "recall"

    definition: Annotated[Path | SkipJsonSchema[RecallDefinition], _DEFINITION_FIELD]


class GeneratedStage(ChatModelBuild):
    """A stage of a generated set: topics, objects, or pictures from the web."""

    kind = "generated"

    definition: Annotated[Path | SkipJsonSchema[GeneratedDefinition], _DEFINITION_FIELD]


class GeneratedBuild(GeneratedStage):
    """A generated set from what people kept, or from the very start."""

    ask_people: bool = Field(False, description=_ASK_PEOPLE_HELP)
