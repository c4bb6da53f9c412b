"""The review page of a version, or of a table of topics: its views, and the files behind each."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from querytruth.errors import UserError
from querytruth.records import empty_frame
from querytruth.review import (
    decisions_page,
    gallery_cards,
    query_cards,
    query_queue,
    query_views,
    rejection_cards,
    similar_images,
)
from querytruth.review.deck import deck_routes
from querytruth.review.pool_views import PoolFile, PoolSession, PoolView
from querytruth.review.query_decisions import ReviewSession
from querytruth.review.server import image_routes
from querytruth.sets import benchmark_set, published_files, set_files
from querytruth.sets.decision_log import DecisionLog, find_lost_decisions
from querytruth.sets.decision_records import HumanCaption, ImagePairDecision, Override, QueryDecision
from querytruth.sets.manifest import Manifest
from querytruth.sets.set_thumbnails import make_set_thumbnail_reader, make_source_thumbnail_reader

_KINDS_WITH_OVERRIDES = ("gallery", "recall", "generated")


def build_pool_routes(table: Path) -> tuple[list[APIRouter], dict[str, Any]]:
    """Return the routes of a table in <out>/<name>/review, and what its page shows of it."""
    session = PoolSession(PoolFile(table))
    name = session.table.export.set_name.partition("/")[0]
    views = [table.stem.title()]
    page_context = {"name": name, "version": 0, "title": name, "grades": {}, "kept_in": table.name, "views": views}
    return [deck_routes(PoolView(session, table.stem), page_context)], page_context


@dataclass(frozen=True, slots=True)
class ReviewSite:
    """The routes of all views, what every page shows of the set, the work to do while the browser starts, and what to
    tell the reviewer about the runs."""

    routes: list[APIRouter]
    about: dict[str, Any]
    prepare: Callable[[], None] = lambda: None
    notes: Sequence[str] = ()
    has_results: bool = False  # of searches, to judge

    @property
    def start_path(self) -> str:
        """Return the path that the page opens at: its first view, or the results to judge."""
        return "/pairs?source=results" if self.has_results else f"/{self.about['views'][0].lower()}"


def open_review_site(
    stored: set_files.StoredSet, reviewer: str, runs: Sequence[Path] = (), depth: int = 10, systems: Sequence[Path] = ()
) -> ReviewSite:
    """Open a version: to judge its queries, or, of a gallery, to caption its images; then the views that
    only some sets have. With `runs`, or search services described in files (`systems`), it begins with the unjudged
    ones of their first `depth` results. Raises UserError where it has nothing to review."""
    path, manifest, judged = stored.path, stored.manifest, len(stored.tables.queries) > 0
    if not judged and manifest["kind"] != "gallery":
        raise UserError("review", path, "contains no queries", "view it with querytruth show SET --page FILE")
    about: dict[str, Any] = {
        **{key: manifest[key] for key in ("name", "version", "title", "grades")},
        "reviewer": reviewer,
        "views": ["Queries", "Pairs", "Decisions"] if judged else ["Captions", "Decisions"],
        "losses": [str(loss) for loss in find_lost_decisions(path)],
    }
    if (runs or systems) and not judged:
        option = "--run" if runs else "--system"
        raise UserError("review", path, "has no queries for a run to answer", f"remove {option}")
    pairs: list[tuple[str, str]] = []
    notes: list[str] = []
    if runs or systems:
        from querytruth.audit.steps import ASSUMED_SECONDS
        from querytruth.review.result_pool import read_result_pool

        pool = read_result_pool(stored, runs, depth, systems)
        pairs, minutes = pool.pairs, math.ceil(len(pool.pairs) * ASSUMED_SECONDS / 60)
        notes = [*pool.notes, f"judging them takes about {minutes:,} minutes, at {ASSUMED_SECONDS:g} s per pair"]
    site = _judging_site(stored, reviewer, about, pairs) if judged else _captioning_site(stored, reviewer, about)
    for name, build_routes in (
        ("Audit", _audit_routes),
        ("Duplicates", _duplicate_routes),
        ("Rejects", _rejection_routes),
    ):
        if routes := build_routes(stored, reviewer, about):
            about["views"].insert(-1, name)
            site.routes.extend(routes)
    return replace(site, notes=[*about["losses"], *notes], has_results=bool(pairs))


def _judging_site(
    stored: set_files.StoredSet, reviewer: str, about: dict[str, Any], results: list[tuple[str, str]]
) -> ReviewSite:
    image = make_set_thumbnail_reader(stored)
    review_state = query_cards.ReviewState[QueryDecision](
        reviewer, frozenset(stored.manifest["decisions"]["in_effect"])
    )
    render_mode = benchmark_set.get_render_options(stored.manifest).get("mode")
    cards = query_cards.QueryCards(stored.tables, stored.manifest["grades"], review_state, render_mode)
    session = ReviewSession(cards, DecisionLog(stored.path.parent, QueryDecision), results)
    judging = [deck_routes(view, about) for view in (query_views.QueriesView(session), query_views.PairsView(session))]
    judging.append(decisions_page.csv_routes(stored, reviewer))
    judging.append(decisions_page.decision_routes(stored, about, session))
    images = image_routes("/image", cards.has_image, image)
    similar = similar_images.SimilarImageSearch(stored)
    judging.append(query_views.image_finder_routes(session, stored.tables, similar))

    def prepare_thumbnails() -> None:  # those that a person sees first
        is_open = query_queue.QueryFilter(state="open")
        for group in query_queue.filter_groups(cards.groups, is_open, cards.text_of, cards.is_decided)[:3]:
            for image_entry in cards.build_query_card(group.key)["images"][:24]:
                image(image_entry["image_id"], 320)

    return ReviewSite([*judging, images], about, prepare_thumbnails)


def _captioning_site(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> ReviewSite:
    cards = gallery_cards.CaptionCards(stored.tables.images, reviewer)
    view = cards.follow(DecisionLog(stored.path.parent, HumanCaption))
    images = image_routes("/image", cards.has_image, make_set_thumbnail_reader(stored))
    decisions = decisions_page.decision_routes(stored, about)
    return ReviewSite([deck_routes(view, about), images, decisions], about)


def _audit_routes(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Return no routes for a version without audits, and load nothing of them: statistics and stores of replies."""
    if not (stored.path.parent / published_files.AUDITS_FOLDER).is_dir():
        return []
    from querytruth.audit.cards import build_audit_routes

    return build_audit_routes(stored, reviewer, about)


