"""`querytruth review SET`: the page on which people judge, on this machine alone."""

from __future__ import annotations

import signal
import socket
import tempfile
import webbrowser
from dataclasses import asdict, dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builders.errors import UserError
from querytruth import terminal
from querytruth.duplicate_view import duplicate_view
from querytruth.pool_page import is_table, next_command, pool_desk, table_at
from querytruth.sets import DATASETS, Out, Set

if TYPE_CHECKING:
    from fastapi import APIRouter

    from backends.sets.set_files import StoredSet
    from review.server.caption_views import CaptionDesk
    from review.server.desk import Desk
    from review.server.guards import Door
    from review.server.pools import PoolDesk

_SAMPLE = 500  # judgments in the CSV, besides all pairs that wait for one


def page(
    set_: Set,
    out: Out = DATASETS,
    port: Annotated[int, typer.Option(help="Listen there; 0 takes a free one.", min=0, max=65535)] = 0,
    reviewer: Annotated[str, typer.Option(help="Whose decisions they are; a table keeps no names.")] = "",
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser; the address is printed.")] = False,
) -> None:
    """Open the page on which you judge a set, caption a gallery's pictures by hand, or choose from a table of topics
    or objects. Ctrl-C ends it.

    Example: querytruth review family-album --reviewer lin

    Example: querytruth review datasets/family-queries/review/topics.csv
    """
    from backends.sets import set_files
    from querytruth.judging import user
    from review.server.guards import Door

    path = table_at(set_) if is_table(set_) else set_files.find(set_, out)
    listening = _listen(port)
    door = Door(listening.getsockname()[1], token_urlsafe(24))
    terminal.out.print(f"review page of {path}: {door.url}", markup=False, soft_wrap=True)
    terminal.err.print("querytruth: reading the set; Ctrl-C ends the page, decisions are kept at once")
    made = Made(*pool_desk(path)) if is_table(set_) else desk_of(path, reviewer or user())
    Thread(target=_prepare, args=[made.desk], daemon=True).start()
    _serve(made, door, listening, no_open)
    next_ = f"querytruth apply {set_}" if "Decisions" in made.about["views"] else "querytruth build recall"
    next_ = next_command(path) if is_table(set_) else next_
    terminal.err.print(f"page closed. Next: {next_}", markup=False)


@dataclass(frozen=True, slots=True)
class Made:
    """The desk of a set, what every page says of it, and the routes of further views."""

    desk: Desk | CaptionDesk | PoolDesk
    about: dict[str, Any]
    more: list[APIRouter] = field(default_factory=list)


def desk_of(path: Path, reviewer: str) -> Made:
    """All that the page needs of the version at `path`, with its files behind callables: to judge its queries, or, of
    a gallery, to caption its pictures."""
    from backends.sets import set_files

    stored = set_files.read(path)
    manifest, judged = stored.manifest, len(stored.tables.queries) > 0
    if not judged and manifest["kind"] != "gallery":
        raise UserError("review", path, "holds no queries", "look at it with querytruth show SET --page FILE")
    about = {
        **{key: manifest[key] for key in ("name", "version", "title", "grades")},
        "reviewer": reviewer,
        "views": ["Queries", "Pairs", "Decisions"] if judged else ["Captions"],
    }
    if more := duplicate_view(stored, reviewer, about):
        about["views"].insert(len(about["views"]) - judged, "Duplicates")
    return Made(_judging_desk(stored, reviewer) if judged else _caption_desk(stored, reviewer), about, more)


def _judging_desk(stored: StoredSet, reviewer: str) -> Desk:
    from backends.sets import decision_log
    from querytruth.set_pictures import small_pictures
    from review.cards import Cards
    from review.server.desk import Desk, Outside
    from review.words import Words

    path, log = stored.path, stored.path.parent
    words = Words(reviewer, frozenset(stored.manifest["decisions"]["in_effect"]))
    outside = Outside(
        append=lambda decisions: decision_log.append(log, decisions),
        read_on=lambda start: decision_log.read_on(log, start),
        picture=small_pictures(stored),
        hand_out=lambda view: _handed_out(path, view),
        take_csv=lambda name, data, dry_run: _taken(path, name, data, reviewer, dry_run),
        stale=lambda: _stale(stored),
    )
    return Desk(Cards(stored.tables, stored.manifest["grades"], words), outside)


def _caption_desk(stored: StoredSet, reviewer: str) -> CaptionDesk:
    from backends.sets import caption_log
    from querytruth.set_pictures import small_pictures
    from review.caption_cards import CaptionCards
    from review.server.caption_views import CaptionDesk, CaptionOutside

    log = stored.path.parent
    outside = CaptionOutside(
        append=lambda captions: caption_log.append(log, captions),
        read_on=lambda start: caption_log.read_on(log, start),
        picture=small_pictures(stored),
    )
    return CaptionDesk(CaptionCards(stored.tables.images, reviewer), outside)


def _prepare(desk: Desk | CaptionDesk | PoolDesk) -> None:
    """Make the pictures small that a person sees first, while the browser starts."""
    from review.query_queue import Filter, queue
    from review.server.desk import Desk

    if not isinstance(desk, Desk):
        return
    cards = desk.cards
    for entry in queue(cards.entries, Filter(state="open"), cards.text_of, cards.is_decided)[:3]:
        for one in cards.query(entry.query_id)["pictures"][:24]:
            desk.outside.picture(one["image_id"], 320)


def _handed_out(path: Path, view: str) -> bytes:
    """A view's CSV, as `review export-csv` writes it."""
    from backends.sets import review_csv
    from querytruth.judging import export_of

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{view}.csv"
        review_csv.write_csv(export_of(path, view, _SAMPLE), file)
        return file.read_bytes()


def _taken(path: Path, name: str, data: bytes, reviewer: str, dry_run: bool) -> dict[str, Any]:
    """What a filled-in CSV decides, taken unless it is a dry run; or all its problems, and nothing taken."""
    from backends.sets import decision_log
    from builders.review_tables import tally
    from querytruth.judging import read_filled

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "upload.csv"  # never by the name that it was sent with
        file.write_bytes(data)
        try:
            reading = read_filled(path, file, reviewer)
        except UserError as error:
            return {"problems": [str(error).replace(str(file), name)], "decisions": [], "taken": False}
    if not dry_run:
        decision_log.append(path.parent, reading.decisions)
    shown = [
        asdict(decision) | {"new": decision.new_text or ("" if decision.relevance is None else decision.relevance)}
        for decision in reading.decisions
    ]
    counted = ", ".join(f"{number} {kind}" for kind, number in tally(reading.decisions).items())
    taken = not dry_run and not reading.problems
    return {"problems": reading.problems, "decisions": shown, "tally": counted, "taken": taken}


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

    app = application(made.desk, door, made.about, made.more)
    config = uvicorn.Config(
        app, lifespan="off", ws="none", access_log=False, log_level="warning", server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    if not no_open:
        Thread(target=webbrowser.open, args=[door.url], daemon=True).start()
    # The server ends by itself on both, and then raises them again for us: they have done their work.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda _signal, _frame: None)
    uvicorn.Server(config).run(sockets=[listening])
