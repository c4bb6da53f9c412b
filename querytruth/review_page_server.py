"""`querytruth review SET`: the page on which people judge, on this machine alone."""

from __future__ import annotations

import signal
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builders.errors import UserError
from querytruth import review_csv_handlers, terminal
from querytruth.decision_summary import make_decision_summary_reader
from querytruth.duplicate_view import build_duplicate_routes
from querytruth.pool_table_review import build_pool_routes, is_pool_table, next_pool_command
from querytruth.rejection_view import build_rejection_routes
from querytruth.review_target import next_step_for_gallery, resolve_review_target
from querytruth.set_commands import DEFAULT_DATASETS_FOLDER, OutOption, SetArgument

if TYPE_CHECKING:
    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet
    from review.query_cards import QueryCards
    from review.server.guards import PageAccess
    from review.server.images import ImageLoader

# Further views by name; none of their routes where a set has nothing to show.
_OPTIONAL_VIEWS = {"Duplicates": build_duplicate_routes, "Rejects": build_rejection_routes}


def page(
    set_: SetArgument,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    port: Annotated[int, typer.Option(help="Listen there; 0 takes a free one.", min=0, max=65535)] = 0,
    reviewer: Annotated[str, typer.Option(help="Whose decisions they are; not of a table, which keeps no names.")] = "",
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser; the address is printed.")] = False,
) -> None:
    """Open the page on which you judge a set, caption a gallery's pictures by hand, or choose from a table of topics
    or objects. Ctrl-C ends it.

    Example: querytruth review family-album --reviewer lin

    Example: querytruth review datasets/family-queries/review/topics.csv
    """
    from querytruth.review_commands import current_user_name
    from review.server.guards import PageAccess

    if reviewer and is_pool_table(set_):
        raise typer.BadParameter("a table keeps no names, leave it out", param_hint="--reviewer")
    path = resolve_review_target(set_, out)
    listening = _open_loopback_socket(port)
    guard = PageAccess(listening.getsockname()[1], token_urlsafe(24))
    terminal.out.print(f"review page of {path}: {guard.url}", markup=False, soft_wrap=True)
    terminal.err.print("querytruth: reading the set; Ctrl-C ends the page, decisions are kept at once")
    site = (
        ReviewSite(*build_pool_routes(path))
        if is_pool_table(set_)
        else open_review_site(path, reviewer or current_user_name())
    )
    Thread(target=site.prepare, daemon=True).start()
    _serve(site, guard, listening, no_open)
    views = [name for name in site.about["views"] if name != "Decisions"]
    next_ = f"querytruth apply {set_}" if "Queries" in views else next_step_for_gallery(views)
    next_ = next_pool_command(path) if is_pool_table(set_) else next_
    terminal.err.print(f"page closed. Next: {next_}", markup=False)


@dataclass(frozen=True, slots=True)
class ReviewSite:
    """The routes of all views, what every page says of the set, and what is done while the browser starts."""

    routes: list[APIRouter]
    about: dict[str, Any]
    prepare: Callable[[], None] = lambda: None


def open_review_site(path: Path, reviewer: str) -> ReviewSite:
    """All that the page needs of the version at `path`, with its files behind callables: to judge its queries, or, of
    a gallery, to caption its pictures; then the views that only some sets have."""
    from backends.sets import set_files

    stored = set_files.read_set(path)
    manifest, judged = stored.manifest, len(stored.tables.queries) > 0
    if not judged and manifest["kind"] != "gallery":
        raise UserError("review", path, "holds no queries", "look at it with querytruth show SET --page FILE")
    about = {
        **{key: manifest[key] for key in ("name", "version", "title", "grades")},
        "reviewer": reviewer,
        "views": ["Queries", "Pairs", "Decisions"] if judged else ["Captions", "Decisions"],
    }
    site = (_judging_site if judged else _captioning_site)(stored, reviewer, about)
    for name, view in _OPTIONAL_VIEWS.items():
        if routes := view(stored, reviewer, about):
            about["views"].insert(-1, name)
            site.routes.extend(routes)
    return site


