"""The review page of a version: which views it has, and the files behind each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from backends.sets import set_files
from backends.sets.decision_log import DecisionLog, read_decisions
from backends.sets.lost_decisions import find_lost_decisions
from backends.sets.set_files import StoredSet
from backends.sets.set_thumbnails import make_set_thumbnail_reader, make_source_thumbnail_reader
from builders.audit.answers import find_disputes
from builders.decisions.application import apply_decisions
from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import HumanCaption, ImagePairDecision, Override, QueryDecision, UndeterminedPair
from builders.errors import UserError
from builders.ledger import Ledger
from builders.records import empty_frame
from builders.rendered_sizes import get_render_options
from flows.review_session import review_exports
from flows.review_session.audit_view import build_audit_routes
from flows.review_session.rejected_files import open_rejected_files
from flows.review_session.result_pools import ResultPool, read_result_pool
from flows.review_session.similar_images import SimilarImageSearch
from review.caption_cards import CaptionCards
from review.decision_summary import DecisionSummary, summarize_decisions
from review.duplicate_cards import DuplicateCards
from review.query_cards import QueryCards
from review.query_queue import QueryFilter, filter_groups
from review.rejection_cards import RejectionCards, RejectionContext
from review.review_state import ReviewState
from review.server.caption_views import caption_routes
from review.server.decision_views import decision_routes
from review.server.duplicate_views import duplicate_routes
from review.server.image_finder_views import SimilarImages, image_finder_routes
from review.server.images import image_routes
from review.server.log_session import LogSession
from review.server.query_views import csv_routes, data_routes, page_routes, pair_routes
from review.server.rejection_views import rejection_routes
from review.server.review_session import ReviewSession, ReviewStorage

_KINDS_WITH_OVERRIDES = ("gallery", "recall", "generated")


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
        """The path that the page opens at: its first view, or the results to judge."""
        return "/pairs?source=results" if self.has_results else f"/{self.about['views'][0].lower()}"


def open_review_site(path: Path, reviewer: str, runs: Sequence[Path] = (), depth: int = 10) -> ReviewSite:
    """Open the version at `path`: to judge its queries, or, of a gallery, to caption its images; then the views that
    only some sets have. With `runs`, it begins with the unjudged ones of their first `depth` results. Raises UserError
    where it has nothing to review."""
    stored = set_files.read_set(path)
    manifest, judged = stored.manifest, len(stored.tables.queries) > 0
    if not judged and manifest["kind"] != "gallery":
        raise UserError("review", path, "holds no queries", "look at it with querytruth show SET --page FILE")
    about = {
        **{key: manifest[key] for key in ("name", "version", "title", "grades")},
        "reviewer": reviewer,
        "views": ["Queries", "Pairs", "Decisions"] if judged else ["Captions", "Decisions"],
        "losses": [str(loss) for loss in find_lost_decisions(path)],
    }
    if runs and not judged:
        raise UserError("review", path, "has no queries that a run could answer", "leave out --run")
    pool = read_result_pool(stored, runs, depth) if runs else ResultPool([], [])
    site = _judging_site(stored, reviewer, about, pool) if judged else _captioning_site(stored, reviewer, about)
    for name, build_routes in (
        ("Audit", build_audit_routes),
        ("Duplicates", _duplicate_routes),
        ("Rejects", _rejection_routes),
    ):
        if routes := build_routes(stored, reviewer, about):
            about["views"].insert(-1, name)
            site.routes.extend(routes)
    return replace(site, notes=[*about["losses"], *site.notes])


def _judging_site(stored: StoredSet, reviewer: str, about: dict[str, Any], pool: ResultPool) -> ReviewSite:
    path, image = stored.path, make_set_thumbnail_reader(stored)
    callbacks = ReviewStorage(
        log=DecisionLog(path.parent, QueryDecision),
        export_csv=lambda view: review_exports.export_review_csv(path, view),
        import_csv=lambda data, upload: review_exports.import_review_csv(path, data, upload, reviewer),
        read_outcome=lambda: _read_outcome(stored),
    )
    review_state = ReviewState[QueryDecision](reviewer, frozenset(stored.manifest["decisions"]["in_effect"]))
    render_mode = get_render_options(stored.manifest).get("mode")
    cards = QueryCards(stored.tables, stored.manifest["grades"], review_state, render_mode)
    session = ReviewSession(cards, callbacks, pool.pairs)
    judging = [page_routes(session, about), data_routes(session), pair_routes(session)]
    judging.append(csv_routes(session, about["name"]))
    judging.append(decision_routes(_make_decision_summary_reader(stored), about, session))
    images = image_routes("/image", cards.has_image, image)
    search = SimilarImageSearch(stored)
    similar = SimilarImages(search.find_by_image, search.find_by_file)
    judging.append(image_finder_routes(session, stored.tables, similar))

    def prepare_thumbnails() -> None:  # those that a person sees first
        for group in filter_groups(cards.groups, QueryFilter(state="open"), cards.text_of, cards.is_decided)[:3]:
            for image_entry in cards.build_query_card(group.key)["images"][:24]:
                image(image_entry["image_id"], 320)

    return ReviewSite([*judging, images], about, prepare_thumbnails, pool.notes, bool(pool.pairs))


def _captioning_site(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> ReviewSite:
    cards = CaptionCards(stored.tables.images, reviewer)
    session = LogSession(cards.apply_entries, DecisionLog(stored.path.parent, HumanCaption))
    images = image_routes("/image", cards.has_image, make_set_thumbnail_reader(stored))
    decisions = decision_routes(_make_decision_summary_reader(stored), about)
    return ReviewSite([caption_routes(session, cards, about), images, decisions], about)


def _make_decision_summary_reader(stored: StoredSet) -> Callable[[], DecisionSummary]:
    """Returns a function that counts the decisions on images and rejections, and the captions people wrote, as the logs
    are when it is called."""
    folder, image_names = stored.path.parent, _image_names(stored)
    return lambda: summarize_decisions(
        read_decisions(folder, ImagePairDecision),
        read_decisions(folder, Override),
        read_decisions(folder, HumanCaption),
        stored.manifest["decisions"],
        image_names,
    )


def _image_names(stored: StoredSet) -> dict[str, str]:
    """The names that people know the images by."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    names_by_image = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["file_name"].notna()]
    return names_by_image | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))


