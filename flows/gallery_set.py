"""The gallery: a pile of pictures in, a published set without queries out.

source ─► list ─► scan ─► filter ─► duplicates ─► select ─► render ─► set v<N>
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from backends.sources import picture_sources
from backends.sources.picture_sources import Source
from backends.sources.source_listing import Listing
from builders.benchmark_set import Tables
from builders.errors import UserError
from builders.gallery import picture_filters, selection, summary
from builders.gallery.near_duplicates import Duplicates
from builders.ledger import Ledger, turned_away
from builders.records import IMAGES, empty
from builders.told import Told
from flows.definitions import GalleryDefinition
from flows.entry import flow_in, main
from flows.pictures.duplicate_groups import group_duplicates, looks_of
from flows.pictures.picture_scan import ScannedPictures, count_known, scan_pictures
from flows.pictures.rendering import render_pictures
from flows.pictures.wanted_pictures import WantedPictures, wanted_pictures
from flows.publish import Built
from flows.steps import current, step
from flows.told import told_rescues

Rows = np.ndarray[Any, np.dtype[np.int64]]
_IMAGES = ["item", "image_id", *(name for name in IMAGES.names if name not in ("image_id", "path", "file_name"))]
# Measured on two cores with photos of 0.3 to 12 megapixels (docs/performance.md); for plans only.
_SCAN_SECONDS, _RENDER_SECONDS, _BYTES_A_PIXEL = 0.004, 0.015, 0.2

FAULTS = [
    "Near-duplicates are found by perceptual hashes: crops and, unless asked for, turned pictures are not.",
    "Places and times are what the cameras wrote; their clocks may be wrong.",
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pictures that make the gallery, before they are rendered: `images` with their `item`, the name in the
    source, `rows` their places among all that were scanned. `told`: what became of people's words."""

    source: Source
    scanned: ScannedPictures
    listed: int
    readable: Rows
    rows: Rows
    images: pd.DataFrame
    groups: Duplicates
    models: list[dict[str, Any]]
    told: Told


def gallery_tables(definition: GalleryDefinition) -> Built:
    """All but publishing: the pictures that stay, the groups they stand for, and the ledger of all others."""
    ledger = Ledger()
    chosen = choose_pictures(definition, ledger)
    images, rendered = render(chosen.source, chosen.images, definition, ledger)
    counts = {"pictures": chosen.listed}
    return Built(
        tables=Tables(empty("queries"), images, empty("qrels"), duplicates=chosen.groups.table),
        ledger=ledger,
        grades={},
        inputs=[{"file": Path(definition.images).name, "sha256": chosen.scanned.digest(), "counts": counts}],
        models=chosen.models,
        thresholds=thresholds(definition),
        notes={"summary": described(chosen.scanned, chosen.readable, chosen.rows, definition)},
        faults=FAULTS,
        rendered=rendered,
        told=chosen.told,
    )


def choose_pictures(definition: GalleryDefinition, ledger: Ledger) -> Chosen:
    """All but rendering: what a plan and a build of a set that asks about the pictures share."""
    source, listing = list_pictures(definition, ledger)
    folder = definition.out / definition.name
    pictures = scan_pictures(source, listing.items, folder, listing.carried)
    readable = sort_out(pictures, len(listing.items), ledger)
    wanted = wanted_pictures(pictures, readable, told_rescues(folder))
    filtered = filter_pictures(pictures, readable, wanted, definition, ledger)
    groups, models = remove_duplicates(source, pictures, filtered, definition, ledger)
    unique = filtered[groups.stays]
    rows = select_pictures(pictures, unique, wanted, definition, ledger)
    images = pictures.frame(_IMAGES, rows).assign(duplicate_group=groups.group[groups.stays][np.isin(unique, rows)])
    told = groups.told + wanted.told(rows)
    return Chosen(source, pictures, len(listing.items), readable, rows, images, groups, models, told)


@step("list pictures")
def list_pictures(definition: GalleryDefinition, ledger: Ledger) -> tuple[Source, Listing]:
    """What the source lists, and what of it is no item."""
    source = picture_sources.open_source(definition.images, skip=definition.out / definition.name)
    listing = source.listing()
    refused = listing.refused.to_pandas()
    away = turned_away(refused["item"], "rejected", refused["reason"], refused["detail"])
    ledger.close("list", "picture", len(listing.items) + len(refused), len(listing.items), away)
    if not len(listing.items):
        raise UserError("list pictures", definition.images, "lists no picture", "mend `images` in the definition")
    return source, listing


@step("scan pictures")
def sort_out(pictures: ScannedPictures, listed: int, ledger: Ledger) -> Rows:
    """The rows of the pictures that could be read."""
    told = pictures.frame(["item", "reason", "detail"])
    bad = told[told["reason"].notna()]
    readable = np.flatnonzero(told["reason"].isna())
    ledger.close(
        "scan", "picture", listed, len(readable), turned_away(bad["item"], "quarantined", bad["reason"], bad["detail"])
    )
    return readable


@step("filter pictures")
def filter_pictures(
    pictures: ScannedPictures, readable: Rows, wanted: WantedPictures, definition: GalleryDefinition, ledger: Ledger
) -> Rows:
    """The rows of the pictures that pass every rule, and of those that people want all the same."""
    frame = pictures.frame(["item", "width", "height", *summary.SCORES], readable)
    kept, reasons, details = picture_filters.apply_filters(frame, rules_of(definition))
    kept |= wanted.among(readable)
    away = turned_away(frame["item"][~kept], "rejected", list(reasons[~kept]), list(details[~kept]))
    ledger.close("filter", "picture", len(readable), int(kept.sum()), away)
    return readable[kept]


