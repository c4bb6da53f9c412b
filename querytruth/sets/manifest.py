"""The manifest of a version: the types of its keys, used to write and read it, and its checks, as the manifest may be
untrusted. It remains the plain data of manifest.json: a version may have further keys, and keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict, cast

import msgspec
from msgspec import Meta

from querytruth.backends.files.safe_paths import contained_file, read_regular
from querytruth.backends.files.text_formats import canonical_json, parse_bounded_json
from querytruth.errors import UserError, first_line
from querytruth.sets.manifest_notes import Count, Notes, Number, Render

if TYPE_CHECKING:
    from querytruth.backends.plugins import ModelIdentity  # loads pydantic, which is slow

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


class Spread(TypedDict):
    """Relevant images per query."""

    least: Count
    median: Number
    most: Count


class Counts(TypedDict):
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


class FunnelStage(TypedDict):
    """A stage of `funnel`."""

    stage: str
    kind: str
    entered: Count
    accepted: Count
    rejected: dict[str, Count]
    quarantined: dict[str, Count]
    pending: dict[str, Count]


class StaleDecision(TypedDict):
    """A decision that no longer fits, its target, and the reason."""

    decision: str
    why: str


class Decisions(TypedDict):
    """`decisions`."""

    in_effect: list[str]
    stale: list[StaleDecision]
    conflicts: NotRequired[list[dict[str, Any]]]


class LogRecord(TypedDict):
    """A decision log when the version was published: its lines, its chain at the end, and the breaks of the chain."""

    lines: Count
    chain: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    breaks: Count


class ListedFile(TypedDict):
    """A file of the version."""

    path: FileName
    bytes: Count
    sha256: Digest
    rows: NotRequired[Count | None]


class Input(TypedDict):
    """A file or a published set that a build reads: `sha256` is the file's digest or the set's content digest, `counts`
    the number of items by kind."""

    file: str
    sha256: str
    counts: NotRequired[dict[str, Count]]


class Model(TypedDict):
    """A model or a service that a build uses, and its role there."""

    role: str
    name: str
    revision: str
    parameters: dict[str, Any]


class Prompt(TypedDict):
    """A prompt template, or a file of rules for replies."""

    name: str
    sha256: str


class Threshold(TypedDict):
    """A threshold, named as the definition's key: an item passes if its value is `passes` the threshold, with exactly
    this value if it is `inclusive`."""

    name: str
    passes: Direction
    value: Number
    inclusive: bool


class Parent(TypedDict):
    """The version before."""

    version: Version
    content_digest: Digest


class Envelope(TypedDict):
    """The keys that no digest covers, besides the versions of the code and its libraries."""

    created: NotRequired[str]
    definition: NotRequired[dict[str, Any] | None]
    calls: NotRequired[dict[str, Any]]


class Selection(TypedDict):
    """The selection of a gallery's images."""

    place_degrees: NotRequired[Annotated[float, Meta(gt=0, le=180)]]


class Configuration(TypedDict):
    """`configuration`: those keys of the resolved definition that readers use."""

    render: NotRequired[Render | None]
    captions: NotRequired[dict[str, Any] | None]
    gallery: NotRequired[str | None]
    select: NotRequired[Selection | None]
    near_duplicates: NotRequired[dict[str, Any] | None]


class ProvenanceLists(TypedDict):
    """The inputs of a build."""

    inputs: list[Input]
    models: list[Model]
    prompts: list[Prompt]
    thresholds: list[Threshold]


class BuildRecord(ProvenanceLists):
    """The statements of a build about its set."""

    name: Name
    kind: Name
    title: str
    licence: str
    configuration: Configuration
    funnel: list[FunnelStage]
    grades: dict[Grade, str]
    notes: Notes
    known_limitations: list[str]


class Manifest(BuildRecord):
    """manifest.json of schema version 2. A version may have further keys."""

    schema_version: Annotated[int, Meta(ge=2, le=2)]
    version: Version
    content_digest: Digest
    build_digest: str
    manifest_digest: Digest
    parent: Parent | None
    counts: Counts
    decisions: Decisions
    files: list[ListedFile]
    envelope: Envelope
    decision_logs: NotRequired[dict[str, LogRecord]]
    canary: Canary


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything that a build depends on, as its manifest stores it; `+` joins two."""

    inputs: list[Input] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    thresholds: list[Threshold] = field(default_factory=list)

    def __add__(self, other: Provenance) -> Provenance:
        return Provenance(
            self.inputs + other.inputs,
            self.models + other.models,
            self.prompts + other.prompts,
            self.thresholds + other.thresholds,
        )

    def as_dict(self) -> ProvenanceLists:
        """Return the four lists as the manifest stores them."""
        return {"inputs": self.inputs, "models": self.models, "prompts": self.prompts, "thresholds": self.thresholds}

    @classmethod
    def from_dict(cls, lists: ProvenanceLists) -> Provenance:
        """Return the provenance that a manifest or the summary of a stage stores."""
        return cls(lists["inputs"], lists["models"], lists["prompts"], lists["thresholds"])


def describe_model(role: str, identity: ModelIdentity) -> Model:
    """Return the record of a model or a search in a role."""
    return {"role": role, "name": identity.name, "revision": identity.revision, "parameters": identity.parameters}


def describe_threshold(name: str, passes: Direction, value: Number) -> Threshold:
    """Return the record of a threshold, named as the definition's key."""
    return {"name": name, "passes": passes, "value": value, "inclusive": passes in ("at least", "at most")}


