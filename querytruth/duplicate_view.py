"""The review page's view of near-duplicates, with its files behind callables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet


def duplicate_view(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """The routes of the view; none for a set whose groups another set's build made, or that has no groups: what is
    said must reach the build that can follow it."""
    manifest, duplicates = stored.manifest, stored.tables.duplicates
    elsewhere = manifest["configuration"].get("gallery") or manifest["notes"].get("nested")
    if elsewhere or not len(duplicates):
        return []
    from backends.sets import decision_log
    from querytruth.set_pictures import source_pictures
    from review.duplicate_cards import DuplicateCards
    from review.server.duplicates import DuplicateDesk, DuplicateOutside, duplicate_routes

    log = stored.path.parent
    items = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    outside = DuplicateOutside(
        append=lambda decisions: decision_log.append(log, decisions),
        read_on=lambda start: decision_log.read_pictures_on(log, start),
        picture=source_pictures(stored, items),
    )
    return [duplicate_routes(DuplicateDesk(DuplicateCards(stored.tables, reviewer), outside), about)]
