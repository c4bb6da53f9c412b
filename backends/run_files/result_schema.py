"""The types of the keys of result.json and history.jsonl that are read again. Further keys are allowed."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

Text = Annotated[str, Meta(max_length=4096)]
Count = Annotated[int, Meta(ge=0)]
Time = Annotated[str, Meta(pattern=r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\+00:00\Z")]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Latency(Struct):
    """Milliseconds of a live system."""

    p50: float | None
    p95: float | None
    p99: float | None


class EvaluatedSet(Struct):
    """`set`: what was evaluated on."""

    name: Text
    content_digest: Text
    version: int | None = None
    part: dict[str, Text] | None = None


class SystemDescription(Struct):
    """`system`."""

    name: Text
    kind: Text
    file: Text | None = None
    revision: Text | UnsetType = UNSET
    index: Text | UnsetType = UNSET
    type: Text | UnsetType = UNSET


class Figure(Struct):
    """A row of `figures`."""

    metric: Text
    value: float | None
    low: float | None
    high: float | None


class SliceFigure(Struct):
    """A row of `slices`."""

    slice: Text
    value: Text
    metric: Text
    mean: float | None
    low: float | None
    high: float | None
    queries: Count


class ResultCounts(Struct):
    """`counts`."""

    queries_missing: Count = 0
    queries_with_a_tie_at_the_cut: dict[str, Count] = field(default_factory=dict)
    latency_ms: Latency | None = None


class ResultWarning(Struct):
    """One of `warnings`."""

    code: Text
    detail: Text = ""
    metric: Text | None = None


class ResultTable(Struct):
    """One of `files`."""

    rows: Count
    sha256: Digest


class ResultFile(Struct):
    """result.json. `result_digest` is missing in results of earlier releases."""

    system: SystemDescription
    set: EvaluatedSet
    direction: Text
    counts: ResultCounts
    figures: list[Figure]
    slices: list[SliceFigure]
    warnings: list[ResultWarning]
    files: dict[str, ResultTable]
    conventions: dict[str, Any] = field(default_factory=dict)
    result_digest: Digest | UnsetType = UNSET


class HistoryEntry(Struct):
    """A line of history.jsonl. `figures`: by metric the value and the ends of its interval."""

    at: Time
    system: Text
    version: Count
    content_digest: Text
    queries: Count
    figures: dict[Text, tuple[float, float | None, float | None]]
    latency_ms: Latency | None
