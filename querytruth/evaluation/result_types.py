"""The types of result.json, used to write and read a result. Further keys are allowed: a system's kind and a set's may
add more."""

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from querytruth.sets.manifest_notes import Certificate

Text = Annotated[str, Meta(max_length=4096)]
Count = Annotated[int, Meta(ge=0)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]

BOUNDING_BASELINES = ("random", "oracle")  # baselines that are the floor and the ceiling: no search competes with them


class SystemDescription(TypedDict):
    """`system`: what was evaluated. `sha256`: of the file; `run_of`: the set of another result whose run this is;
    `ids`: what its results are named by; `type`: a service's; `dimensions`: of a model's vectors;
    `seed`: of a baseline."""

    name: Text
    kind: Text
    file: NotRequired[Text | None]
    sha256: NotRequired[Text]
    run_of: NotRequired[Text]
    scores: NotRequired[Text]
    ids: NotRequired[Text]
    revision: NotRequired[Text]
    index: NotRequired[Text]
    type: NotRequired[Text]
    dimensions: NotRequired[int]
    rows_of_other_ids: NotRequired[Count]
    seed: NotRequired[int]
    rows: NotRequired[int]
    columns: NotRequired[int]


class EvaluatedSet(TypedDict):
    """`set`: what was evaluated on. Of bare files the version is 0, the digest that of the judgments; `part`: the
    values that its queries have, where only these were evaluated."""

    name: Text
    version: Count
    content_digest: Text
    kind: NotRequired[Text]
    title: NotRequired[Text]
    part: NotRequired[dict[str, Text]]
    certificate: NotRequired[Certificate]


class Latency(TypedDict):
    """Milliseconds of a live system."""

    p50: float | None
    p95: float | None
    p99: float | None


class Figure(TypedDict):
    """A row of `figures`."""

    metric: Text
    value: float | None
    low: float | None
    high: float | None
    at_least: NotRequired[float | None]
    at_most: NotRequired[float | None]


class SliceFigure(TypedDict):
    """A row of `slices`."""

    slice: Text
    value: Text
    metric: Text
    mean: float | None
    low: float | None
    high: float | None
    queries: Count


class ResultCounts(TypedDict):
    """`counts`. `queries_of_set`: how many there are, count, wait for judgments, and are absent from the gallery."""

    queries_of_set: NotRequired[dict[str, Count]]

    queries_missing: NotRequired[Count]
    queries_with_a_tie_at_the_cut: NotRequired[dict[str, Count]]
    latency_ms: NotRequired[Latency | None]


class ResultWarning(TypedDict):
    """One of `warnings`."""

    code: Text
    detail: NotRequired[Text]
    metric: NotRequired[Text | None]


class ResultTable(TypedDict):
    """One of `files`."""

    rows: Count
    sha256: Digest


class ResultFile(TypedDict):
    """result.json."""

    system: SystemDescription
    set: EvaluatedSet
    direction: Text
    counts: ResultCounts
    figures: list[Figure]
    slices: list[SliceFigure]
    warnings: list[ResultWarning]
    files: dict[str, ResultTable]
    result_digest: Digest
    conventions: NotRequired[dict[str, Any]]
