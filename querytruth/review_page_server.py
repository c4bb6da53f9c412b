"""`querytruth review SET`: serves the review page on this machine."""

from __future__ import annotations

import signal
import socket
import webbrowser
from secrets import token_urlsafe
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from builders.errors import UserError
from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, OutOption, SetArgument

if TYPE_CHECKING:
    from flows.review_session.review_site import ReviewSite
    from review.server.guards import PageAccess


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
    from flows.review_session.review_target import is_pool_table, resolve_review_target, suggest_next_command
    from review.server.guards import PageAccess

    is_table = is_pool_table(set_)
    if reviewer and is_table:
        raise typer.BadParameter("a table keeps no names, leave it out", param_hint="--reviewer")
    path = resolve_review_target(set_, out)
    listening = _open_loopback_socket(port)
    guard = PageAccess(listening.getsockname()[1], token_urlsafe(24))
    terminal.out.print(f"review page of {path}: {guard.url}", markup=False, soft_wrap=True)
    terminal.err.print("querytruth: reading the set; Ctrl-C ends the page, decisions are kept at once")
    from flows.review_session.pool_tables import build_pool_routes
    from flows.review_session.review_site import ReviewSite, open_review_site

    reviewer = reviewer or terminal.current_user_name()
    site = ReviewSite(*build_pool_routes(path)) if is_table else open_review_site(path, reviewer)
    Thread(target=site.prepare, daemon=True).start()
    _serve(site, guard, listening, no_open)
    next_command = suggest_next_command(set_, site.about["views"])
    terminal.err.print(f"page closed. Next: {next_command}", markup=False)


def _open_loopback_socket(port: int) -> socket.socket:
    """Open a socket on loopback, where connections wait while the set is read. Raises UserError for a port in use."""
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
    """Serve the page until SIGINT or SIGTERM."""
    import uvicorn

    from review.server.application import create_app

    config = uvicorn.Config(
        create_app(site.routes, guard, site.about["views"]),
        lifespan="off", ws="none", access_log=False, log_level="warning", server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    if not no_open:
        Thread(target=webbrowser.open, args=[guard.url], daemon=True).start()
    # The server stops on both signals and raises them again afterwards; then they must have no effect.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda _signal, _frame: None)
    uvicorn.Server(config).run(sockets=[listening])
