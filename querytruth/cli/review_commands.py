"""`querytruth review` and `apply`: the review page on this machine, decisions as CSV, and their publication.

The socket at which the review page listens, and how it is served there.
"""

from __future__ import annotations

import signal
import socket
import webbrowser
from dataclasses import asdict
from pathlib import Path
from secrets import token_urlsafe
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.cli import options, set_commands
from querytruth.errors import UserError

if TYPE_CHECKING:
    from socket import socket as Socket

    import uvicorn
    from starlette.types import ASGIApp

    from flows.review_site import ReviewSite
    from querytruth.review.server import PageAccess
    from querytruth.sets.review_tables import ReviewImportResult

LOOPBACK = "127.0.0.1"
_EVERY_ADDRESS = ("", "*", "0.0.0.0", "::")
HostOption = Annotated[
    str, typer.Option(help="Listen at this address of the machine, for people on others.", metavar="ADDRESS")
]
app = typer.Typer(
    help="Open the page on which people judge a set: querytruth review SET. Or hand it out as CSV, and take that back.",
    cls=options.default_to("page"),
    no_args_is_help=True,
)

_SHOWN_PROBLEMS = 20
_SHOWN_CHANGES = 5  # of each kind, after an apply
AllowOtherExportOption = Annotated[
    bool, typer.Option("--allow-other-export", help="It may be an older version's export.")
]


def open_page_socket(host: str, port: int) -> socket.socket:
    """Open a socket where connections wait while the set is read. Raises UserError for a port in use, for what is no
    address of this machine, and for every address at once: the page serves only the name that people type."""
    if host in _EVERY_ADDRESS:
        next_step = f"give the one that people type, such as {socket.gethostname()}"
        raise UserError("review", f"host {host}", "is every address of the machine", next_step)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = f"cannot be resolved ({getattr(error, 'strerror', None) or error})"
        raise UserError("review", f"host {host}", reason, "give an address of this machine, or none") from None
    listening = socket.socket(family, kind)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(64)
    except OSError as error:
        listening.close()
        item = f"port {port}" if host == LOOPBACK else f"{host} port {port}"
        next_step = "give another --port, or none" if host == LOOPBACK else "give an address of this machine, or none"
        raise UserError("review", item, f"cannot be listened at ({error.strerror})", next_step) from None
    return listening


