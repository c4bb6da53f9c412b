"""The review page's view of near-duplicates, with its files behind callables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet


def build_duplicate_routes(stored: StoredSet, reviewer: str, page_context: dict[str, Any]) -> list[APIRouter]:
    """The routes of the view; none for a set whose groups another set's build made: what is said must reach the build
    that can follow it. A gallery's build always looks for groups, others may not have."""
    manifest, duplicates = stored.manifest, stored.tables.duplicates
    other_set = manifest["configuration"].get("gallery") or manifest["notes"].get("nested")
    if other_set or not (len(duplicates) or manifest["kind"] == "gallery"):
        return []
    from backends.sets import decision_log
    from querytruth.set_images import make_source_thumbnail_reader
    from review.duplicate_cards import DuplicateCards
    from review.server.duplicate_views import duplicate_routes
    from review.server.images import image_routes
    from review.server.log_session import LogFile, LogSession

    folder = stored.path.parent
    items = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    cards = DuplicateCards(stored.tables, reviewer)
    log = LogFile(
        lambda lines: decision_log.append_decisions(folder, lines),
        lambda start: decision_log.read_image_decisions_from(folder, start),
    )
    return [
        duplicate_routes(LogSession(cards.apply_entries, log), cards, page_context),
        image_routes("/duplicates/picture", cards.has_image, make_source_thumbnail_reader(stored, items)),
    ]