def _read_outcome(stored: StoredSet) -> DecisionOutcome:
    """Returns which decisions of the log fit the version, and which contradict each other, as `apply` takes them."""
    log, in_effect = (
        read_decisions(stored.path.parent, QueryDecision),
        frozenset(stored.manifest["decisions"]["in_effect"]),
    )
    disputes = find_disputes(log, read_decisions(stored.path.parent, UndeterminedPair), in_effect)
    return apply_decisions(stored.tables, disputes.exclude_from(log, in_effect), Ledger(), in_effect)[1]


def _duplicate_routes(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Returns no routes for a set whose groups come from another set's build, since only that build can apply a
    decision, nor for a set whose build looked for no duplicates."""
    manifest, duplicates = stored.manifest, stored.tables.duplicates
    other_set = manifest["configuration"].get("gallery") or manifest["notes"].get("nested")
    if other_set or not (len(duplicates) or manifest["kind"] == "gallery"):
        return []
    items = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    cards, log = DuplicateCards(stored.tables, reviewer), DecisionLog(stored.path.parent, ImagePairDecision)
    return [
        duplicate_routes(LogSession(cards.apply_entries, log), cards, about),
        image_routes("/duplicates/image", cards.has_image, make_source_thumbnail_reader(stored, items)),
    ]


def _rejection_routes(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Returns no routes for a version that rejected nothing."""
    if not len(stored.tables.ledger):
        return []
    manifest, tables = stored.manifest, stored.tables
    context = RejectionContext(
        _reason_not_overridable(manifest),
        {stale["decision"]: stale["why"] for stale in manifest["decisions"]["stale"]},
        tables.duplicates if "Duplicates" in about["views"] else empty_frame("duplicates"),
    )
    cards, log = RejectionCards(tables.ledger, context, reviewer), DecisionLog(stored.path.parent, Override)
    return rejection_routes(LogSession(cards.apply_entries, log), cards, open_rejected_files(stored), about)


def _reason_not_overridable(manifest: Mapping[str, Any]) -> str:
    """Returns why no build of this set applies an override, or ""."""
    if nested := manifest["notes"].get("nested"):
        return f"this set is a part of {nested['of']}: rescue there, and build that one"
    if manifest["notes"].get("held_out"):
        return "a training kept this set back: rescue in the set that it is a part of, and train again"
    if manifest["kind"] not in _KINDS_WITH_OVERRIDES:
        return "no build of such a set follows a rescue"
    if not isinstance(manifest["envelope"].get("definition"), dict):
        return "this version does not say what it was built from: build it from its definition, then rescue"
    return ""