def _judging_site(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> ReviewSite:
    from backends.sets import decision_log
    from querytruth.set_images import make_set_thumbnail_reader
    from review.query_cards import QueryCards
    from review.review_state import ReviewState
    from review.server.decision_views import decision_routes
    from review.server.images import image_routes
    from review.server.log_session import LogFile
    from review.server.query_views import csv_routes, data_routes, page_routes
    from review.server.review_session import ReviewSession, ReviewStorage

    path, folder, image = stored.path, stored.path.parent, make_set_thumbnail_reader(stored)
    callbacks = ReviewStorage(
        log=LogFile(
            lambda lines: decision_log.append_decisions(folder, lines),
            lambda start: decision_log.read_decisions_from(folder, start),
        ),
        export_csv=lambda view: review_csv_handlers.export_review_csv(path, view),
        import_csv=lambda data, upload: review_csv_handlers.import_review_csv(path, data, upload, reviewer),
        list_stale_decisions=lambda: _stale_decisions(stored),
    )
    review_state = ReviewState(reviewer, frozenset(stored.manifest["decisions"]["in_effect"]))
    cards = QueryCards(stored.tables, stored.manifest["grades"], review_state)
    session = ReviewSession(cards, callbacks)
    judging = [page_routes(session, about), data_routes(session), csv_routes(session, about["name"])]
    judging.append(decision_routes(make_decision_summary_reader(stored), about, session))
    images = image_routes("/picture", cards.has_image, image)
    return ReviewSite([*judging, images], about, lambda: _prepare_thumbnails(cards, image))


def _captioning_site(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> ReviewSite:
    from backends.sets import caption_log
    from querytruth.set_images import make_set_thumbnail_reader
    from review.caption_cards import CaptionCards
    from review.server.caption_views import caption_routes
    from review.server.decision_views import decision_routes
    from review.server.images import image_routes
    from review.server.log_session import LogFile, LogSession

    folder, cards = stored.path.parent, CaptionCards(stored.tables.images, reviewer)
    log = LogFile(
        lambda lines: caption_log.append_captions(folder, lines),
        lambda start: caption_log.read_captions_from(folder, start),
    )
    session = LogSession(cards.apply_entries, log)
    images = image_routes("/picture", cards.has_image, make_set_thumbnail_reader(stored))
    return ReviewSite(
        [caption_routes(session, cards, about), images, decision_routes(make_decision_summary_reader(stored), about)],
        about,
    )


def _prepare_thumbnails(cards: QueryCards, load_thumbnail: ImageLoader) -> None:
    """The pictures that a person sees first."""
    from review.query_queue import QueryFilter, filter_queries

    for entry in filter_queries(cards.entries, QueryFilter(state="open"), cards.text_of, cards.is_decided)[:3]:
        for image_entry in cards.build_query_card(entry.query_id)["pictures"][:24]:
            load_thumbnail(image_entry["image_id"], 320)


def _stale_decisions(stored: StoredSet) -> list[dict[str, str]]:
    """Decisions of the log that do not fit the version, and why."""
    from backends.sets import decision_log
    from builders.decisions import apply_decisions
    from builders.ledger import Ledger

    log = decision_log.read_decision_log(stored.path.parent)
    in_effect = frozenset(stored.manifest["decisions"]["in_effect"])
    _, outcome = apply_decisions(stored.tables, log, Ledger(), in_effect)
    return [{"decision": one.decision, "text": one.text, "why": why} for one, why in outcome.stale]


def _open_loopback_socket(port: int) -> socket.socket:
    """A socket on loopback that connections can wait at while the set is read."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        reason = f"cannot be listened at ({error.strerror})"
        raise UserError("review", f"port {port}", reason, "give another --port, or none") from None
    return listening


def _serve(site: ReviewSite, guard: PageAccess, listening: socket.socket, no_open: bool) -> None:
    """Until Ctrl-C or a polite kill."""
    import uvicorn

    from review.server.application import create_app

    config = uvicorn.Config(
        create_app(site.routes, guard),
        lifespan="off", ws="none", access_log=False, log_level="warning", server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    if not no_open:
        Thread(target=webbrowser.open, args=[guard.url], daemon=True).start()
    # The server ends by itself on both, and then raises them again for us: they have done their work.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda _signal, _frame: None)
    uvicorn.Server(config).run(sockets=[listening])
