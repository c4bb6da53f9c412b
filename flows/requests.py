"""Requests of builds and of the stages before them: the options of their commands, the arguments of `qt.build`, and the
form of their Prefect flows.

The definition stays a file that is read when the build starts: an edit needs no new deployment.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from querytruth.audit.definition import AuditDefinition, AuditKeys
from querytruth.audit.requests import JudgeRequest
from querytruth.backends.files.bucket_urls import is_object_url
from querytruth.backends.steps import BuildRun, Reporter
from querytruth.definitions import SetDefinition
from querytruth.errors import UsageError, UserError
from querytruth.requests import IN_FORMS, ByName, ByPlace, Request

# A file in the form; a program gives the keys of a definition, or a typed one.
_DEFINITION = Annotated[Any, ByPlace("DEFINITION.yaml", Path), WithJsonSchema({"type": "string", "format": "path"})]

_OFFLINE = Field(description="Make no connections: use only stored replies, pages and models.")
_RETRY_FAILURES = Field(description="Ask again where a chat model failed permanently.")
_WORKERS = Field(ge=1, le=256, description="Number of parts processed in parallel (default: all cores).")
_HOURS = Field(gt=0, description="Stop after this many hours; the next run resumes.")
_RUN_FLAGS = ("rescan", "offline", "retry_failures", "accept_loss")


def list_overrides(given: object) -> Any:
    """Return a program's dict of keys and values, as texts."""
    if isinstance(given, Mapping):
        return [f"{key}={json.dumps(value, default=str)}" for key, value in given.items()]
    return [] if given is None else given


class DefinitionRequest(Request):
    """An operation on a set's definition. `kind`: of the sets, as in definitions; None: of each."""

    stage: ClassVar[str] = "build"
    kind: ClassVar[str | None] = None

    definition: _DEFINITION = Field(
        description="The definition, a YAML file; in a deployment, a relative path starts at its folder."
    )
    overrides: Annotated[list[str], BeforeValidator(list_overrides), ByName("--set", "KEY=VALUE")] = Field(
        default_factory=list, description="Keys of the definition to change for this run, such as select.count=1000."
    )
    out: Path | None = Field(None, description="Folder that holds the sets (default: the definition's key out).")

    @property
    def is_loaded(self) -> bool:
        """Return whether a program gives the definition itself."""
        return isinstance(self.definition, SetDefinition)

    def load_definition(self) -> SetDefinition:
        """Return the definition with its overrides. Raises UserError for a wrong one."""
        overrides = list(self.overrides)
        if self.out is not None:
            out = self.out if is_object_url(str(self.out)) else self.out.absolute()
            overrides.append(f"out={json.dumps(str(out))}")
        if not self.is_loaded:
            from flows.definition_loader import load_definition  # all kinds, which take long to load

            given = Path(self.definition) if isinstance(self.definition, str) else self.definition
            checked = load_definition(given, overrides, self.kind)
        elif overrides:
            item = type(self.definition).__name__
            raise UserError("read definition", item, "accepts no overrides", "set its keys directly")
        else:
            checked = self.definition
        if checked.kind == "training" != self.kind:
            raise UserError("build", checked.name, "has kind training, which is not a set", "run querytruth train")
        return checked

    @property
    def label(self) -> str:
        """Return a short name, known before the definition is loaded."""
        given = self.definition
        if isinstance(given, str | Path):
            return Path(given).stem
        return str(given.get("name") if isinstance(given, Mapping) else getattr(given, "name", "the definition"))

    @property
    def source(self) -> str:
        """Return the definition's path as given, for the next command."""
        return str(self.definition) if isinstance(self.definition, str | Path) else self.label

    def start_run(self, reporter: Reporter) -> BuildRun:
        """Return how it runs."""
        return BuildRun(reporter, self.worker_count, **self.run_flags)

    @property
    def worker_count(self) -> int:
        """Return how many parts run in parallel: without a number, as many as there are cores."""
        return getattr(self, "workers", None) or os.cpu_count() or 1

    @property
    def run_flags(self) -> dict[str, Any]:
        """Return which of `rescan`, `offline`, `retry_failures` and `accept_loss` are set."""
        return {name: getattr(self, name, False) for name in _RUN_FLAGS}


class BuildRequest(DefinitionRequest):
    """A build of a set."""

    lose_at_most: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Refuse to publish if a larger share of the last version's queries would be lost; a deployment "
        "asks a person. Empty: the definition's share; 1: never.",
    )
    workers: Annotated[int | None, _WORKERS] = None
    runner: Annotated[str, ByName("--runner", "threads|dask")] = Field(
        "threads", description="Where images are read: threads, dask, or dask:ADDRESS (a running cluster)."
    )
    accept_loss: bool = Field(False, description="Continue even if decisions of the newest version were lost.")
    hours: Annotated[float | None, _HOURS, IN_FORMS] = None

    def load_definition(self) -> SetDefinition:
        """Return the definition with its overrides; its own `lose_at_most` comes first. Raises UserError for a wrong
        one."""
        read = super().load_definition()
        states_its_own = "lose_at_most" in read.model_fields_set and read.lose_at_most is not None
        if states_its_own or self.lose_at_most is None:
            return read
        return read.model_copy(update={"lose_at_most": self.lose_at_most})


class GalleryBuild(BuildRequest):
    """A gallery from many images."""

    kind: ClassVar[str | None] = "gallery"

    rescan: bool = Field(False, description="Read every image again, even those that did not change.")


class ModelBuild(GalleryBuild):
    """A build that also asks models."""

    kind: ClassVar[str | None] = None

    offline: Annotated[bool, _OFFLINE] = False
    retry_failures: Annotated[bool, _RETRY_FAILURES] = False


