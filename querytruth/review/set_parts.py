"""Parts of the pages of sets with queries: image tiles, grades, judges, languages, and reasons with fixed examples."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from querytruth.records import stable_hash
from querytruth.review import page_parts
from querytruth.sets.benchmark_set import get_render_options
from querytruth.sets.ledger import describe_rejection
from querytruth.sets.manifest import Manifest

_NARROWEST, _WIDEST = 0.7, 2.1  # limits of the aspect ratio in a strip of images
_PROMINENCE = {"2": "prominent", "1": "present", "0": "near miss"}
_JUDGES = {
    "detector": "the annotated boxes",
    "rule": "the map of accepted labels",
    "caption": "captions",
    "web": "the web search",
    "model": "a model",
    "judge": "a judge, calibrated on people's answers",
    "human": "people",
}
# In the order of wordings on a page, as the styles.
_LANGUAGES = {"zh": "Chinese", "en": "English", "und": "no language"}
_STYLES = ("word", "sentence", "llm", "caption", "phrase", "keywords", "question")
ImageTiles = dict[str, dict[str, Any]]
_CANDIDATES = 2000  # items of a reason that examples are sampled from, to bound the time


MOST_FURTHER = 2000  # queries without images on a page


@dataclass(frozen=True, slots=True)
class DisplayedWording:
    """A query of the set."""

    query_id: str
    text: str
    language: str
    style: str


def build_image_tiles(
    images: pd.DataFrame, manifest: Manifest | None, thumbnails: Mapping[str, bytes], image_ids: Iterable[str]
) -> ImageTiles:
    """Return per image its name, licence, size, and class in the style sheet; `true_ratio` is the aspect ratio of its
    thumbnail, `ratio` the one of its tile."""
    image_ids = list(image_ids)
    rows = images[images["image_id"].isin(image_ids)].set_index("image_id")
    cropped = get_render_options(manifest).get("mode") == "crop"
    tiles: ImageTiles = {}
    for number, image_id in enumerate(image_ids):
        known = image_id in rows.index
        width, height = (int(rows.at[image_id, side]) for side in ("width", "height")) if known else (0, 0)
        ratio = 1.0 if cropped and width > 0 and height > 0 else get_aspect_ratio(width, height)
        name, licence = (
            page_parts.text_or_empty(rows.at[image_id, column]) if known else "" for column in ("file_name", "licence")
        )
        tiles[image_id] = {
            "name": name or image_id,
            "licence": licence or page_parts.translate("not stated"),
            "size": format_size(width, height),
            "true_ratio": ratio,
            "ratio": f"{min(max(ratio, _NARROWEST), _WIDEST):.3f}",
            "has_thumbnail": image_id in thumbnails,
            "class": f"p{number}",
        }
    return tiles


def get_aspect_ratio(width: int, height: int) -> float:
    """Return width / height, 4 / 3 where these are unknown (0)."""
    return width / height if width > 0 and height > 0 else 4 / 3


def format_size(width: int, height: int) -> str:
    """Return a size in pixels for people, "" where it is unknown (0)."""
    return f"{width} × {height}" if width > 0 and height > 0 else ""


def list_thumbnails(images: ImageTiles, thumbnails: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Return the JPEG of each class in the style sheet."""
    return [(str(image["class"]), thumbnails[name]) for name, image in images.items() if image["has_thumbnail"]]


def get_covering_size(image: dict[str, Any], box_ratio: float, manifest: Manifest | None) -> str:
    """Return the CSS background size by which an image covers a box of another aspect ratio (width / height) without
    distortion; rendered padding is outside the box."""
    true = image["true_ratio"]
    if get_render_options(manifest).get("mode") == "fit":
        side = max(box_ratio / min(1, true), max(1, true))  # of the square that was padded, in heights of the box
        return f"background-size:{100 * side / box_ratio:.1f}% {100 * side:.1f}%"
    return f"background-size:{100 * max(1, true / box_ratio):.1f}% {100 * max(1, box_ratio / true):.1f}%"


def describe_grades(manifest: Manifest) -> list[dict[str, Any]]:
    """Return every grade with its meaning and its number of judgments, the highest first."""
    counts, meanings = manifest["counts"]["by_grade"], manifest["grades"]
    names = {"0": "not relevant"} | (_PROMINENCE if manifest["kind"] == "precision" else {})
    if "2" not in meanings:
        names["1"] = "right"
    return [
        {"grade": grade, "name": names.get(grade, f"grade {grade}"), "description": meanings.get(grade, "")}
        | {"count": int(counts.get(grade, 0))}
        for grade in sorted(meanings.keys() | counts.keys(), key=int, reverse=True)
    ]


def count_judges(manifest: Manifest, names: Mapping[str, str] = _JUDGES) -> list[tuple[str, int]]:
    """Return the names of the judges and their numbers of judgments."""
    return [(names.get(judge, judge), number) for judge, number in manifest["counts"]["by_judge"].items()]


def list_languages(queries: pd.DataFrame) -> list[str]:
    """Return the names of the queries' languages, the most frequent first."""
    return [get_language_name(code) for code, _ in page_parts.count_values(queries["language"])]


def language_order(code: str) -> tuple[int, str]:
    """Return the sort key of a language: those with a name here first, then by code."""
    known = list(_LANGUAGES)
    return known.index(code) if code in known else len(known), code


def reading_order(query: DisplayedWording) -> tuple[Any, ...]:
    """Return the sort key of a wording among those of one query or image: by language, style and id."""
    rank = _STYLES.index(query.style) if query.style in _STYLES else len(_STYLES)
    return *language_order(query.language), rank, query.style, query.query_id


def get_language_name(code: str) -> str:
    """Return the name of a language, or its code."""
    return page_parts.translate(_LANGUAGES.get(code, code))


class RejectionExample(NamedTuple):
    """An item with its text ("" for none) and the other details in the ledger."""

    item: str
    text: str
    description: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RejectionReason:
    """The number of items of one kind that left a stage for one reason, and some of them."""

    stage: str
    kind: str
    bucket: str
    reason: str
    count: int
    examples: tuple[RejectionExample, ...]


def sample_rejections(ledger: pd.DataFrame, examples: int) -> list[RejectionReason]:
    """Return the reasons in the ledger, stage by stage in its order, the most frequent of each first."""
    columns = [ledger[column].astype("str") for column in ("stage", "reason", "kind", "bucket")]
    stages = {str(stage): number for number, stage in enumerate(ledger["stage"].unique())}
    reasons = [
        RejectionReason(stage, kind, bucket, reason, len(rows), _sample_items(ledger.iloc[rows], examples))
        for (stage, reason, kind, bucket), rows in ledger.groupby(columns).indices.items()
    ]
    return sorted(reasons, key=lambda one: (stages[one.stage], -one.count, one.reason, one.kind, one.bucket))


def _sample_items(rows: pd.DataFrame, number: int) -> tuple[RejectionExample, ...]:
    spread = np.linspace(0, len(rows) - 1, min(len(rows), _CANDIDATES)).astype(np.int64)
    candidates = [
        RejectionExample(row["item"], page_parts.text_or_empty(row["text"]), describe_rejection(row))
        for row in rows.iloc[spread].to_dict("records")
    ]
    return tuple(heapq.nsmallest(number, candidates, key=lambda one: (stable_hash("page", one.item), one)))
