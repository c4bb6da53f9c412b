"""The gallery: a set without queries, of the images in a folder, a list or a table.

source ─► list ─► scan ─► filter ─► duplicates ─► select ─► render ─► set v<N>
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from builders.gallery import steps
from builders.gallery.definition import GalleryDefinition
from builders.gallery.image_scan import count_scanned, find_overridden_images, scan_images
from builders.gallery.source_sets import describe_covering_set
from builders.publication import BuiltTables
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.requests import GalleryBuild
from flows.set_kind import SetKind
from querytruth.backends.steps import current_run
from querytruth.records import empty_frame
from querytruth.sets import benchmark_set, decision_log, decision_records, manifest
from querytruth.sets.ledger import Ledger

# Measured on two cores with photos of 0.3 to 12 megapixels (docs/performance.md); for plans only.
_SCAN_SECONDS, _RENDER_SECONDS, _BYTES_A_PIXEL = 0.004, 0.015, 0.2

GALLERY_LIMITATIONS = [
    "Near-duplicates are found by views of whole images: not small crops and, unless requested, not rotated images.",
    "Places and times come from the cameras; their clocks may be wrong.",
]


def choose_images(definition: GalleryDefinition, ledger: Ledger) -> steps.SelectedImages:
    """Return the selected images: all steps of a build but rendering."""
    source, listing = steps.list_images(definition, ledger)
    folder = definition.out / definition.name
    listed_count = len(listing.items)
    scanned = scan_images(source, listing.items, folder, listing.carried)
    del listing  # the jobs of the scan have the names, too
    readable = steps.split_readable(scanned, listed_count, ledger)
    overridden = find_overridden_images(
        scanned, readable, decision_log.load_decisions(folder, decision_records.Override)
    )
    filtered = steps.filter_images(scanned, readable, overridden, definition, ledger)
    groups, found_by = steps.remove_duplicates(source, scanned, filtered, definition, ledger)
    unique = filtered[groups.is_kept]
    uncovered = steps.keep_uncovered_rows(scanned, unique, overridden, definition, ledger)
    rows = steps.select_images(scanned, uncovered, overridden, definition, ledger)
    images = steps.describe_selected(scanned, groups, unique, rows)
    decision_outcome = groups.decision_outcome + overridden.decision_outcome(rows)
    return steps.SelectedImages(
        source, scanned, listed_count, readable, rows, images, groups, found_by, decision_outcome
    )


def build_gallery_tables(definition: GalleryDefinition) -> BuiltTables:
    """Return the set before it is published: tables, ledger and provenance. Raises UserError where the source is
    empty."""
    ledger = Ledger()
    chosen = choose_images(definition, ledger)
    images, rendered = steps.render_gallery(chosen.source, chosen.images, definition, ledger)
    counts = {"images": chosen.listed_count}
    return BuiltTables(
        tables=benchmark_set.Tables(
            empty_frame("queries"), images, empty_frame("qrels"), duplicates=chosen.groups.table
        ),
        ledger=ledger,
        grades={},
        provenance=manifest.Provenance(
            inputs=[
                manifest.Input(file=Path(definition.images).name, sha256=chosen.scanned.digest(), counts=counts),
                *describe_covering_set(definition),
            ],
            models=chosen.found_by.models,
            thresholds=steps.list_gallery_thresholds(definition, chosen.found_by.thresholds),
        ),
        notes={"scan": steps.summarize_scan(chosen.scanned, chosen.readable_rows, chosen.selected_rows)},
        known_limitations=GALLERY_LIMITATIONS,
        rendered_folder=rendered,
        decision_outcome=chosen.decision_outcome,
    )


def plan_gallery(definition: GalleryDefinition) -> dict[str, Any]:
    """Return what a build would do and cost; no image is read."""
    ledger = Ledger()
    source, listing = steps.list_images(definition, ledger)
    images = len(listing.items)
    known_count = count_scanned(source, listing.items, definition.out / definition.name)
    selected_count = min(images, definition.select.count or images)
    pixels = definition.render.size**2 if definition.render else 0
    seconds = (images - known_count) * _SCAN_SECONDS + selected_count * _RENDER_SECONDS * bool(pixels)
    return {
        "funnel": ledger.funnel(),
        "images": images,
        "known_from_before": known_count,
        "model_calls": 0,
        "seconds_about": round(seconds / current_run().workers + 1, 1),
        "bytes_about": int(selected_count * pixels * _BYTES_A_PIXEL + 300 * images),
    }


GALLERY_SET = SetKind(
    name="gallery",
    summary="Filter, deduplicate, select and render images, and publish the result as a gallery.",
    build_tables=build_gallery_tables,
    plan=plan_gallery,
    render_page=steps.render_images_page,
    parameters=GalleryBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = make_flow_getattr(GALLERY_SET)

if __name__ == "__main__":
    run_flow_script(GALLERY_SET)
