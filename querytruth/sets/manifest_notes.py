"""The types of a manifest's `notes`: what the kinds of sets add."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from querytruth.backends.files.text_formats import read_package_yaml

Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Number = int | float
_VersionName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}/v[0-9]{1,9}\Z")]


class Render(TypedDict):
    """The rendering of the images; without size where the publisher does not state it."""

    size: NotRequired[Annotated[int, Meta(ge=1, le=100_000)] | None]
    mode: NotRequired[str | None]


class AmbiguityShare(TypedDict):
    """Ambiguous queries before or after they were resolved."""

    queries: Count
    ambiguous: Count
    share: Number


class Reliability(TypedDict):
    """The reliability of a judge's probabilities against people's answers: the area under the ROC curve, the expected
    calibration error, and the curve itself by tenths of the pairs."""

    answers: Count
    area: Number
    expected_error: Number
    curve: list[dict[str, Number]]


class JudgeFigures(TypedDict):
    """The decisions of a judge on a set's pairs: asked, merged into the truth, waiting for people; `reliability` is
    None where people gave too few answers."""

    name: str
    asked: Count
    without_score: Count
    answers: Count
    at_least: Number
    merged: Count
    waiting: Count
    reliability: Reliability | None
    record: NotRequired[dict[str, Any]]


class ConfusableImage(TypedDict):
    """An image that an ambiguous caption fits."""

    image_id: str
    score: Number
    evidence: str
    text: str | None


class AmbiguityExample(TypedDict):
    """An ambiguous caption, and its outcome."""

    query_id: str
    image_id: str
    text: str
    language: str
    outcome: str
    new_text: str | None
    rivals: Annotated[list[ConfusableImage], Meta(min_length=1)]


class Ambiguity(TypedDict):
    """The ambiguity of a recall set's captions."""

    before: AmbiguityShare
    after: AmbiguityShare
    policy: str
    seen: dict[str, str | None]
    examples: list[AmbiguityExample]
    rounds: list[dict[str, Any]]
    rivals: Count
    candidates: NotRequired[Count]
    measured: NotRequired[list[dict[str, Any]]]
    judge: NotRequired[JudgeFigures]
    then: str | None


class CommonStart(TypedDict):
    """A frequent beginning of captions."""

    text: str
    count: Count
    share: Number
    example: str


class Captions(TypedDict):
    """The captions of a recall set."""

    asked: Count
    replies: NotRequired[Count]
    rejected: NotRequired[dict[str, Count]]
    written_by_people: NotRequired[Count]
    openings: dict[str, list[CommonStart]]
    stripped: dict[str, list[Any]]


class FetchedHost(TypedDict):
    """Images of a host."""

    host: str
    there: Count
    failed: Count


class Fetched(TypedDict):
    """The hosts and times of the downloaded images of a generated set."""

    hosts: Count
    first: str | None
    last: str | None
    most: list[FetchedHost]
    there: Count
    failed: NotRequired[dict[str, Count]]


class CollectedTopic(TypedDict):
    """The queries of a topic that people chose."""

    topic: str
    queries: Count


class Collection(TypedDict):
    """The collection of a generated set."""

    search: str
    fetched: Fetched
    by_topic: list[CollectedTopic]
    licences: dict[str, Count]
    queries: Count
    pictures: Count
    pictures_of_several_queries: Count
    same_picture_at_other_addresses: Count
    queries_that_share_images: NotRequired[Count]
    choices_of_people: NotRequired[Count]


class Nested(TypedDict):
    """The set that this one is a part of."""

    of: _VersionName
    size: NotRequired[Count]


class QualityScore(TypedDict):
    """A quality score of images: the median, and the numbers of images in equal steps from 0 to 1."""

    median: Number
    histogram: list[Count]


class ScanFigures(TypedDict):
    """The formats of a gallery's files, and the quality scores of all images that could be read."""

    formats: dict[str, Count]
    scores: dict[str, QualityScore]


class LogStratum(TypedDict):
    """A part of a search log, by how often its queries were asked: how many it has, and how many were drawn."""

    stratum: str
    queries: Count
    searches: Count
    drawn: Count


class DrawnLog(TypedDict):
    """The log that own queries were drawn from: the name of its file, and its strata."""

    file: str
    strata: list[LogStratum]


class FurtherJudgments(TypedDict):
    """The effect of further judgments."""

    judgments: Count
    recall_at_least: Number


class Certificate(TypedDict):
    """The certificate of a version from people's answers to an audit, with this confidence for all statements together:
    the minimum share of the pool's relevant pairs in the truth, the maximum wrong share of the truth, the maximum
    number of relevant pairs per query outside the pool (None: unknown), and hence the minimum share of all relevant
    pairs, `recall_of_all_at_least`. `judged_again`: pairs that measure how often people err, included in the bounds;
    0: the answers are assumed correct. It holds for the version with this content digest."""

    audit: str
    audit_id: str
    confidence: Number
    goal: Number
    is_reached: bool
    recall_at_least: Number
    wrong_at_most: Number
    outside_per_query_at_most: Number | None
    recall_of_all_at_least: Number | None
    pool: Count
    asked: Count
    drawn: Count
    judged_again: Count
    to_judge_again: Count
    outside_at_most: NotRequired[Number | None]
    further: NotRequired[FurtherJudgments | None]
    to_goal: NotRequired[Count | None]
    content_digest: NotRequired[str]


_CERTIFICATE_TEXTS: dict[str, dict[str, str]] = read_package_yaml(Path(__file__).with_name("certificate_texts.yaml"))
_LEAST_SHOWN = 0.001  # of a truth: nobody's answers show that less of it is wrong


def describe_certificate(certificate: Mapping[str, Any], language: str = "en") -> str:
    """Return what holds of a truth, and what more judgments would give, in en or zh."""
    texts = _CERTIFICATE_TEXTS[language]
    parts = ["sure" if certificate["judged_again"] else "if_right", "recall", "wrong"]
    if certificate["outside_per_query_at_most"] is not None:
        parts.append("outside")
    parts.append("again" if certificate["judged_again"] else "judged")
    if certificate["is_reached"]:
        parts.append("reached" if certificate["judged_again"] else "reached_if_right")
    elif further := certificate.get("further"):
        certificate = {**certificate, "more": further["judgments"], "then": further["recall_at_least"]}
        parts.append("more")
    shown = {**certificate, "wrong_at_most": max(certificate["wrong_at_most"], _LEAST_SHOWN)}
    return "".join(texts[part] for part in parts).format(**shown)


class Notes(TypedDict):
    """`notes`: what the kinds of sets add."""

    scan: NotRequired[ScanFigures]
    ambiguity: NotRequired[Ambiguity]
    captions: NotRequired[Captions]
    collection: NotRequired[Collection]
    nested: NotRequired[Nested]
    held_out: NotRequired[dict[str, Any]]
    judge: NotRequired[JudgeFigures]
    accepted_pairs_declared: NotRequired[Count]
    accepted_pairs_closed: NotRequired[Count]
    format: NotRequired[str]
    title: NotRequired[str]
    licence: NotRequired[str]
    render: NotRequired[Render | None]
    parents: NotRequired[list[str]]
    stages: NotRequired[dict[str, dict[str, Any]]]
    certificate: NotRequired[Certificate]
    log: NotRequired[DrawnLog]
