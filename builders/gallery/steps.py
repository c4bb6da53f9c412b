"""Scans, filters, groups, selects and renders images, and the page of them: what the flow of gallery sets calls.

Other kinds of sets have their duplicates grouped here as well.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from builders.gallery import image_filters, page, selection
from builders.gallery.definition import GalleryDefinition
from builders.gallery.image_scan import OverriddenImages, ScannedImages
from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from builders.gallery.render_steps import render_images
from builders.gallery.source_sets import is_uncovered, record_covered
from querytruth.array_types import RowIndices
from querytruth.backends.images import image_sources
from querytruth.backends.images.rendering import make_thumbnails
from querytruth.backends.images.same_images import read_cuts
from querytruth.backends.images.source_readers import SourceListing
from querytruth.backends.steps import current_run, step
from querytruth.definitions import NearDuplicateOptions
from querytruth.errors import UserError
from querytruth.records import IMAGES_SCHEMA
from querytruth.sets import decision_outcomes
from querytruth.sets.benchmark_set import list_squashed_sizes
from querytruth.sets.decision_log import load_decisions
from querytruth.sets.decision_records import ImagePairDecision
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Provenance, Threshold, describe_threshold
from querytruth.sets.manifest_notes import ScanFigures
from querytruth.sets.set_files import StoredSet, locate_set_images, locate_source_items

_IMAGES = ["item", "image_id", *(name for name in IMAGES_SCHEMA.names if name not in ("image_id", "path", "file_name"))]
Locate = Callable[[Sequence[str]], Sequence[Any]]
_FEATURES = ["pixels", "views", "thumbnail", "details", "is_damaged"]


@dataclass(frozen=True, slots=True)
class SelectedImages:
    """The images of the gallery before they are rendered: `images` with their `item`, the name in the source;
    `selected_rows` are their rows among all scanned ones. `found_by`: the models and cuts that
    the `groups` of duplicates were found by; `decision_outcome`: what became of people's decisions."""

    source: image_sources.ImageSource
    scanned: ScannedImages
    listed_count: int
    readable_rows: RowIndices
    selected_rows: RowIndices
    images: pd.DataFrame
    groups: DuplicateGroups
    found_by: Provenance
    decision_outcome: decision_outcomes.DecisionOutcome


@step("list images")
def list_images(definition: GalleryDefinition, ledger: Ledger) -> tuple[image_sources.ImageSource, SourceListing]:
    """Return the source and what it lists. Raises UserError if it contains no images."""
    source = image_sources.open_source(definition.images, skip=definition.out / definition.name)
    listing = source.list_items()
    refused = listing.refused.to_pandas()
    rejections = rejection_rows(refused["item"], "rejected", refused["reason"], detail=refused["detail"])
    ledger.record_stage("list", "image", len(listing.items) + len(refused), len(listing.items), rejections)
    if not len(listing.items):
        raise UserError("list images", definition.images, "contains no images", "fix `images` in the definition")
    return source, listing


@step("scan images")
def split_readable(images: ScannedImages, listed_count: int, ledger: Ledger) -> RowIndices:
    """Return the rows of the images that could be read."""
    scan_results = images.to_frame(["item", "reason", "detail"])
    broken = scan_results[scan_results["reason"].notna()]
    readable = np.flatnonzero(scan_results["reason"].isna())
    rejections = rejection_rows(broken["item"], "quarantined", broken["reason"], detail=broken["detail"])
    ledger.record_stage("scan", "image", listed_count, len(readable), rejections)
    return readable


@step("filter images")
def filter_images(
    images: ScannedImages,
    readable: RowIndices,
    overridden: OverriddenImages,
    definition: GalleryDefinition,
    ledger: Ledger,
) -> RowIndices:
    """Return the rows of the images that pass every rule or are overridden."""
    frame = images.to_frame(["item", *image_filters.list_filter_columns()], readable)
    passes, failures = image_filters.apply_filters(frame, build_filter_rules(definition))
    is_overridden = overridden.is_overridden(readable)
    rejections = rejection_rows(frame["item"][~passes].to_numpy(), "rejected", **failures)[~is_overridden[~passes]]
    if large := int((rejections["reason"] == "too_large").sum()):
        limit = f"{definition.filter.model_dump()['max_side']:,} pixels (filter.max_side; 5,000 in the seed article)"
        advice = "raise filter.max_side to keep them; photos of 24-megapixel cameras need 10000"
        current_run().reporter.log(f"{large:,} images are left out because a side reaches {limit}; {advice}")
    passes |= is_overridden
    ledger.record_stage("filter", "image", len(readable), int(passes.sum()), rejections)
    return readable[passes]


def build_filter_rules(definition: GalleryDefinition) -> tuple[image_filters.ImageFilterRule, ...]:
    """Return the definition's filter as rules."""
    return image_filters.build_filter_rules(**definition.filter.model_dump())


