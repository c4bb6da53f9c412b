"""Records of a manifest: the inputs, models, prompts and thresholds of a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Direction = Literal["over", "at least", "under", "at most"]


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
        counts = {"pictures": manifest["counts"]["images"], "queries": manifest["counts"]["queries"]}
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