def make_page_server(app: ASGIApp, seconds: float = 30) -> uvicorn.Server:
    """Returns a server whose connections end after `seconds`, those with a request in work as soon as it is answered,
    and all after ten times as long. Without that, whoever connects and sends nothing would take up its sockets."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class EndingProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.endings = [self.loop.call_later(seconds, self.shutdown)]
            self.endings.append(self.loop.call_later(10 * seconds, transport.abort))

        def connection_lost(self, exc: Exception | None) -> None:
            for ending in self.endings:
                ending.cancel()
            super().connection_lost(exc)

    config = uvicorn.Config(
        app, http=EndingProtocol, lifespan="off", ws="none", access_log=False, log_level="warning",
        server_header=False, proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    return uvicorn.Server(config)


@app.command("page")
def page(
    set_: options.SetArgument,
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    port: Annotated[int, typer.Option(help="Listen there; 0 takes a free one.", min=0, max=65535)] = 0,
    host: HostOption = LOOPBACK,
    reviewer: Annotated[str, typer.Option(help="Whose decisions they are; not of a table, which keeps no names.")] = "",
    images: options.ImageRootsOption = [],  # noqa: B006 - typer needs a list
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser; the address is printed.")] = False,
    run: Annotated[
        list[Path] | None,
        typer.Option(help="A search's run file or result folder: queue what nobody judged, by rank.", metavar="FILE"),
    ] = None,
    depth: Annotated[int, typer.Option(help="Results of each query and run that are queued.", min=1)] = 10,
) -> None:
    """Open the page on which you judge a set, caption a gallery's pictures by hand, or choose from a table of topics
    or objects. Ctrl-C ends it.

    Example: querytruth review family-album --reviewer lin

    Example: querytruth review family-album --run a.trec --run b.trec --depth 10

    Example: querytruth review datasets/family-queries/review/topics.csv
    """
    from flows.review_site import is_pool_table, resolve_review_target, suggest_next_command
    from querytruth.review.server import PageAccess

    is_table = is_pool_table(set_)
    if reviewer and is_table:
        raise typer.BadParameter("a table keeps no names, leave it out", param_hint="--reviewer")
    if run and is_table:
        raise typer.BadParameter("a table has no queries that a run could answer, leave it out", param_hint="--run")
    path = resolve_review_target(set_, out)
    listening = open_page_socket(host, port)
    guard = PageAccess(listening.getsockname()[1], token_urlsafe(24), host)
    terminal.out.print(f"review page of {path}: {guard.url}", markup=False, soft_wrap=True)
    if host != LOOPBACK:
        terminal.err.print("querytruth: whoever has this address can judge; it is sent unencrypted (safer: ssh -L)")
    terminal.err.print("querytruth: reading the set; Ctrl-C ends the page, decisions are kept at once")
    from flows.review_site import ReviewSite, build_pool_routes, open_review_site
    from querytruth.backends.files.bucket_urls import FETCH_FIRST, is_fetched_copy
    from querytruth.sets.published_files import image_roots

    reviewer = reviewer or terminal.current_user_name()
    with image_roots(images):
        site = ReviewSite(*build_pool_routes(path)) if is_table else open_review_site(path, reviewer, run or [], depth)
    if is_fetched_copy(path):
        terminal.err.print(f"read only: a set in object storage takes no decisions. To judge it, {FETCH_FIRST}")
    for note in site.notes:
        terminal.err.print(note, markup=False, soft_wrap=True)
    Thread(target=site.prepare, daemon=True).start()
    _serve(site, guard, listening, no_open)
    next_command = suggest_next_command(set_, site.about["views"])
    next_command = "querytruth fetch, then review the set on disk" if is_fetched_copy(path) else next_command
    terminal.err.print(f"page closed. Next: {next_command}", markup=False)


def _serve(site: ReviewSite, guard: PageAccess, listening: Socket, no_open: bool) -> None:
    """Serve the page until SIGINT or SIGTERM."""
    from querytruth.review.server import create_app

    server = make_page_server(create_app(site.routes, guard, site.start_path))
    if not no_open:
        Thread(target=webbrowser.open, args=[guard.url], daemon=True).start()
    # The server stops on both signals and raises them again afterwards; then they must have no effect.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda _signal, _frame: None)
    server.run(sockets=[listening])


@app.command("export-csv")
def export_csv(
    set_: options.SetArgument,
    to: Annotated[Path, typer.Option(help="The folder for queries.csv and judgments.csv.")] = Path("review"),
    judgments: Annotated[
        int, typer.Option(help="Judgments to draw, besides all pairs that wait for one.", min=0)
    ] = 500,
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """All queries, and a sample of judgments, as CSV for a spreadsheet.

    Fill in the columns decision (queries: keep, drop, edit; judgments: keep, drop or a grade), new_text and note. A new
    row in judgments.csv adds a picture to a query: query_id, image_id (or a file name) and the grade.

    Example: querytruth review export-csv family-album --to review
    """
    from querytruth.errors import translate_write_errors
    from querytruth.review.review_exports import build_review_export
    from querytruth.sets import review_csv, set_files

    path = set_files.find_set(set_, out)
    written = []
    for view in ("queries", "judgments"):
        export = build_review_export(path, view, judgments)
        file = to / f"{view}.csv"
        with translate_write_errors("export review CSV", file, "or give --to another folder"):
            review_csv.write_review_csv(export, file, path)
        written.append({"file": str(file), "export": export.export_id, "rows": len(export.rows)})
    if json:
        terminal.print_json(written)
    else:
        rows: list[list[Any]] = [[entry["file"], entry["rows"]] for entry in written]
        terminal.print_table(f"{export.set_name} for review", ["file", "rows"], rows)
        next_ = f"Fill in `decision`, then: querytruth review import-csv {set_} FILE --dry-run"
        terminal.out.print(next_, soft_wrap=True, markup=False)


@app.command("import-csv")
@options.expand_option_groups
def import_csv(
    set_: options.SetArgument,
    file: Annotated[Path, typer.Argument(help="A filled-in CSV.")],
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the decisions, and take none.")] = False,
    reviewer: Annotated[str, typer.Option(help="Whose decisions they are.")] = "",
    allow_other_export: AllowOtherExportOption = False,
    json: options.JsonOption = False,
    *,
    table: options.TableOptions,
) -> None:
    """Take the decisions of a filled-in CSV: all of them, or, where a row cannot be taken, none.

    Example: querytruth review import-csv family-album review/queries.csv --reviewer lin
    """
    from querytruth.review.review_exports import read_filled_export, take_decisions
    from querytruth.sets import set_files

    path = set_files.find_set(set_, out)
    reviewer = reviewer or terminal.current_user_name()
    reading = read_filled_export(path, file, reviewer, table.to_review_options(), allow_other_export)
    if reading.problems:
        raise_problems(file, reading.problems)
    known = 0 if dry_run else take_decisions(path.parent, reading.decisions)
    if known and not json:
        terminal.err.print(f"{known} of the decisions were imported from this export before, and count once")
    if json:
        decisions = [asdict(decision) for decision in reading.decisions]
        terminal.print_json({"taken": not dry_run, "added": reading.added_count, "decisions": decisions})
    else:
        _show(reading, "the same without --dry-run takes them" if dry_run else f"Next: querytruth apply {set_}")


def apply(
    set_: options.SetArgument,
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    accept_loss: options.AcceptLossOption = False,
    accept_at: Annotated[
        float | None,
        typer.Option(help="Take the labels of an audit's judge, too, of grades at least so precise.", min=0.5, max=1),
    ] = None,
    audit: Annotated[str, typer.Option(help="The audit whose judge --accept-at is about.")] = "audit",
    json: options.JsonOption = False,
) -> None:
    """Publish the next version of a set from the decisions made on it, and show what is new in it.

    Example: querytruth apply family-album
    """
    from querytruth.api import loaded_set, set_builds
    from querytruth.cli.build_output import show_build_result, summarize_build

    path = loaded_set.find_version(set_, out)
    with terminal.reported_run():
        result = set_builds.apply(path, accept_loss=accept_loss, accept_at=accept_at, audit=audit).result
    if json:
        terminal.print_json(summarize_build(result))
        return
    show_build_result(result)
    if result.is_new:
        set_commands.diff(str(path), str(result.path), rows=_SHOWN_CHANGES)


def raise_problems(file: Path, problems: list[str]) -> None:
    """Print the problems of a filled-in CSV, and raise the UserError that none was taken."""
    for problem in problems[:_SHOWN_PROBLEMS]:
        terminal.err.print(f"{file} {problem}", markup=False, soft_wrap=True)
    hidden = len(problems) - _SHOWN_PROBLEMS
    more = f" ({hidden} more)" if hidden > 0 else ""
    reason = f"{len(problems)} problems, listed above{more}; no decision was taken"
    raise UserError("import review CSV", file, reason, "fix those cells, or allow just that (see --help)")


def _show(reading: ReviewImportResult, next_: str) -> None:
    from querytruth.sets.review_tables import describe_import

    shown: list[list[Any]] = [
        [d.decision, d.text, d.image_id or "", d.new_text or ("" if d.relevance is None else d.relevance), d.note]
        for d in reading.decisions
    ]
    terminal.print_table(f"{len(shown)} decisions", ["decision", "query", "picture", "new", "note"], shown)
    terminal.out.print(f"{describe_import(reading) or 'no decisions'}. {next_}", markup=False)