def rules_of(definition: GalleryDefinition) -> tuple[picture_filters.Rule, ...]:
    """The definition's filter as rules."""
    return picture_filters.picture_rules(**definition.filter.model_dump())


def remove_duplicates(
    source: Source, pictures: ScannedPictures, filtered: Rows, definition: GalleryDefinition, ledger: Ledger
) -> tuple[Duplicates, list[dict[str, Any]]]:
    """Which of the rows go on, one of each group of alike pictures; and the models that told which are alike."""
    rules, folder = definition.near_duplicates, definition.out / definition.name
    codes = {name: pictures.codes(name, filtered) for name in ("sha256", "pixels")}
    frame = pictures.frame(looks_of(rules), filtered).assign(**codes)
    groups, models = group_duplicates(frame, rules, source.locations, folder)
    ledger.close("duplicates", "picture", len(filtered), int(groups.stays.sum()), groups.away)
    return groups, models


@step("select pictures")
def select_pictures(
    pictures: ScannedPictures, unique: Rows, wanted: WantedPictures, definition: GalleryDefinition, ledger: Ledger
) -> Rows:
    """The rows of as many pictures as the definition asks for, of as many places and times as possible, and on top of
    them those that people want, which take nobody's turn."""
    rules = definition.select
    chosen = wanted.among(unique)
    others: Rows = np.flatnonzero(~chosen)
    frame = pictures.frame(["image_id", "taken_at", "latitude", "longitude"], unique[others])
    chosen[others] = selection.select_pictures(
        frame, count=rules.count, place_degrees=rules.place_degrees, time=rules.time, seed=definition.seed
    ).chosen
    rest = pictures.frame(["item"], unique[~chosen])["item"]
    ledger.close("select", "picture", len(unique), int(chosen.sum()), turned_away(rest, "rejected", "not_selected"))
    rows: Rows = unique[chosen]
    return rows


def described(pictures: ScannedPictures, readable: Rows, chosen: Rows, definition: GalleryDefinition) -> dict[str, Any]:
    """What the gallery is made of, for the page."""
    gallery = pictures.frame(["taken_at", "latitude", "longitude", "format", "width", "height"], chosen)
    scores = pictures.frame(summary.SCORES, readable)
    return summary.summarise(gallery, scores, place_degrees=definition.select.place_degrees)


def render(
    source: Source, images: pd.DataFrame, definition: GalleryDefinition, ledger: Ledger
) -> tuple[pd.DataFrame, Path | None]:
    """The images table: with pictures rendered, or with the places where they lie."""
    images = images.rename(columns={"item": "file_name"}).reindex(columns=IMAGES.names)
    texts = [field.name for field in IMAGES if field.type == pa.string()]
    images = images.astype(dict.fromkeys(texts, "str"))  # columns that nothing is known for are empty texts, too
    entered = len(images)
    # One that has gone since it was read has no place, and cannot be rendered.
    places = [place if isinstance(place, str) else "" for place in source.locations(images["file_name"])]
    if definition.render is not None:
        images, lost, rendered = render_pictures(images, places, definition.render, definition.out / definition.name)
        ledger.close("render", "picture", entered, len(images), lost)
        return images, rendered
    named = [place.isascii() or not any("\udc80" <= c <= "\udcff" for c in place) for place in places]
    lost = turned_away(images["file_name"][[not ok for ok in named]], "rejected", "name_not_utf8")
    ledger.close("name", "picture", entered, sum(named), lost)
    images = images[named].assign(path=pd.array([p for p, ok in zip(places, named, strict=True) if ok], dtype="str"))
    return images, None


def thresholds(definition: GalleryDefinition) -> list[dict[str, Any]]:
    """Every cut of the build, and whether the value itself still passes."""
    rules = definition.near_duplicates
    found = picture_filters.thresholds(rules_of(definition))
    if rules.distance is not None:
        cut = {"name": "near_duplicates.distance", "passes": "at most", "value": rules.distance, "inclusive": True}
        found.append(cut)
    if rules.embedder is not None:
        cut = {"name": "near_duplicates.cosine", "passes": "at least", "value": rules.cosine, "inclusive": True}
        found.append(cut)
    return found


def plan_gallery(definition: GalleryDefinition) -> dict[str, Any]:
    """What a build would have to do; no picture is read."""
    ledger = Ledger()
    source, listing = list_pictures(definition, ledger)
    pictures = len(listing.items)
    known = count_known(source, listing.items, definition.out / definition.name)
    kept = min(pictures, definition.select.count or pictures)
    pixels = definition.render.size**2 if definition.render else 0
    seconds = (pictures - known) * _SCAN_SECONDS + kept * _RENDER_SECONDS * bool(pixels)
    return {
        "funnel": ledger.funnel(),
        "pictures": pictures,
        "known_from_before": known,
        "model_calls": 0,
        "seconds_about": round(seconds / current().workers + 1, 1),
        "bytes_about": int(kept * pixels * _BYTES_A_PIXEL + 300 * pictures),
    }


if not TYPE_CHECKING:  # to a type checker every name would be in here
    __getattr__ = flow_in("gallery_set")

if __name__ == "__main__":
    main("gallery_set")
