"""Writes a set's page: the pictures it shows are read, made small and put into one HTML file."""

from __future__ import annotations

from pathlib import Path

from backends.durable_files import translate_write_errors, write_atomically
from backends.images.thumbnails import make_thumbnails
from backends.sets import set_files
from backends.sets.image_locations import locate_set_images, locate_source_items
from backends.sets.set_files import StoredSet
from builders.lint import lint_tables
from review.set_pages.gallery_page import render_gallery_page
from review.set_pages.gallery_selection import GallerySelection, ThumbnailKey, select_gallery
from review.set_pages.generated_page import render_generated_page
from review.set_pages.generated_selection import select_generated
from review.set_pages.recall_page import render_recall_page
from review.set_pages.recall_selection import select_recall
from review.set_pages.set_page import render_set_page
from review.set_pages.set_selection import select_set_queries

_LISTING = "list"  # the stage of a gallery whose rejects no build has ever opened: neither does a page


def write_set_page(path: Path, page: Path) -> None:
    """One HTML file about the version at `path` that opens anywhere, with its pictures inside."""
    stored = set_files.read_set(path)
    pages = {"gallery": _gallery_page, "recall": _recall_page, "generated": _generated_page}
    html = pages.get(stored.manifest["kind"], _set_page)(stored)
    with translate_write_errors("write page", page, "give another file to --page"):
        write_atomically(page, html.encode("utf-8", "replace"))


def _set_page(stored: StoredSet) -> str:
    shown = select_set_queries(stored.tables, stored.manifest["notes"].get("parents", ()))
    small = make_thumbnails(locate_set_images(stored, shown.image_ids))
    return render_set_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)


def _recall_page(stored: StoredSet) -> str:
    shown = select_recall(stored.tables, stored.manifest["notes"])
    small = make_thumbnails(locate_set_images(stored, shown.image_ids))
    return render_recall_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)


def _generated_page(stored: StoredSet) -> str:
    shown = select_generated(stored.tables)
    small = make_thumbnails(locate_set_images(stored, shown.image_ids))
    return render_generated_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)


def _gallery_page(stored: StoredSet) -> str:
    shown = select_gallery(stored.tables)
    summary = stored.manifest["notes"]["summary"]
    small = make_thumbnails(_locations(stored, shown))
    return render_gallery_page(stored.tables, stored.manifest, summary, small, shown)


def _locations(stored: StoredSet, shown: GallerySelection) -> dict[ThumbnailKey, str]:
    """In the page's order, so that the same page has the same thumbnails."""
    grouped = {member.key.name for group in shown.groups for member in group.members}
    readable_items = {item for one in shown.rejection_reasons if one.stage != _LISTING for item, _ in one.examples}
    items = [key.name for key in shown.thumbnail_keys if key.kind == "item" and key.name in grouped | readable_items]
    in_set = locate_set_images(stored, [key.name for key in shown.thumbnail_keys if key.kind == "image"])
    image_locations = {ThumbnailKey("image", image_id): location for image_id, location in in_set.items()}
    return image_locations | {
        ThumbnailKey("item", item): place
        for item, place in locate_source_items(stored.definition.get("images"), items).items()
    }
