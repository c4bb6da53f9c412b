"""The review page's view of rejects, with its files behind callables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet

_HERE = ("gallery", "recall", "generated")  # kinds whose builds follow rescues


def reject_view(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """The routes of the view; none for a version that turned nothing away."""
    if not len(stored.tables.ledger):
        return []
    from backends.sets import decision_log
    from builders.records import empty
    from querytruth.reject_files import reject_files
    from review.reject_captions import Captions
    from review.reject_cards import Around, RejectCards
    from review.server.log_desk import Log, LogDesk
    from review.server.rejects import reject_routes

    manifest, tables, folder = stored.manifest, stored.tables, stored.path.parent
    around = Around(
        Captions(tables.images, manifest["configuration"].get("captions") or {}),
        _elsewhere(manifest),
        {word["decision"]: word["why"] for word in manifest["decisions"]["stale"]},
        tables.duplicates if "Duplicates" in about["views"] else empty("duplicates"),
    )
    cards = RejectCards(tables.ledger, around, reviewer)
    log = Log(
        lambda lines: decision_log.append(folder, lines), lambda start: decision_log.read_rescues_on(folder, start)
    )
    return reject_routes(LogDesk(cards.hear, log), cards, reject_files(stored), about)


def _elsewhere(manifest: Mapping[str, Any]) -> str:
    """Why no build of this set follows a rescue, or ""."""
    if nested := manifest["notes"].get("nested"):
        return f"this set is a part of {nested['of']}: rescue there, and build that one"
    if manifest["notes"].get("held_out"):
        return "a training kept this set back: rescue in the set that it is a part of, and train again"
    if manifest["kind"] not in _HERE:
        return "no build of such a set follows a rescue"
    if not isinstance(manifest["envelope"].get("definition"), dict):
        return "this version does not say what it was built from: build it from its definition, then rescue"
    return ""
