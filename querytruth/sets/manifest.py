"""The types of a manifest's keys, by which every manifest is checked when it is read. Further keys are allowed.

Records of a manifest: the inputs, models, prompts and thresholds of a build.

Reads manifest.json of a version, and checks every key of it, as it may be a stranger's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from querytruth.backends.files.safe_paths import contained_file, read_regular
from querytruth.backends.files.text_formats import canonical_json, parse_bounded_json
from querytruth.errors import UserError, first_line
from querytruth.sets.manifest_notes import Count, Notes, Number, Render

Direction = Literal["over", "at least", "under", "at most"]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Grade = Annotated[str, Meta(pattern=r"^-?[0-9]{1,3}\Z")]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}\Z")]
Canary = Annotated[str, Meta(pattern=r"^querytruth-canary [0-9a-f-]{36}\Z")]
FileName = Annotated[str, Meta(pattern=r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._/-]{0,200}\Z")]
Version = Annotated[int, Meta(ge=1, le=999_999_999)]
KINDS = ["gallery", "recall", "precision", "generated", "queries", "imported"]
_PLURALS = {"box": "boxes", "mix": "mixes", "query": "queries", "reply": "replies"}
FUNNEL_COLUMNS = ["stage", "in", "kept", "rejected"]
_STAGE = "read set"
MAX_MANIFEST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class ThresholdRecord:
    """A threshold, named as the definition's key: an item passes if its value is `direction` the threshold."""

    name: str
    direction: Direction
    value: float

    @property
    def inclusive(self) -> bool:
        """Whether an item with exactly this value passes."""
        return self.direction in ("at least", "at most")

    def as_dict(self) -> dict[str, Any]:
        """Returns the record as the manifest stores it."""
        return {"name": self.name, "passes": self.direction, "value": self.value, "inclusive": self.inclusive}


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model or a service that a build uses, and its role there."""

    role: str
    name: str
    revision: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A file or a published set that a build reads. `sha256` is the file's digest or the set's content digest; `counts`
    is the number of items by kind."""

    file: str
    sha256: str
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of_set(cls, manifest: Mapping[str, Any]) -> InputRecord:
        """Returns the record of a published set."""
        counts = {"images": manifest["counts"]["images"], "queries": manifest["counts"]["queries"]}
        counts = {kind: count for kind, count in counts.items() if count}  # a gallery has no queries
        return cls(f"{manifest['name']}/v{manifest['version']}", manifest["content_digest"], counts)


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """A prompt template, or a file of rules for replies."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything that a build depends on; `+` joins two."""

    inputs: list[InputRecord] = field(default_factory=list)
    models: list[ModelRecord] = field(default_factory=list)
    prompts: list[PromptRecord] = field(default_factory=list)
    thresholds: list[ThresholdRecord] = field(default_factory=list)

    def __add__(self, other: Provenance) -> Provenance:
        return Provenance(
            self.inputs + other.inputs,
            self.models + other.models,
            self.prompts + other.prompts,
            self.thresholds + other.thresholds,
        )

    def as_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the four lists as the manifest stores them."""
        return asdict(self) | {"thresholds": [record.as_dict() for record in self.thresholds]}

    @classmethod
    def from_dict(cls, manifest: Mapping[str, Any]) -> Provenance:
        """Returns the provenance that a manifest or the summary of a stage stores."""
        return cls(
            [InputRecord(**entry) for entry in manifest["inputs"]],
            [ModelRecord(**entry) for entry in manifest["models"]],
            [PromptRecord(**entry) for entry in manifest["prompts"]],
            [ThresholdRecord(one["name"], one["passes"], one["value"]) for one in manifest["thresholds"]],
        )


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
    kind: Name
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


def pluralize_kind(kind: str) -> str:
    """Returns the plural of a kind."""
    return _PLURALS.get(kind, f"{kind}s")


def tabulate_funnel(funnel: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """Returns the stages of a manifest as rows of FUNNEL_COLUMNS for display, with the most frequent reasons first."""
    rows = []
    for stage in funnel:
        dropped_by_reason = {**stage["rejected"], **stage["quarantined"], **stage["pending"]}
        reasons = sorted(dropped_by_reason.items(), key=lambda pair: -pair[1])
        rest = ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in reasons)
        entered = f"{stage['entered']:,} {pluralize_kind(stage['kind'])}"
        rows.append([stage["stage"].replace("_", " "), entered, stage["accepted"], rest])
    return rows


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Returns the sha256 of the manifest without its own digest; it detects damage to the manifest file."""
    return hashlib.sha256(canonical_json({k: v for k, v in manifest.items() if k != "manifest_digest"})).hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads a version's manifest, with the keys of the current schema version. Raises UserError with file and key, and
    where the manifest is damaged."""
    data, file = read_manifest_bytes(path), path / "manifest.json"
    manifest = parse_manifest(data, file)
    if not is_undamaged_manifest(data):
        raise _wrong(file, "is damaged: its own checksum differs")
    return manifest


def read_manifest_bytes(path: Path) -> bytes:
    """Returns the bytes of a version's manifest. Raises UserError where it is no regular file, or is too large."""
    file = contained_file(path, "manifest.json", _STAGE)
    try:
        return read_regular(file, MAX_MANIFEST_BYTES)
    except OSError as error:
        raise _wrong(file, f"cannot be read ({error.strerror or error})") from None


def parse_manifest(data: bytes, file: Path) -> dict[str, Any]:
    """Returns the manifest in these bytes; `file` is for messages. Raises UserError with file and key. Its digest is
    not checked."""
    try:
        manifest = parse_bounded_json(data)
    except ValueError as error:
        raise _wrong(file, f"is no manifest ({first_line(error)})") from None
    try:
        msgspec.convert(manifest, Manifest)
    except msgspec.ValidationError as error:
        raise _wrong(file, f"is not as expected: {str(error).replace('`$.', '`')[:300]}") from None
    if manifest["kind"] not in KINDS:
        raise _wrong(file, f"is not as expected: Invalid value {manifest['kind']!r} - at `kind`")
    checked: dict[str, Any] = manifest
    return checked


def is_undamaged_manifest(data: bytes) -> bool:
    """Whether the digest in the bytes of a manifest is that of all its other keys."""
    manifest = json.loads(data)  # as it is stored: an older one without the keys of the current version
    return bool(manifest["manifest_digest"] == manifest_digest(manifest))


def _wrong(file: Path, reason: str) -> UserError:
    return UserError(_STAGE, file, reason, "run verify on the set, or ask for it again")
