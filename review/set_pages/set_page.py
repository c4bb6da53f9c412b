"""The page of a precision or imported set: its description, funnel, queries and their images."""

from collections.abc import Iterator, Mapping
from typing import Any

from builders.benchmark_set import Tables
from builders.lint import LintFinding
from review import page_parts
from review.set_pages import set_parts
from review.set_pages.set_parts import ImageTiles
from review.set_pages.set_selection import JudgedImage, QueryGroup, SetSelection

_KINDS = {
    "precision": "One query, many right pictures. The truth comes from annotated objects; "
    "every judgment has a grade and says why.",
    "imported": "Queries, pictures and judgments as another collection has them.",
}
_BATCHES = {1: "Single labels", 2: "Pairs", 3: "Triples"}
_INTRODUCTIONS = {
    (1, False): "One label is asked for. Any picture that bears it is right, or bears one that is accepted for it.",
    (1, True): "Nodes of the tag tree. No box has their names: every label below them answers; captions say which.",
    (2, False): "Both labels on one picture. Pictures that lack just one of them are judged not relevant: near misses.",
}
_MIX_INTRODUCTION = "{} labels on one picture, and the near misses that lack one."
_RUN, _SLIM = 6, 1.2  # most images that share a caption; the sum of ratios below which a caption needs more width
_OPEN = 8  # queries of a batch shown without unfolding


def render_set_page(
    tables: Tables,
    manifest: dict[str, Any],
    thumbnails: Mapping[str, bytes],
    findings: list[LintFinding],
    selection: SetSelection,
) -> str:
    """Return one HTML document without other files and scripts. `thumbnails`: JPEGs by image id; an image without one
    is shown by its name."""
    images = set_parts.build_image_tiles(tables.images, manifest, thumbnails, selection.image_ids)
    return page_parts.render_page(
        "set_page.html",
        manifest,
        tables.images,
        set_parts.list_thumbnails(images, thumbnails),
        about=_KINDS.get(manifest["kind"], f"A {manifest['kind']} set for text-to-image search."),
        query_group_total=sum(selection.batch_sizes.values()),
        languages=set_parts.list_languages(tables.queries),
        styles=[style for style, _ in page_parts.count_values(tables.queries["style"])],
        judges=set_parts.count_judges(manifest),
        grades=set_parts.describe_grades(manifest),
        batches=list(_batches(selection, images)),
        images=images,
        any_missing=any(not image["has_thumbnail"] for image in images.values()),
        describe=_describe,
        findings=findings,
    )


def _batches(selection: SetSelection, images: ImageTiles) -> Iterator[dict[str, Any]]:
    for number, (key, chosen) in enumerate(selection.batches.items()):
        level, parent = key
        title = "Parents of the tree" if parent else _BATCHES.get(level, f"Mixes of {level}")
        description = _INTRODUCTIONS.get(key)
        if not any(entry.labels for entry in chosen):
            title, description = "Queries", ""
        entries = [_entry(entry, images) for entry in chosen]
        yield {
            "id": f"batch-{number}",
            "title": title,
            "description": _MIX_INTRODUCTION.format(level) if description is None else description,
            "first": entries[:_OPEN],
            "more": entries[_OPEN:],
            "shown": len(entries),
            "total": selection.batch_sizes[key],
        }


def _entry(entry: QueryGroup, images: ImageTiles) -> dict[str, Any]:
    main = entry.main_wordings
    return {
        "main_wordings": main,
        "other_wordings": [wording for wording in entry.wordings if wording not in main],
        "grades": [{"grade": grade, "count": number} for grade, number in entry.count_by_grade.items() if grade > 0],
        "relevant_count": entry.relevant_count,
        "nonrelevant_count": entry.count_by_grade.get(0, 0),
        "has_differing_judgments": entry.has_differing_judgments,
        "images": entry.images + entry.near_misses,
        "strips": [
            ("Right pictures", "right", list(_runs(entry.images, images))),
            ("Near misses, judged not relevant", "missed", list(_runs(entry.near_misses, images))),
        ],
    }


def _runs(images: tuple[JudgedImage, ...], tiles: ImageTiles) -> Iterator[dict[str, Any]]:
    """Yield runs of neighbours with the same evidence, which share a caption; annotated boxes need none."""
    runs: list[list[JudgedImage]] = []
    for image in images:
        if runs and _has_reason(image) and _reason(runs[-1][0]) == _reason(image) and len(runs[-1]) < _RUN:
            runs[-1].append(image)
        else:
            runs.append([image])
    for run in runs:
        ratios = sum(float(tiles[image.image_id]["ratio"]) for image in run)
        yield {
            "images": run,
            "ratios": f"{ratios:.3f}",
            "slim": ratios < _SLIM,
            "has_reason": _has_reason(run[0]),
            "by_people": run[0].judged_by == "human",
            "evidence": run[0].evidence,
        }


def _has_reason(image: JudgedImage) -> bool:
    return image.relevance == 0 or image.judged_by != "detector"


def _reason(image: JudgedImage) -> tuple[object, ...]:
    return image.judged_by, image.evidence


def _describe(image: JudgedImage, name: str) -> str:
    """Return an image and its judgment in one line, for screen readers and tooltips."""
    why = " / ".join(text for _, text in image.evidence)
    return f"{name}, grade {image.relevance}, by {image.judged_by}" + (f": {why}" if why else "")
