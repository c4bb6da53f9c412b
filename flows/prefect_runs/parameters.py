"""The parameters of each flow, as in Prefect's form and in prefect.yaml.

The definition stays a file that is read when the build starts: an edit needs no new deployment.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from builders.gallery.definition import GalleryDefinition
from builders.generated.definition import GeneratedDefinition
from builders.precision.definition import PrecisionDefinition
from builders.recall.definition import RecallDefinition
from flows.definition_loader import load_definition
from querytruth.definitions import SetDefinition, StrictModel

# A file in the form; a build started in this process passes the loaded definition.
_DEFINITION_FIELD = Field(description="The definition, a YAML file; a relative path is below the deployment's folder.")
_OVERRIDES_HELP = "Keys of the definition, changed for this run, such as select.count=1000."
_ASK_PEOPLE_HELP = "Start with topics, and wait for people after topics and after objects; else use what they kept."
_LOSE_AT_MOST_HELP = (
    "Wait for a person where more of the last version's queries would go; empty: the definition's share; 1: never."
)


class BuildParameters(StrictModel):
    """The parameters of all builds. `kind`: of the sets that they build, as in definitions."""

    kind: ClassVar[str]

    definition: Annotated[Any, _DEFINITION_FIELD]
    overrides: list[str] = Field(default_factory=list, description=_OVERRIDES_HELP)
    lose_at_most: float | None = Field(None, ge=0, le=1, description=_LOSE_AT_MOST_HELP)
    workers: int = Field(2, ge=1, le=256, description="Parts of the work done at once.")
    runner: str = Field("threads", description="threads, dask or ray; dask:ADDRESS for a cluster that is up.")
    hours: float | None = Field(None, gt=0, description="Stop after so long; the next run goes on from there.")

    def load_definition(self) -> SetDefinition:
        """The definition with its overrides; its own `lose_at_most` comes first. Raises UserError for a wrong one."""
        if isinstance(self.definition, SetDefinition):
            return self.definition
        read = load_definition(self.definition, self.overrides, self.kind)
        states_its_own = "lose_at_most" in read.model_fields_set and read.lose_at_most is not None
        if states_its_own or self.lose_at_most is None:
            return read
        return read.model_copy(update={"lose_at_most": self.lose_at_most})

    @property
    def label(self) -> str:
        """A short name for the run, known before the definition is loaded."""
        given = self.definition
        return given.name if isinstance(given, SetDefinition) else Path(given).stem

    @property
    def source(self) -> str:
        """The definition's path as given, for the next command."""
        return self.label if isinstance(self.definition, SetDefinition) else str(self.definition)


class GalleryBuild(BuildParameters):
    """A gallery from many images."""

    kind = "gallery"

    definition: Annotated[Path | SkipJsonSchema[GalleryDefinition], _DEFINITION_FIELD]


class ChatModelBuild(BuildParameters):
    """A build that asks chat models."""

    offline: bool = Field(False, description="Connect to nothing: use the replies, pages and models that are stored.")
    retry_failures: bool = Field(False, description="Ask again what a chat model failed at for good.")


class PrecisionBuild(ChatModelBuild):
    """A precision set from detection labels, with phrasings by a chat model where they are wanted."""

    kind = "precision"

    definition: Annotated[Path | SkipJsonSchema[PrecisionDefinition], _DEFINITION_FIELD]


class RecallBuild(ChatModelBuild):
    """A recall set from images and their captions."""

    kind = "recall"

    definition: Annotated[Path | SkipJsonSchema[RecallDefinition], _DEFINITION_FIELD]


class GeneratedStage(ChatModelBuild):
    """A stage of a generated set: topics, objects, or images from the web."""

    kind = "generated"

    definition: Annotated[Path | SkipJsonSchema[GeneratedDefinition], _DEFINITION_FIELD]


class GeneratedBuild(GeneratedStage):
    """A generated set from the objects that people kept, or from the first stage."""

    ask_people: bool = Field(False, description=_ASK_PEOPLE_HELP)
