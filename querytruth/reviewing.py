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
from querytruth import csv_view, terminal
from querytruth.duplicate_view import duplicate_view
from querytruth.pool_page import is_table, next_command, pool_view
from querytruth.reject_view import reject_view
from querytruth.reviewed import next_for_gallery, reviewed
from querytruth.sets import DATASETS, Out, Set
from querytruth.told_view import told_words

if TYPE_CHECKING:
    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet
    from review.cards import Cards
    from review.server.guards import Door
    from review.server.pictures import Picture

# Further views by name; none of their routes where a set has nothing to show.
_VIEWS = {"Duplicates": duplicate_view, "Rejects": reject_view}


def page(
    set_: Set,
    out: Out = DATASETS,
    port: Annotated[int, typer.Option(help="Listen there; 0 takes a free one.", min=0, max=65535)] = 0,
    reviewer: Annotated[str, typer.Option(help="Whose decisions they are; not of a table, which keeps no names.")] = "",
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser; the address is printed.")] = False,
) -> None:
    """Open the page on which you judge a set, caption a gallery's pictures by hand, or choose from a table of topics
    or objects. Ctrl-C ends it.

    Example: querytruth review family-album --reviewer lin

    Example: querytruth review datasets/family-queries/review/topics.csv
    """
    from querytruth.judging import user
    from review.server.guards import Door

    if reviewer and is_table(set_):
        raise typer.BadParameter("a table keeps no names, leave it out", param_hint="--reviewer")
    path = reviewed(set_, out)
    listening = _listen(port)
    door = Door(listening.getsockname()[1], token_urlsafe(24))
    terminal.out.print(f"review page of {path}: {door.url}", markup=False, soft_wrap=True)
    terminal.err.print("querytruth: reading the set; Ctrl-C ends the page, decisions are kept at once")
    made = Made(*pool_view(path)) if is_table(set_) else desk_of(path, reviewer or user())
    Thread(target=made.prepare, daemon=True).start()
    _serve(made, door, listening, no_open)
    views = [name for name in made.about["views"] if name != "Decisions"]
    next_ = f"querytruth apply {set_}" if "Queries" in views else next_for_gallery(views)
    next_ = next_command(path) if is_table(set_) else next_
    terminal.err.print(f"page closed. Next: {next_}", markup=False)


@dataclass(frozen=True, slots=True)
class Made:
    """The routes of all views, what every page says of the set, and what is done while the browser starts."""

    routes: list[APIRouter]
    about: dict[str, Any]
    prepare: Callable[[], None] = lambda: None


def desk_of(path: Path, reviewer: str) -> Made:
    """All that the page needs of the version at `path`, with its files behind callables: to judge its queries, or, of
    a gallery, to caption its pictures; then the views that only some sets have."""
    from backends.sets import set_files

    stored = set_files.read(path)
    manifest, judged = stored.manifest, len(stored.tables.queries) > 0
    if not judged and manifest["kind"] != "gallery":
        raise UserError("review", path, "holds no queries", "look at it with querytruth show SET --page FILE")
    about = {
        **{key: manifest[key] for key in ("name", "version", "title", "grades")},
        "reviewer": reviewer,
        "views": ["Queries", "Pairs", "Decisions"] if judged else ["Captions", "Decisions"],
    }
    made = (_judging if judged else _captioning)(stored, reviewer, about)
    for name, view in _VIEWS.items():
        if routes := view(stored, reviewer, about):
            about["views"].insert(-1, name)
            made.routes.extend(routes)
    return made


def _judging(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> Made:
    from backends.sets import decision_log
    from querytruth.set_pictures import small_pictures
    from review.cards import Cards
    from review.server.decision_views import decision_routes
    from review.server.desk import Desk, Outside
    from review.server.log_desk import Log
    from review.server.pictures import picture_routes
    from review.server.views import csv_routes, data_routes, page_routes
    from review.words import Words

    path, folder, picture = stored.path, stored.path.parent, small_pictures(stored)
    outside = Outside(
        log=Log(lambda lines: decision_log.append(folder, lines), lambda start: decision_log.read_on(folder, start)),
        hand_out=lambda view: csv_view.handed_out(path, view),
        take_csv=lambda data, upload: csv_view.taken(path, data, upload, reviewer),
        stale=lambda: _stale(stored),
    )
    words = Words(reviewer, frozenset(stored.manifest["decisions"]["in_effect"]))
    cards = Cards(stored.tables, stored.manifest["grades"], words)
    desk = Desk(cards, outside)
    judging = [page_routes(desk, about), data_routes(desk), csv_routes(desk, about["name"])]
    judging.append(decision_routes(told_words(stored), about, desk))
    pictures = picture_routes("/picture", cards.is_picture, picture)
    return Made([*judging, pictures], about, lambda: _make_small(cards, picture))


def _captioning(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> Made:
    from backends.sets import caption_log
    from querytruth.set_pictures import small_pictures
    from review.caption_cards import CaptionCards
    from review.server.caption_views import caption_routes
    from review.server.decision_views import decision_routes
    from review.server.log_desk import Log, LogDesk
    from review.server.pictures import picture_routes

    folder, cards = stored.path.parent, CaptionCards(stored.tables.images, reviewer)
    log = Log(lambda lines: caption_log.append(folder, lines), lambda start: caption_log.read_on(folder, start))
    desk = LogDesk(cards.hear, log)
    pictures = picture_routes("/picture", cards.is_picture, small_pictures(stored))
    return Made([caption_routes(desk, cards, about), pictures, decision_routes(told_words(stored), about)], about)


def _make_small(cards: Cards, picture: Picture) -> None:
    """The pictures that a person sees first."""
    from review.query_queue import Filter, queue

    for entry in queue(cards.entries, Filter(state="open"), cards.text_of, cards.is_decided)[:3]:
        for one in cards.query(entry.query_id)["pictures"][:24]:
            picture(one["image_id"], 320)


def _stale(stored: StoredSet) -> list[dict[str, str]]:
    """Decisions of the log that do not fit the version, and why."""
    from backends.sets import decision_log
    from builders.decisions import apply_decisions
    from builders.ledger import Ledger

    log = decision_log.read_log(stored.path.parent)
    in_effect = frozenset(stored.manifest["decisions"]["in_effect"])
    _, outcome = apply_decisions(stored.tables, log, Ledger(), in_effect)
    return [{"decision": one.decision, "text": one.text, "why": why} for one, why in outcome.stale]


def _listen(port: int) -> socket.socket:
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


def _serve(made: Made, door: Door, listening: socket.socket, no_open: bool) -> None:
    """Until Ctrl-C or a polite kill."""
    import uvicorn

    from review.server.application import application

    config = uvicorn.Config(
        application(made.routes, door),
        lifespan="off", ws="none", access_log=False, log_level="warning", server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    if not no_open:
        Thread(target=webbrowser.open, args=[door.url], daemon=True).start()
    # The server ends by itself on both, and then raises them again for us: they have done their work.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda _signal, _frame: None)
    uvicorn.Server(config).run(sockets=[listening])