def remove_duplicates(
    source: image_sources.ImageSource,
    images: ScannedImages,
    filtered: RowIndices,
    definition: GalleryDefinition,
    ledger: Ledger,
) -> tuple[DuplicateGroups, Provenance]:
    """Return the duplicate groups of the filtered rows, and the models and cuts that they were found by."""
    rules, folder = definition.near_duplicates, definition.out / definition.name
    codes = {name: images.factorize_column(name, filtered) for name in ("sha256", "pixels")}
    frame = images.to_frame(duplicate_columns(rules), filtered).assign(**codes)
    groups, found_by = group_duplicates(frame, rules, source.locate_all, folder)
    ledger.record_stage("duplicates", "image", len(filtered), int(groups.is_kept.sum()), groups.rejections)
    return groups, found_by


@step("find uncovered images")
def keep_uncovered_rows(
    images: ScannedImages,
    unique: RowIndices,
    overridden: OverriddenImages,
    definition: GalleryDefinition,
    ledger: Ledger,
) -> RowIndices:
    """Return the rows of the images that the set of `select.uncovered_by` does not cover, and of all overridden
    images."""
    if definition.select.uncovered_by is None:
        return unique
    frame = images.to_frame(["item", "image_id", "taken_at", "latitude", "longitude"], unique)
    frame = frame.rename(columns={"item": "file_name"})
    kept = is_uncovered(frame, definition.select, definition.out) | overridden.is_overridden(unique)
    record_covered(ledger, "coverage", frame, kept)
    return unique[kept]


@step("select images")
def select_images(
    images: ScannedImages,
    unique: RowIndices,
    overridden: OverriddenImages,
    definition: GalleryDefinition,
    ledger: Ledger,
) -> RowIndices:
    """Return the rows of as many images as the definition asks for, from as many places and times as possible, and of
    all overridden images, which do not count towards that number."""
    rules = definition.select
    if rules.count is not None and rules.count > len(unique):
        reported = f"select.count asks for {rules.count:,} images, but only {len(unique):,} are left: all are selected"
        current_run().reporter.log(reported)
    chosen = overridden.is_overridden(unique)
    others: RowIndices = np.flatnonzero(~chosen)
    frame = images.to_frame(["image_id", "taken_at", "latitude", "longitude"], unique[others])
    chosen[others] = selection.select_images(
        frame, count=rules.count, place_degrees=rules.place_degrees, time=rules.time, seed=definition.seed
    ).chosen
    rest = images.to_frame(["item", "image_id"], unique[~chosen])
    rejections = rejection_rows(rest["item"], "rejected", "not_selected", item_id=rest["image_id"])
    ledger.record_stage("select", "image", len(unique), int(chosen.sum()), rejections)
    rows: RowIndices = unique[chosen]
    return rows


def describe_selected(
    images: ScannedImages, groups: DuplicateGroups, unique: RowIndices, rows: RowIndices
) -> pd.DataFrame:
    """Return the selected rows with what is known of the images; `unique` are the rows that the groups keep."""
    return images.to_frame(_IMAGES, rows).assign(duplicate_group=groups.group[groups.is_kept][np.isin(unique, rows)])


def summarize_scan(images: ScannedImages, readable: RowIndices, selected_rows: RowIndices) -> ScanFigures:
    """Return what the page shows of the scan, which the set itself does not keep: the formats of the gallery's files,
    and the quality scores of all readable images, so that a threshold can be shown among them."""
    formats = images.to_frame(["format"], selected_rows)["format"].value_counts()
    scores = images.to_frame([*page.QUALITY_SCORES], readable)
    return {
        "formats": {str(name): int(count) for name, count in formats.items()},
        "scores": {name: page.measure_score(scores[name]) for name in page.QUALITY_SCORES},
    }


def render_gallery(
    source: image_sources.ImageSource, images: pd.DataFrame, definition: GalleryDefinition, ledger: Ledger
) -> tuple[pd.DataFrame, Path | None]:
    """Return the images table, and the folder of the rendered images: None without rendering, where `path` is the
    source's."""
    images = images.rename(columns={"item": "file_name"}).reindex(columns=IMAGES_SCHEMA.names)
    texts = [field.name for field in IMAGES_SCHEMA if field.type == pa.string()]
    images = images.astype(dict.fromkeys(texts, "str"))  # a column without any value is text, too
    entered = len(images)
    # A file that is gone since it was scanned has no path, and cannot be rendered.
    paths = [place if isinstance(place, str) else "" for place in source.locate_all(images["file_name"])]
    if definition.render is not None:
        folder = definition.out / definition.name
        images, rejections, rendered = render_images(images, paths, list(images["sha256"]), definition.render, folder)
        ledger.record_stage("render", "image", entered, len(images), rejections)
        return images, rendered
    is_utf8 = np.array([not re.search("[\udc80-\udcff]", path) for path in paths], dtype=bool)
    rejections = rejection_rows(images["file_name"][~is_utf8], "rejected", "name_not_utf8")
    ledger.record_stage("name", "image", entered, int(is_utf8.sum()), rejections)
    utf8_paths = [path for path, ok in zip(paths, is_utf8, strict=True) if ok]
    return images[is_utf8].assign(path=pd.array(utf8_paths, dtype="str")), None


