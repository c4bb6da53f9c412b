"""The page of a generated set: topics, a fixed sample of queries with their images and sources, and the rejections."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from querytruth.errors import LintFinding
from querytruth.formats.set_card import licence_family
from querytruth.review import page_parts, set_parts
from querytruth.review.page_parts import text_or_empty
from querytruth.review.set_parts import RejectionReason, sample_rejections
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.manifest import Manifest

_IMAGES = 480  # shown with queries
_MOST_QUERIES = 60
_SHARED, _DUPLICATES = 12, 8  # images of several queries, and at several addresses
_EXAMPLES = 4  # of each reason for a rejection
_SHOWN_KINDS = ["query", "result", "image"]  # of rejected items
_JUDGES = {
    "web": "the image search: among its first results",
    "judge": "a judge, calibrated on people's answers",
    "human": "people",
}
_OPEN = 10  # queries shown without unfolding
_SQUARE = 1.0
_STAGES = page_parts.PAGE_TEXTS["generated_stages"]
_REASON_TEXTS = page_parts.PAGE_TEXTS["generated_reasons"]
_TemplateData = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RelevantImage:
    """An image that is relevant for a query, the evidence, and whether it is relevant for another query."""

    image_id: str
    judged_by: str
    evidence: str
    is_shared: bool


@dataclass(frozen=True, slots=True)
class GeneratedQuery:
    """A query with its relevant images, as the search ranked them."""

    text: str
    topic: str
    language: str
    images: tuple[RelevantImage, ...]


@dataclass(frozen=True, slots=True)
class GeneratedSelection:
    """The content of the page. `shared_images`: images with the texts of their queries, of `shared_total`;
    `duplicate_images`: images with their other addresses, of `duplicate_total`."""

    queries: list[GeneratedQuery]
    rejection_reasons: list[RejectionReason]
    shared_images: list[tuple[str, tuple[str, ...]]]
    duplicate_images: list[tuple[str, tuple[str, ...]]]
    shared_total: int
    duplicate_total: int

    @property
    def image_ids(self) -> list[str]:
        """Return the ids of all images shown, once, in the order of the page."""
        shown = [image.image_id for query in self.queries for image in query.images]
        shown += [image_id for image_id, _ in [*self.shared_images, *self.duplicate_images]]
        return list(dict.fromkeys(shown))


def select_generated(tables: Tables) -> GeneratedSelection:
    """Select queries of all topics in turn by their ids, up to 60 queries and 480 images."""
    right = tables.qrels[tables.qrels["relevance"] > 0].astype({"query_id": "str", "image_id": "str"})
    right = right[right["image_id"].isin(tables.images["image_id"])]
    queries = right.sort_values("query_id").groupby("image_id")["query_id"].agg(tuple).to_dict()
    shared = sorted((name for name in queries if len(queries[name]) > 1), key=lambda name: (-len(queries[name]), name))
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    duplicate_images, ledger = list(_duplicate_images(tables.duplicates)), tables.ledger
    return GeneratedSelection(
        list(_queries(tables.queries, right, set(shared))),
        sample_rejections(ledger[ledger["kind"].isin(_SHOWN_KINDS)], _EXAMPLES),
        [(name, tuple(texts.get(query, query) for query in queries[name])) for name in shared[:_SHARED]],
        duplicate_images[:_DUPLICATES],
        len(shared),
        len(duplicate_images),
    )


def _queries(queries: pd.DataFrame, right: pd.DataFrame, shared: set[str]) -> Iterator[GeneratedQuery]:
    by_query = dict(iter(right.groupby("query_id")))
    room = _IMAGES
    for row in _in_turn(queries)[:_MOST_QUERIES]:
        rows = by_query.get(row["query_id"])
        images = () if rows is None else tuple(_relevant_images(rows, shared))
        room -= len(images)
        if room < 0:
            return
        yield GeneratedQuery(row["text"], text_or_empty(row["topic"]), row["language"], images)


def _in_turn(queries: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one query of each topic, then the next of each."""
    ordered = queries.sort_values("query_id")
    turn = ordered.groupby(ordered["topic"].fillna("")).cumcount()
    return ordered.assign(turn=turn).sort_values(["turn", "query_id"]).to_dict("records")  # type: ignore[no-any-return]


