"""The page of a generated set: topics, queries with their images from the web and the sources of these, and the
rejections with their reasons."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from builders.benchmark_set import Tables
from builders.lint import LintFinding
from builders.self_instruct.result_screening import licence_family
from review import page_parts
from review.page_parts import text_or_empty
from review.set_pages import set_parts
from review.set_pages.generated_selection import GeneratedQuery, GeneratedSelection, RelevantImage
from review.set_pages.rejection_examples import RejectionReason

_JUDGES = {"web": "the image search: among its first results", "human": "people"}
_OPEN = 10  # queries shown without unfolding
_SQUARE = 1.0
_STAGES = {
    "search": "Queries, as the search answered",
    "results": "Results, before anything was fetched",
    "batches": "Queries, by what their results came to",
    "queries": "Queries, by what their pictures came to",
    "images": "Results, once fetched",
    "duplicates": "Pictures that are the same as another",
    "render": "Pictures that could not be rendered",
    "answers": "Queries that lost a picture",
    "review": "What people dropped",
}
_REASON_TEXTS = {
    "too_few_results": "the search knows of too few",
    "results_not_reported": "the search does not say how many there are",
    "too_few_images": "too few good ones remain",
    "url_used_before": "an earlier query uses one of its addresses",
    "image_used_before": "an earlier query shows one of its pictures",
    "query_dropped": "good, but their query went",
    "not_needed": "good or not: the query had enough before",
    "advertisement": "marked as such by the search",
    "no_image_url": "the search names no address",
    "repeated_url": "an earlier result of the same query",
    "too_small": "a side is under the limit",
    "too_elongated": "long and narrow",
    "licence_unknown": "the search names no licence",
    "licence_not_allowed": "another licence than asked for",
    "exact_duplicate": "the same bytes as another",
    "near_duplicate": "looks the same as another",
    "placeholder": "answers queries that have nothing in common: a host's card, or a blank image",
    "forbidden_by_robots": "the host's robots.txt wants no programs there",
    "forbidden_by_robots_tag": "the host's answer wants no programs to use it",
    "not_found": "gone from its host",
    "forbidden": "the host refuses it",
    "not_an_image": "a page or something else in its place",
    "cannot_be_decoded": "broken",
    "damaged": "pixels are lost inside",
    "address_not_public": "led to an address that is not on the public internet",
    "not_fetched": "never asked for: built without the web",
}
_TemplateData = dict[str, Any]


def render_generated_page(
    tables: Tables,
    manifest: dict[str, Any],
    thumbnails: Mapping[str, bytes],
    findings: list[LintFinding],
    selection: GeneratedSelection,
) -> str:
    """Return one HTML document without other files and scripts. `thumbnails`: JPEGs by image id; an image without one
    is shown by its name."""
    images = _images(tables, manifest, thumbnails, selection)
    notes = manifest["notes"].get("collection") or {}
    queries = [_query(query, images) for query in selection.queries]
    return page_parts.render_page(
        "generated_page.html",
        manifest,
        tables.images,
        set_parts.list_thumbnails(images, thumbnails),
        about=_describe_origin(notes),
        chosen_by_people=bool(notes.get("choices_of_people")),
        languages=set_parts.list_languages(tables.queries),
        judges=set_parts.count_judges(manifest, _JUDGES),
        grades=set_parts.describe_grades(manifest),
        images=images,
        any_missing=any(not image["has_thumbnail"] for image in images.values()),
        topics=_topics(tables, notes),
        queries=(queries[:_OPEN], queries[_OPEN:]),
        rejections=_rejection_groups(selection.rejection_reasons),
        shared_images=selection.shared_images,
        duplicate_images=selection.duplicate_images,
        totals={"shared": selection.shared_total, "duplicates": selection.duplicate_total},
        families=_licence_families(tables),
        fetched=notes.get("fetched"),
        search=notes.get("search", ""),
        stages=sorted((manifest["notes"].get("stages") or {}).items(), reverse=True),  # topics, then objects
        findings=findings,
    )


def _describe_origin(notes: _TemplateData) -> str:
    chosen = " and people chose" if notes.get("choices_of_people") else ""
    place = "found on the web" if (notes.get("fetched") or {}).get("hosts") else "of this machine found"
    return (
        f"Queries that a chat model thought up{chosen}. Their right pictures are the first good ones that an image "
        f"search {place}."
    )


def _images(
    tables: Tables, manifest: dict[str, Any], thumbnails: Mapping[str, bytes], selection: GeneratedSelection
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


def _topics(tables: Tables, notes: _TemplateData) -> list[_TemplateData]:
    """Return the topics with the number of queries that were to be searched, and of those in the set."""
    now = Counter(text_or_empty(topic) for topic in tables.queries["topic"])
    chosen = {topic["topic"]: int(topic["queries"]) for topic in notes.get("by_topic", [])}
    return [
        {"topic": topic, "in_set": now[topic], "selected": max(chosen.get(topic, 0), now[topic])}
        for topic in sorted(now.keys() | chosen.keys(), key=lambda topic: (-now[topic], topic))
    ]


def _query(query: GeneratedQuery, images: set_parts.ImageTiles) -> _TemplateData:
    return {
        "query": query,
        "images": [(image, images[image.image_id], _describe(image, images)) for image in query.images],
        "shared_count": sum(image.is_shared for image in query.images),
    }


def _describe(image: RelevantImage, images: set_parts.ImageTiles) -> str:
    """Return an image and its judgment in one line, for screen readers and tooltips."""
    also = ", right for another query, too" if image.is_shared else ""
    return f"{images[image.image_id]['name']}, {image.evidence or image.judged_by}{also}"


def _rejection_groups(rejections: list[RejectionReason]) -> list[_TemplateData]:
    """Return the reasons by stage, in the order of the build."""
    stages: dict[str, list[_TemplateData]] = {}
    for one in rejections:
        title, description = one.reason.replace("_", " "), _REASON_TEXTS.get(one.reason, "")
        stages.setdefault(one.stage, []).append({"record": one, "title": title, "description": description})
    return [
        {"title": _STAGES.get(stage, stage.replace("_", " ")), "reasons": reasons} for stage, reasons in stages.items()
    ]


def _licence_families(tables: Tables) -> list[tuple[str, int]]:
    """Return the licences without version and country and their counts, the most frequent first."""
    licences = tables.images["licence"]
    counts = Counter(licence_family(text) if isinstance(text, str) else "not stated" for text in licences)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
