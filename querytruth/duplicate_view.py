"""The review page's view of near-duplicates, with its files behind callables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet


def duplicate_view(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """The routes of the view; none for a set whose groups another set's build made: what is said must reach the build
    that can follow it. A gallery's build always looks for groups, others may not have."""
    manifest, duplicates = stored.manifest, stored.tables.duplicates
    elsewhere = manifest["configuration"].get("gallery") or manifest["notes"].get("nested")
    if elsewhere or not (len(duplicates) or manifest["kind"] == "gallery"):
        return []
    from backends.sets import decision_log
    from querytruth.set_pictures import source_pictures
    from review.duplicate_cards import DuplicateCards
    from review.server.duplicates import duplicate_routes
    from review.server.log_desk import Log, LogDesk
    from review.server.pictures import picture_routes

    folder = stored.path.parent
    items = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    cards = DuplicateCards(stored.tables, reviewer)
    log = Log(
        lambda lines: decision_log.append(folder, lines), lambda start: decision_log.read_pictures_on(folder, start)
    )
    return [
        duplicate_routes(LogDesk(cards.hear, log), cards, about),
        picture_routes("/duplicates/picture", cards.is_picture, source_pictures(stored, items)),
    ]