def _relevant_images(rows: pd.DataFrame, shared: set[str]) -> list[RelevantImage]:
    images = [
        RelevantImage(row.image_id, str(row.judged_by), text_or_empty(row.evidence), row.image_id in shared)
        for row in rows.itertuples(index=False)
    ]
    return sorted(images, key=lambda image: (_natural_order(image.evidence), image.image_id))


def _natural_order(text: str) -> list[str | int]:
    """Return a sort key that sorts 2 before 10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split("([0-9]{1,9})", text))]


def _duplicate_images(duplicates: pd.DataFrame) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each duplicated image with its other addresses, the largest groups first."""
    groups = [(name, rows) for name, rows in duplicates.groupby("duplicate_group")]
    for _, rows in sorted(groups, key=lambda group: (-len(group[1]), group[0])):
        first = rows[rows["is_representative"]]["image_id"]
        if len(first):
            yield first.iloc[0], tuple(sorted(rows.loc[~rows["is_representative"], "item"]))


def render_generated_page(
    tables: Tables,
    manifest: Manifest,
    thumbnails: Mapping[str, bytes],
    findings: list[LintFinding],
    selection: GeneratedSelection,
) -> str:
    """Return one HTML document without other files. `thumbnails`: JPEGs by image id; an image without one
    is shown by its name."""
    images = _images(tables, manifest, thumbnails, selection)
    notes: Mapping[str, Any] = manifest["notes"].get("collection") or {}
    return page_parts.render_page(
        "generated_page.html",
        manifest,
        tables.images,
        set_parts.list_thumbnails(images, thumbnails),
        chosen_by_people=bool(notes.get("choices_of_people")),
        languages=set_parts.list_languages(tables.queries),
        judges=set_parts.count_judges(manifest, _JUDGES),
        grades=set_parts.describe_grades(manifest),
        images=images,
        any_missing=any(not image["has_thumbnail"] for image in images.values()),
        topics=_topics(tables, notes),
        queries=selection.queries,
        open=_OPEN,
        rejections=selection.rejection_reasons,
        stage_titles=_STAGES,
        reason_texts=_REASON_TEXTS,
        shared_images=selection.shared_images,
        duplicate_images=selection.duplicate_images,
        totals={"shared": selection.shared_total, "duplicates": selection.duplicate_total},
        families=_licence_families(tables),
        fetched=notes.get("fetched"),
        search=notes.get("search", ""),
        stages=sorted((manifest["notes"].get("stages") or {}).items(), reverse=True),  # topics, then objects
        findings=findings,
    )


def _images(
    tables: Tables, manifest: Manifest, thumbnails: Mapping[str, bytes], selection: GeneratedSelection
) -> set_parts.ImageTiles:
    """Return the image tiles with captions, creators and addresses on the web."""
    images = set_parts.build_image_tiles(tables.images, manifest, thumbnails, selection.image_ids)
    rows = tables.images[tables.images["image_id"].isin(images)].astype("object")
    rows_by_image = {row["image_id"]: row for row in rows.to_dict("records")}
    for image_id, image in images.items():
        row = rows_by_image.get(image_id, {})
        texts = {name: text_or_empty(row.get(name)) for name in ("caption", "creator", "source_url", "page_url")}
        image |= texts | {"square": set_parts.get_covering_size(image, _SQUARE, manifest)}
        image["name"] = text_or_empty(row.get("file_name")) or texts["caption"] or image_id
    return images


def _topics(tables: Tables, notes: Mapping[str, Any]) -> list[_TemplateData]:
    """Return the topics with the number of queries that were to be searched, and of those in the set."""
    now = Counter(text_or_empty(topic) for topic in tables.queries["topic"])
    chosen = {topic["topic"]: int(topic["queries"]) for topic in notes.get("by_topic", [])}
    return [
        {"topic": topic, "in_set": now[topic], "selected": max(chosen.get(topic, 0), now[topic])}
        for topic in sorted(now.keys() | chosen.keys(), key=lambda topic: (-now[topic], topic))
    ]


def _licence_families(tables: Tables) -> list[tuple[str, int]]:
    """Return the licences without version and country and their counts, the most frequent first."""
    licences = tables.images["licence"]
    counts = Counter(
        licence_family(text) if isinstance(text, str) else page_parts.translate("not stated") for text in licences
    )
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
