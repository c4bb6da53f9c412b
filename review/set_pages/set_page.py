"""The page on which a person first looks at a set: what it is, how it came about, queries and their pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from builders.benchmark_set import Tables
from builders.lint import Finding
from review import page_parts
from review.set_pages import set_parts
from review.set_pages.page_selection import Entry, PageSelection, ShownPicture, select
from review.set_pages.set_parts import Pictures

__all__ = ["PageSelection", "render_set_page", "select"]

_KINDS = {
    "precision": "One query, many right pictures. The truth comes from annotated objects; "
    "every judgment has a grade and says why.",
    "generated": "Queries about topics and objects, and pictures found for them on the web.",
    "imported": "Queries, pictures and judgments as another collection has them.",
}
_BATCHES = {1: "Single labels", 2: "Pairs", 3: "Triples"}
_INTRODUCTIONS = {
    (1, False): "One label is asked for. Any picture that bears it is right, or bears one that is accepted for it.",
    (
        1,
        True,
    ): "Nodes of the tag tree. No box bears their names: every label below them answers, and captions say which.",
    (2, False): "Both labels on one picture. Pictures that lack just one of them are judged not relevant: near misses.",
}
_MIX_INTRODUCTION = "{} labels on one picture, and the near misses that lack one."
_RUN, _SLIM = 6, 1.2  # pictures that share a caption; the proportion under which one needs more width than they give
_OPEN = 8  # queries of a batch that are not folded away


def render_set_page(
    tables: Tables,
    manifest: dict[str, Any],
    thumbnails: Mapping[str, bytes],
    findings: list[Finding],
    shown: PageSelection,
) -> str:
    """One HTML document that needs no other file and no script. `thumbnails` holds JPEGs by image id; a picture
    that has none is shown by its name."""
    pictures = set_parts.shown_pictures(tables.images, manifest, thumbnails, shown.image_ids)
    return page_parts.render_page(
        "set_page.html",
        manifest,
        tables.images,
        set_parts.jpegs_of(pictures, thumbnails),
        about=_KINDS.get(manifest["kind"], f"A {manifest['kind']} set for text-to-image search."),
        asked=sum(shown.there.values()),
        languages=set_parts.languages_of(tables.queries),
        styles=[style for style, _ in page_parts.tally(tables.queries["style"])],
        judges=set_parts.judges_of(manifest),
        grades=set_parts.grades_of(manifest),
        batches=list(_batches(shown, pictures)),
        pictures=pictures,
        any_missing=any(not picture["has"] for picture in pictures.values()),
        describe=_describe,
        findings=findings,
        fill=set_parts.fill(manifest),
    )


def _batches(shown: PageSelection, pictures: Pictures) -> Iterator[dict[str, Any]]:
    for number, (key, chosen) in enumerate(shown.batches.items()):
        level, parent = key
        title = "Parents of the tree" if parent else _BATCHES.get(level, f"Mixes of {level}")
        says = _INTRODUCTIONS.get(key)
        if not any(entry.labels for entry in chosen):
            title, says = "Queries", ""
        entries = [_entry(entry, pictures) for entry in chosen]
        yield {
            "id": f"batch-{number}",
            "title": title,
            "says": _MIX_INTRODUCTION.format(level) if says is None else says,
            "first": entries[:_OPEN],
            "more": entries[_OPEN:],
            "shown": len(entries),
            "there": shown.there[key],
        }


def _entry(entry: Entry, pictures: Pictures) -> dict[str, Any]:
    main = entry.main
    return {
        "main": main,
        "other": [wording for wording in entry.wordings if wording not in main],
        "grades": [{"grade": grade, "count": number} for grade, number in entry.by_grade.items() if grade > 0],
        "right": entry.right,
        "zeros": entry.by_grade.get(0, 0),
        "differs": entry.differs,
        "shown": entry.pictures + entry.near_misses,
        "strips": [
            ("Right pictures", "right", list(_runs(entry.pictures, pictures))),
            ("Near misses, judged not relevant", "missed", list(_runs(entry.near_misses, pictures))),
        ],
    }


def _runs(shown: tuple[ShownPicture, ...], pictures: Pictures) -> Iterator[dict[str, Any]]:
    """Neighbours that are judged for the same reason share one caption; what the boxes alone say needs none."""
    runs: list[list[ShownPicture]] = []
    for picture in shown:
        same = runs and _says(picture) and _reason(runs[-1][0]) == _reason(picture) and len(runs[-1]) < _RUN
        if same:
            runs[-1].append(picture)
        else:
            runs.append([picture])
    for run in runs:
        ratios = sum(float(pictures[picture.image_id]["ratio"]) for picture in run)
        yield {
            "pictures": run,
            "ratios": f"{ratios:.3f}",
            "slim": ratios < _SLIM,
            "says": _says(run[0]),
            "by_people": run[0].judged_by == "human",
            "evidence": run[0].evidence,
        }


def _says(picture: ShownPicture) -> bool:
    return picture.relevance == 0 or picture.judged_by != "detector"


def _reason(picture: ShownPicture) -> tuple[object, ...]:
    return picture.judged_by, picture.evidence


def _describe(picture: ShownPicture, name: str) -> str:
    """A picture and its judgment in one line, for those who cannot see it and for the pointer that rests on it."""
    why = " / ".join(text for _, text in picture.evidence)
    return f"{name}, grade {picture.relevance}, by {picture.judged_by}" + (f": {why}" if why else "")
