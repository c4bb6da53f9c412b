"""Renders the pages of sets, each one HTML file with thumbnails inside."""

from collections.abc import Callable

from builders.gallery.page import GallerySelection, ThumbnailKey, render_gallery_page, select_gallery
from builders.generated.page import render_generated_page, select_generated
from builders.lint import lint_tables
from builders.recall.page import render_recall_page, select_recall
from builders.set_page import render_set_page, select_set_queries
from querytruth.backends.images.rendering import make_thumbnails
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import list_squashed_sizes
from querytruth.sets.set_files import StoredSet, locate_set_images, locate_source_items
from querytruth.sets.set_thumbnails import make_set_thumbnails

RenderSetPage = Callable[[StoredSet], str]
_LISTING = "list"  # the stage whose rejected files no build opens: a page does not either


def render_judged_page(stored: StoredSet) -> str:
    """The page of a set of queries and judgments."""
    shown = select_set_queries(stored.tables, stored.manifest["notes"].get("parents", ()))
    small = make_set_thumbnails(stored, shown.image_ids)
    return render_set_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)


def render_captions_page(stored: StoredSet) -> str:
    """The page of a recall set, with its ambiguous captions."""
    shown = select_recall(stored.tables, stored.manifest["notes"])
    small = make_set_thumbnails(stored, shown.image_ids)
    return render_recall_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)


def render_topics_page(stored: StoredSet) -> str:
    """The page of a generated set, topic by topic."""
    shown = select_generated(stored.tables)
    small = make_set_thumbnails(stored, shown.image_ids)
    return render_generated_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)


def render_images_page(stored: StoredSet) -> str:
    """The page of a gallery, with its duplicate groups and rejections."""
    shown = select_gallery(stored.tables)
    summary = stored.manifest["notes"].get("summary")
    if summary is None:
        raise UserError("write page", stored.path, "has no summary in its manifest", "build the gallery again")
    squashed_sizes = list_squashed_sizes(stored.tables.images, stored.manifest)
    of_images = {ThumbnailKey("image", image_id): size for image_id, size in squashed_sizes.items()}
    small = make_thumbnails(_locations(stored, shown), of_images)
    return render_gallery_page(stored.tables, stored.manifest, summary, small, shown)


def _locations(stored: StoredSet, shown: GallerySelection) -> dict[ThumbnailKey, str]:
    """The locations of the thumbnails, in the page's order, so that the same page has the same thumbnails."""
    grouped = {member.key.name for group in shown.groups for member in group.members}
    reasons = [reason for reason in shown.rejection_reasons if reason.stage != _LISTING]
    readable_items = {example.item for reason in reasons for example in reason.examples}
    items = [key.name for key in shown.thumbnail_keys if key.kind == "item" and key.name in grouped | readable_items]
    in_set = locate_set_images(stored, [key.name for key in shown.thumbnail_keys if key.kind == "image"])
    in_source = locate_source_items(stored.own_definition.get("images"), items)
    locations = {ThumbnailKey("image", image_id): location for image_id, location in in_set.items()}
    return locations | {ThumbnailKey("item", item): location for item, location in in_source.items()}