def list_gallery_thresholds(definition: GalleryDefinition, of_duplicates: Sequence[Threshold]) -> list[Threshold]:
    """Return all thresholds of the build, for the manifest."""
    thresholds = [*(rule.threshold_record() for rule in build_filter_rules(definition)), *of_duplicates]
    if definition.select.count is not None:
        thresholds.append(describe_threshold("select.count", "at most", definition.select.count))
    return thresholds


def duplicate_columns(rules: NearDuplicateOptions) -> list[str]:
    """Return the columns of a scan that duplicates are found by, besides the digests of bytes and pixels."""
    columns = ["image_id", "item", "width", "height", "taken_at", "latitude"]
    return columns + ([] if rules.distance is None else ["views", "thumbnail", "details"])


@step("find duplicates")
def group_duplicates(
    frame: pd.DataFrame, rules: NearDuplicateOptions, locate: Locate, folder: Path
) -> tuple[DuplicateGroups, Provenance]:
    """Return the duplicate groups of scanned images, with the models and thresholds that found them.

    `locate` returns the paths of items; it is called only for an embedder, which needs the images themselves. The set's
    `folder` holds the embedder's vectors and the decisions on image pairs.
    """
    pairs, provenance = None, Provenance(thresholds=_list_view_thresholds(rules))
    if rules.embedder is not None:
        from querytruth.sets.image_vectors import find_similar_pairs  # loads a model: only where one is wanted

        pairs, found_by = find_similar_pairs(frame, locate(frame["item"]), rules.embedder, rules.cosine, folder)
        provenance += found_by
    transforms = {"flips": rules.flips, "rotations": rules.rotations}
    decisions = [*load_decisions(folder, ImagePairDecision).values()]
    return find_duplicates(frame, distance=rules.distance, **transforms, pairs=pairs, decisions=decisions), provenance


def mark_duplicates(
    images: pd.DataFrame, scanned: pd.DataFrame, rules: NearDuplicateOptions, folder: Path
) -> tuple[pd.DataFrame, DuplicateGroups, Provenance]:
    """Return the images table of a set that keeps its duplicates, with `duplicate_group` filled in; the groups; the
    models and cuts that they were found by.

    `scanned` has the scan of each image, by sha256; `is_damaged` may be missing.
    """
    by_sha256 = scanned.dropna(subset=["sha256"]).drop_duplicates("sha256").set_index("sha256")
    features = by_sha256.reindex(images["sha256"], columns=_FEATURES).reset_index(drop=True)
    features["is_damaged"] = features["is_damaged"].eq(True)
    frame = pd.concat([images.rename(columns={"file_name": "item"}).reset_index(drop=True), features], axis=1)
    path_of_item = dict(zip(frame["item"], frame["path"], strict=True))
    groups, provenance = group_duplicates(frame, rules, lambda items: [path_of_item[item] for item in items], folder)
    return images.assign(duplicate_group=groups.group), groups, provenance


def _list_view_thresholds(rules: NearDuplicateOptions) -> list[Threshold]:
    if rules.distance is None:
        return []
    return [
        describe_threshold("near_duplicates.distance", "at most", rules.distance),
        describe_threshold("near_duplicates.drawing_share", "at least", read_cuts()[0]),
    ]


def render_images_page(stored: StoredSet) -> str:
    """Return the page of a gallery, with its duplicate groups and rejections."""
    shown = page.select_gallery(stored.tables)
    squashed_sizes = list_squashed_sizes(stored.tables.images, stored.manifest)
    of_images = {page.ThumbnailKey("image", image_id): size for image_id, size in squashed_sizes.items()}
    small = make_thumbnails(_locate_thumbnails(stored, shown), of_images)
    return page.render_gallery_page(stored.tables, stored.manifest, small, shown)


def _locate_thumbnails(stored: StoredSet, shown: page.GallerySelection) -> dict[page.ThumbnailKey, str]:
    """Return the locations of the thumbnails, in the page's order, so that the same page has the same thumbnails."""
    grouped = {row.key.name for _, rows, _ in shown.groups for row in rows}
    # A build opens no file that was rejected as it was listed: a page does not either.
    reasons = [reason for reason in shown.rejection_reasons if reason.stage != "list"]
    readable_items = {example.item for reason in reasons for example in reason.examples}
    items = [key.name for key in shown.thumbnail_keys if key.kind == "item" and key.name in grouped | readable_items]
    in_set = locate_set_images(stored, [key.name for key in shown.thumbnail_keys if key.kind == "image"])
    in_source = locate_source_items(stored.own_definition.get("images"), items)
    locations = {page.ThumbnailKey("image", image_id): location for image_id, location in in_set.items()}
    return locations | {page.ThumbnailKey("item", item): location for item, location in in_source.items()}