class PrecisionBuild(ModelBuild):
    """A precision set from detection labels, with phrasings by a chat model where they are wanted."""

    kind: ClassVar[str | None] = "precision"


class RecallBuild(ModelBuild):
    """A recall set from images and their captions."""

    kind: ClassVar[str | None] = "recall"


class GeneratedBuild(BuildRequest):
    """A generated set from the objects that people kept, or from the first stage."""

    kind: ClassVar[str | None] = "generated"

    offline: Annotated[bool, _OFFLINE] = False
    retry_failures: Annotated[bool, _RETRY_FAILURES, IN_FORMS] = False
    ask_people: Annotated[bool, IN_FORMS] = Field(
        False,
        description="Start with topics and objects, and wait for people after each; otherwise use what they kept.",
    )


class QueriesBuild(GalleryBuild):
    """A set of own queries, from a search log; then, where people are asked, the version with their judgments."""

    kind: ClassVar[str | None] = "queries"

    ask_people: Annotated[bool, IN_FORMS] = Field(
        False, description="After the set is published, wait for people's judgments and publish them."
    )


class CollectStage(DefinitionRequest):
    """The stage of a generated set that searches the web."""

    kind: ClassVar[str | None] = "generated"
    runner: ClassVar[str] = "threads"

    offline: Annotated[bool, _OFFLINE] = False
    workers: Annotated[int | None, _WORKERS, IN_FORMS] = None
    hours: Annotated[float | None, _HOURS, IN_FORMS] = None


class ChatStage(CollectStage):
    """A stage of a generated set in which a chat model proposes topics, or objects."""

    retry_failures: Annotated[bool, _RETRY_FAILURES] = False


class TrainingRequest(DefinitionRequest):
    """A training of a dual encoder on a set."""

    stage: ClassVar[str] = "train"
    kind: ClassVar[str | None] = "training"

    workers: Annotated[int | None, _WORKERS] = None


class RefreshRequest(DefinitionRequest):
    """Which replies the next build requests again."""

    stage: ClassVar[str] = "refresh replies"

    model: str = Field(description="Name of the model, as in the manifest.")


class DrawRequest(AuditKeys, JudgeRequest):
    """A plan of an audit, or its start: by its definition, or by a set and these fields."""

    stage: ClassVar[str] = "audit"

    audited: Annotated[str, ByPlace("SET|AUDIT.yaml")] = Field(
        description="The set, or the definition of an audit, a YAML file."
    )
    overrides: Annotated[list[str], BeforeValidator(list_overrides), ByName("--set", "KEY=VALUE")] = Field(
        default_factory=list, description="Keys of the definition to change for this run, such as judgments=500."
    )
    offline: Annotated[bool, _OFFLINE] = False

    def load_definition(self) -> AuditDefinition:
        """Return the audit. Raises UserError for a wrong definition, UsageError for fields that do not go together."""
        from flows.definition_loader import load_audit_definition

        if Path(self.audited).suffix in (".yaml", ".yml"):
            stated = sorted(self.model_fields_set - {"audited", "overrides", "offline"})
            if stated:
                next_step = "change the file, or use --set KEY=VALUE"
                raise UsageError(stated[0], f"is already set in {self.audited}", next_step, self.stage)
            return load_audit_definition(Path(self.audited), self.overrides)
        if self.overrides:
            raise UsageError("overrides", "need an audit definition", "give one: AUDIT.yaml", self.stage)
        keys = {name: getattr(self, name) for name in AuditKeys.model_fields}
        return AuditDefinition(set=self.audited, judge=self.load_judge(), **keys)


class ImportRequest(Request):
    """Somebody else's files as a set."""

    stage: ClassVar[str] = "import"

    format: Annotated[str, ByPlace("FORMAT")] = Field(
        description="Name of the format (docs/formats.md); an unknown name lists the nearest one."
    )
    source: Annotated[Path, ByPlace("SOURCE")] = Field(description="Folder or file of the publisher.")
    to: Annotated[Path, ByPlace("OUT")] = Field(description="Folder of the set, such as datasets/muge.")
    images: Path | None = Field(None, description="Folder of the images, if it is a different one.")
    gallery: Literal["folder", "named"] | None = Field(
        None,
        description="All images of the folder (default for tables of pairs) or only the named ones (other formats).",
    )
    split: str | None = Field(None, description="Split to import (default: the one used for evaluation).")
    title: str = Field("", description="Title of the set (default: the publisher's).")
    licence: str = Field("", description="Licence of the set (default: the publisher's).")
    lose_at_most: float = Field(0.2, ge=0, le=1, description="Share of the last version's queries that may be lost.")
    accept_loss: bool = Field(False, description="Continue even if decisions of the newest version were lost.")
    tables: Annotated[list[str], BeforeValidator(list_overrides), ByName("--table", "KEY=VALUE")] = Field(
        default_factory=list, description="Options for reading its tables, such as encoding=gb18030 or sheet=final."
    )

    @property
    def keys(self) -> dict[str, Any]:
        """Return the keys of the definition."""
        images = self.images
        if images is None and self.format == "golden":
            from querytruth.checks.golden_file import load_golden

            images = load_golden(self.source, {}).images  # the folder that its search indexes
        # Absolute, so that rebuild --check finds them from anywhere; the manifest keeps the names alone.
        places = {"annotations": str(self.source.absolute()), "images": images and str(images.absolute())}
        named = {"name": self.to.name, "out": str(self.to.parent), "lose_at_most": self.lose_at_most}
        stated = {name: getattr(self, name) for name in ("format", "gallery", "split", "title", "licence")}
        return {**places, **named, **stated, "tables": dict(one.split("=", 1) for one in self.tables if "=" in one)}
