"""The types of a manifest's keys, by which every manifest is checked when it is read. Further keys are allowed."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from builders.manifest_notes import Count, Notes, Number, Render

Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Grade = Annotated[str, Meta(pattern=r"^-?[0-9]{1,3}\Z")]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}\Z")]
Canary = Annotated[str, Meta(pattern=r"^querytruth-canary [0-9a-f-]{36}\Z")]
FileName = Annotated[str, Meta(pattern=r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._/-]{0,200}\Z")]
Version = Annotated[int, Meta(ge=1, le=999_999_999)]


class Spread(Struct):
    """Relevant images per query."""

    least: Count
    median: Number
    most: Count


class Counts(Struct):
    """`counts`, as `count_set` makes them."""

    queries: Count
    images: Count
    judgments: Count
    duplicate_groups: Count
    by_level: dict[str, Count]
    by_style: dict[str, Count]
    by_grade: dict[Grade, Count]
    by_judge: dict[str, Count]
    relevant_per_query: Spread


class FunnelStage(Struct):
    """A stage of `funnel`."""

    stage: str
    kind: str
    entered: Count
    accepted: Count
    rejected: dict[str, Count]
    quarantined: dict[str, Count]
    pending: dict[str, Count]


class StaleDecision(Struct):
    """A decision that no longer fits, and why."""

    decision: str
    why: str


class Decisions(Struct):
    """`decisions`."""

    in_effect: list[str]
    stale: list[StaleDecision]


class LogRecord(Struct):
    """A decision log when the version was published: its lines, its chain at the end, and the breaks of the chain."""

    lines: Count
    chain: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    breaks: Count


class ListedFile(Struct):
    """A file of the version."""

    path: FileName
    bytes: Count
    sha256: Digest
    rows: Count | None = None


class Input(Struct):
    """An input of the build."""

    file: str
    sha256: str
    counts: dict[str, Count] = msgspec.field(default_factory=dict)


class Model(Struct):
    """A model of the build."""

    role: str
    name: str
    revision: str
    parameters: dict[str, Any]


class Prompt(Struct):
    """A prompt of the build."""

    name: str
    sha256: str


class Threshold(Struct):
    """A threshold of the build."""

    name: str
    passes: Literal["over", "at least", "under", "at most"]
    value: Number
    inclusive: bool


class Parent(Struct):
    """The version before."""

    version: Version
    content_digest: Digest


class Envelope(Struct):
    """What no digest covers."""

    definition: dict[str, Any] | None = None
    calls: dict[str, Any] = msgspec.field(default_factory=dict)


class Configuration(Struct):
    """`configuration`: those keys of the resolved definition that readers use."""

    render: Render | None = None
    captions: dict[str, Any] | None = None
    gallery: str | None = None
    near_duplicates: dict[str, Any] | None = None


class Manifest(Struct):
    """manifest.json of schema version 2, and of version 1 after its upgrade."""

    schema_version: Annotated[int, Meta(ge=2, le=2)]
    name: Name
    version: Version
    kind: Literal["gallery", "recall", "precision", "generated", "imported"]
    title: str
    licence: str
    content_digest: Digest
    build_digest: str
    manifest_digest: Digest
    parent: Parent | None
    configuration: Configuration
    inputs: list[Input]
    models: list[Model]
    prompts: list[Prompt]
    thresholds: list[Threshold]
    counts: Counts
    funnel: list[FunnelStage]
    grades: dict[Grade, str]
    notes: Notes
    known_limitations: list[str]
    decisions: Decisions
    files: list[ListedFile]
    envelope: Envelope
    decision_logs: dict[str, LogRecord] = msgspec.field(default_factory=dict)
    canary: Canary | None = None  # versions from before it have none
