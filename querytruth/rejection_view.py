"""The review page's view of rejects, with its files behind callables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet

_KINDS_WITH_OVERRIDES = ("gallery", "recall", "generated")  # kinds whose builds follow rescues


def build_rejection_routes(stored: StoredSet, reviewer: str, page_context: dict[str, Any]) -> list[APIRouter]:
    """The routes of the view; none for a version that turned nothing away."""
    if not len(stored.tables.ledger):
        return []
    from backends.sets import decision_log
    from builders.records import empty_frame
    from querytruth.rejected_files import open_rejected_files
    from review.rejection_cards import RejectionCards, RejectionContext
    from review.requested_captions import RequestedCaptions
    from review.server.log_session import LogFile, LogSession
    from review.server.rejection_views import rejection_routes

    manifest, tables, folder = stored.manifest, stored.tables, stored.path.parent
    context = RejectionContext(
        RequestedCaptions(tables.images, manifest["configuration"].get("captions") or {}),
        _reason_not_overridable(manifest),
        {stale_decision["decision"]: stale_decision["why"] for stale_decision in manifest["decisions"]["stale"]},
        tables.duplicates if "Duplicates" in page_context["views"] else empty_frame("duplicates"),
    )
    cards = RejectionCards(tables.ledger, context, reviewer)
    log = LogFile(
        lambda lines: decision_log.append_decisions(folder, lines),
        lambda start: decision_log.read_overrides_from(folder, start),
    )
    return rejection_routes(LogSession(cards.apply_entries, log), cards, open_rejected_files(stored), page_context)


def _reason_not_overridable(manifest: Mapping[str, Any]) -> str:
    """Why no build of this set follows a rescue, or ""."""
    if nested := manifest["notes"].get("nested"):
        return f"this set is a part of {nested['of']}: rescue there, and build that one"
    if manifest["notes"].get("held_out"):
        return "a training kept this set back: rescue in the set that it is a part of, and train again"
    if manifest["kind"] not in _KINDS_WITH_OVERRIDES:
        return "no build of such a set follows a rescue"
    if not isinstance(manifest["envelope"].get("definition"), dict):
        return "this version does not say what it was built from: build it from its definition, then rescue"
    return ""