def _duplicate_routes(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Return no routes for a set whose groups come from another set's build, since only that build can apply a
    decision, nor for a set whose build looked for no duplicates."""
    manifest, duplicates = stored.manifest, stored.tables.duplicates
    other_set = manifest["configuration"].get("gallery") or manifest["notes"].get("nested")
    if other_set or not (len(duplicates) or manifest["kind"] == "gallery"):
        return []
    items = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    cards = gallery_cards.DuplicateCards(stored.tables, reviewer)
    return [
        deck_routes(cards.follow(DecisionLog(stored.path.parent, ImagePairDecision)), about),
        gallery_cards.pairing_routes(cards),
        image_routes("/duplicates/image", cards.has_image, make_source_thumbnail_reader(stored, items)),
    ]


def _rejection_routes(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Return no routes for a version that rejected nothing."""
    if not len(stored.tables.ledger):
        return []
    manifest, tables = stored.manifest, stored.tables
    context = rejection_cards.RejectionContext(
        _reason_not_overridable(manifest),
        {stale["decision"]: stale["why"] for stale in manifest["decisions"]["stale"]},
        tables.duplicates if "Duplicates" in about["views"] else empty_frame("duplicates"),
        files := similar_images.RejectedFiles(stored),
    )
    cards = rejection_cards.RejectionCards(tables.ledger, context, reviewer)
    view = cards.follow(DecisionLog(stored.path.parent, Override))
    return [deck_routes(view, about), cards.image_routes(files)]


def _reason_not_overridable(manifest: Manifest) -> str:
    """Return why no build of this set applies an override, or ""."""
    if nested := manifest["notes"].get("nested"):
        return f"this set is a part of {nested['of']}: rescue there, then build that set"
    if manifest["notes"].get("held_out"):
        return "this set was held out by a training: rescue in the set that it was split from, then train again"
    if manifest["kind"] not in _KINDS_WITH_OVERRIDES:
        return "builds of this kind of set do not apply rescues"
    if not isinstance(manifest["envelope"].get("definition"), dict):
        return "this version does not record what it was built from: build it from its definition, then rescue"
    return ""