def describe_input_set(manifest: Manifest) -> Input:
    """Return the record of a published set that a build reads."""
    counts = {"images": manifest["counts"]["images"], "queries": manifest["counts"]["queries"]}
    counts = {kind: count for kind, count in counts.items() if count}  # a gallery has no queries
    name = f"{manifest['name']}/v{manifest['version']}"
    return {"file": name, "sha256": manifest["content_digest"], "counts": counts}


def pluralize_kind(kind: str) -> str:
    """Return the plural of a kind."""
    return _PLURALS.get(kind, f"{kind}s")


def tabulate_funnel(funnel: Iterable[FunnelStage]) -> list[list[object]]:
    """Return the stages of a manifest as rows of FUNNEL_COLUMNS for display, with the most frequent reasons first."""
    rows = []
    for stage in funnel:
        dropped_by_reason = {**stage["rejected"], **stage["quarantined"], **stage["pending"]}
        reasons = sorted(dropped_by_reason.items(), key=lambda pair: -pair[1])
        rest = ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in reasons)
        entered = f"{stage['entered']:,} {pluralize_kind(stage['kind'])}"
        rows.append([stage["stage"].replace("_", " "), entered, stage["accepted"], rest])
    return rows


def manifest_digest(manifest: Mapping[str, object]) -> str:
    """Return the sha256 of the manifest without its own digest; it detects damage to the manifest file."""
    return hashlib.sha256(canonical_json({k: v for k, v in manifest.items() if k != "manifest_digest"})).hexdigest()


def strip_folders(value: Any) -> Any:
    """Return the value with each absolute path or URL replaced by its last part."""
    if isinstance(value, dict):
        return {
            # The name and version of a set, wherever it is stored.
            key: "/".join(Path(inner).parts[-2:]) if key == "gallery" and inner else strip_folders(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [strip_folders(inner) for inner in value]
    return Path(value).name if (isinstance(value, str) and ("://" in value or Path(value).is_absolute())) else value


def make_private(manifest: Manifest) -> tuple[Manifest, bytes]:
    """Return the manifest without the host and the folders of the build, and as bytes."""
    envelope = {key: strip_folders(value) for key, value in manifest["envelope"].items() if key != "host"}
    private = cast(Manifest, {**manifest, "envelope": envelope})
    private["manifest_digest"] = manifest_digest(private)
    return private, canonical_json(private)


def read_manifest(path: Path) -> Manifest:
    """Read a version's manifest. Raises UserError with file and key, and where the manifest is damaged."""
    return check_manifest(read_manifest_bytes(path), path / "manifest.json")


def check_manifest(data: bytes, file: Path) -> Manifest:
    """Return the manifest in these bytes as `parse_manifest` does. Raises UserError also where it is damaged."""
    manifest = parse_manifest(data, file)
    if not is_undamaged_manifest(data):
        raise _wrong(file, "is damaged: its checksum does not match")
    return manifest


def read_manifest_bytes(path: Path) -> bytes:
    """Return the bytes of a version's manifest. Raises UserError where it is not a regular file, or is too large."""
    file = contained_file(path, "manifest.json", _STAGE)
    try:
        return read_regular(file, MAX_MANIFEST_BYTES)
    except OSError as error:
        raise _wrong(file, f"cannot be read ({error.strerror or error})") from None


def parse_manifest(data: bytes, file: Path) -> Manifest:
    """Return the manifest in these bytes; `file` is for messages. Raises UserError with file and key. Its digest is
    not checked."""
    try:
        manifest = parse_bounded_json(data)
    except ValueError as error:
        raise _wrong(file, f"is not a manifest ({first_line(error)})") from None
    try:
        msgspec.convert(manifest, Manifest)
    except msgspec.ValidationError as error:
        raise _wrong(file, f"does not have the expected form: {str(error).replace('`$.', '`')[:300]}") from None
    if manifest["kind"] not in KINDS:
        raise _wrong(file, f"does not have the expected form: Invalid value {manifest['kind']!r} - at `kind`")
    checked: Manifest = manifest
    return checked


def is_undamaged_manifest(data: bytes) -> bool:
    """Return whether the digest in the bytes of a manifest matches all its other keys."""
    manifest = json.loads(data)
    return bool(manifest["manifest_digest"] == manifest_digest(manifest))


def _wrong(file: Path, reason: str) -> UserError:
    return UserError(_STAGE, file, reason, "run verify on the set, or get a new copy of it")
