"""`querytruth review` and `apply`: the page on this machine and its socket, decisions as CSV, and their publication."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from secrets import token_urlsafe
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from querytruth import terminal
from querytruth.backends.environment import current_user_name
from querytruth.cli import options, set_commands
from querytruth.cli.command_line import command, group
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UsageError, UserError
from querytruth.requests import ByName, ByPlace, Request
from querytruth.review.page_socket import LOOPBACK, open_page_socket, serve_page

if TYPE_CHECKING:
    from querytruth.sets.review_tables import ReviewImportResult

app = group("review", "Open the page on which people judge a set, or export judgments as CSV.")

_SHOWN_PROBLEMS = 20
_UNTIL_OPEN = 0.5  # seconds for the first page, before thumbnails are made for the next ones


class ServedRequest(Request):
    """A page that is served."""

    port: int = Field(0, ge=0, le=65535, description="Port to listen on; 0 picks a free port.")
    host: Annotated[str, ByName("--host", "ADDRESS")] = Field(
        LOOPBACK, description="Address of this machine to listen on, for people on other machines."
    )
    reviewer: str = Field("", description="Name of the reviewer; a table of topics records no names.")
    no_open: bool = Field(False, description="Do not open a browser; print the address only.")


class ReviewRequest(ServedRequest):
    """A page on which people judge."""

    stage: ClassVar[str] = "review"

    of: Annotated[str, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")
    images: Annotated[list[str], ByName("--images", "ROOT")] = Field(
        default_factory=list, description="Folder or URL outside the set where its images can be read."
    )
    run: Annotated[list[Path], ByName("--run", "FILE")] = Field(
        default_factory=list, description="Run file or result folder of a search: queue its unjudged results, by rank."
    )
    system: Annotated[list[Path], ByName("--system", "FILE")] = Field(
        default_factory=list, description="YAML file of a search service: query it, and queue its unjudged results."
    )
    depth: int = Field(10, ge=1, description="Number of results to queue per query and run.")


@app.default
@command
def page(*, request: ReviewRequest) -> None:
    """Open the page on which people judge a set, caption a gallery's images by hand, or choose from a table of topics
    or objects. Stop it with Ctrl-C.

    Example: querytruth review family-album --reviewer lin

    Example: querytruth review family-album --run a.trec --run b.trec --depth 10

    Example: querytruth review datasets/family-queries/review/topics.csv

    Example: querytruth review album.facts.csv --images photos
    """
    from flows.review_targets import is_fact_table, is_pool_table, resolve_review_target, suggest_next_command
    from querytruth.backends.environment import without_garbage_collection
    from querytruth.backends.files.bucket_urls import FETCH_FIRST, is_fetched_copy
    from querytruth.sets.published_files import image_roots
    from querytruth.sets.set_files import read_set

    is_table = is_pool_table(request.of)
    if request.reviewer and is_table:
        raise UsageError("--reviewer", "has no effect on a table: it records no names", "remove it")
    if (request.run or request.system) and is_table:
        option = "--run" if request.run else "--system"
        raise UsageError(option, "has no effect on a table: it has no queries for a run to answer", "remove it")
    path = resolve_review_target(request.of, request.out)
    folder = None
    if is_table and is_fact_table(path):
        if len(request.images) != 1:
            raise UserError("review", path, "needs the folder of its photos", "give it once: --images FOLDER")
        folder = Path(request.images[0])
    listening = open_page_socket(request.host, request.port)
    with without_garbage_collection(), image_roots(request.images), ThreadPoolExecutor(1) as reader:
        # Other processes decode the tables while this one imports the page.
        reading = None if is_table else reader.submit(copy_context().run, read_set, path)
        from builders.album.reading_cards import build_reading_routes
        from flows.review_site import ReviewSite, build_pool_routes, open_review_site
        from querytruth.review.server import PageAccess, create_app

        import_module("uvicorn.protocols.http.h11_impl")  # while the set is read, too
        guard = PageAccess(listening.getsockname()[1], token_urlsafe(24), request.host)
        terminal.say(f"review page of {path}: {guard.url}")
        if request.host != LOOPBACK:
            terminal.report("querytruth: anyone with this address can judge; it is sent unencrypted (safer: ssh -L)")
        terminal.report("querytruth: reading the set; Ctrl-C closes the page, decisions are saved immediately")
        if reading is None:
            site = ReviewSite(*(build_pool_routes(path) if folder is None else build_reading_routes(path, folder)))
        else:
            reviewer = request.reviewer or current_user_name()
            site = open_review_site(reading.result(), reviewer, request.run, request.depth, request.system)
        gc.freeze()  # what was read stays: the collector would look through all of it again and again
    if is_fetched_copy(path):
        terminal.report(f"read only: a set in object storage accepts no decisions. To judge it, {FETCH_FIRST}")
    for note in site.notes:
        terminal.report(note)
    preparing = Timer(_UNTIL_OPEN, site.prepare)
    preparing.daemon = True
    preparing.start()
    serve_page(create_app(site.routes, guard, site.start_path), guard, listening, request.no_open)
    next_command = suggest_next_command(request.of, site.about["views"])
    next_command = "run querytruth fetch, then review the set on disk" if is_fetched_copy(path) else next_command
    terminal.report(f"page closed. Next: {next_command}")


class HandedOutRequest(Request):
    """Tables for people to fill in."""

    stage: ClassVar[str] = "export review CSV"

    of: Annotated[str, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    audit: str | None = Field(None, description="Audit whose sample is judged.")
    to: Path | None = Field(
        None, description="Folder for queries.csv and judgments.csv (review); for an audit, the file (audit.csv)."
    )
    judgments: int | None = Field(
        None, ge=0, description="Judgments to sample (500), besides all pairs that wait for one; not for an audit."
    )
    xlsx: bool = Field(False, description="Also write each CSV file as .xlsx, with a thumbnail in each row.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")


@app.command(name="export-csv")
@command
def export_csv(json: options.JsonOption = False, *, request: HandedOutRequest) -> None:
    """Write all queries, and a sample of judgments, as CSV for a spreadsheet; or the sample of an audit, which shows
    neither grades nor systems, for one person.

    With --xlsx, fill in either file: import-csv reads both.

    Fill in the columns decision (queries: keep, drop, edit; judgments: keep, drop or a grade; of an audit: a grade, 0
    for an image that does not fit, or ? where you cannot tell), new_text and note. A new row in judgments.csv adds an
    image to a query: query_id, image_id (or a file name) and the grade.

    Example: querytruth review export-csv family-album --to review --xlsx

    Example: querytruth review export-csv family-album --audit audit --to audit.csv
    """
    from querytruth.review.review_exports import SAMPLED_JUDGMENTS, build_review_export, write_review_export
    from querytruth.sets import set_files

    path, audit, to = set_files.find_set(request.of, request.out), request.audit, request.to
    if audit is not None:
        if request.judgments is not None:
            raise UsageError("--judgments", "has no effect on the sample of an audit", "remove it")
        from querytruth.audit.answers import build_sample_export, load_audit

        loaded, audited_set = load_audit(path, audit)
        exports, path = {to or Path("audit.csv"): build_sample_export(loaded, audited_set)}, audited_set.path
    else:
        sample = SAMPLED_JUDGMENTS if request.judgments is None else request.judgments
        exports = {
            (to or Path("review")) / f"{view}.csv": build_review_export(path, view, sample)
            for view in ("queries", "judgments")
        }
    written = [
        {"file": str(file), "export": export.export_id, "rows": len(export.rows)}
        for table, export in exports.items()
        for file in write_review_export(export, path, table, request.xlsx)
    ]
    if json:
        terminal.print_json(written)
        return
    rows: list[list[object]] = [[entry["file"], entry["rows"]] for entry in written]
    terminal.print_table(f"{path.parent.name} for review", ["file", "rows"], rows)
    filled = "FILE --dry-run" if audit is None else f"{written[0]['file']} --audit {audit} --reviewer YOU"
    terminal.say(f"Fill in `decision`, then run: querytruth review import-csv {request.of} {filled}")


class FilledTableRequest(Request):
    """The decisions of a filled-in CSV or .xlsx."""

    stage: ClassVar[str] = "import review CSV"

    of: Annotated[str, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    file: Annotated[Path, ByPlace("FILE")] = Field(description="CSV or .xlsx file with the decisions filled in.")
    audit: str | None = Field(None, description="Audit whose sample is judged.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")
    dry_run: bool = Field(False, description="Show the decisions, and save none.")
    reviewer: str = Field("", description="Name of the reviewer.")
    allow_other_export: bool = Field(False, description="Accept the export of an older version.")


@app.command(name="import-csv")
@command
def import_csv(json: options.JsonOption = False, *, request: FilledTableRequest, table: options.TableOptions) -> None:
    """Import the decisions of a filled-in CSV, or the answers to an audit: all of them, or none if a row is invalid.
    Rows of an audit may stay empty.

    Example: querytruth review import-csv family-album review/queries.csv --reviewer lin

    Example: querytruth review import-csv family-album audit.csv --audit audit --reviewer lin
    """
    from querytruth.review.review_exports import read_filled_export, take_decisions
    from querytruth.sets import set_files

    path, file, audit = set_files.find_set(request.of, request.out), request.file, request.audit
    reviewer = request.reviewer or current_user_name()
    again = "run it without --dry-run to save them"
    if audit is not None:
        if request.allow_other_export:
            raise UsageError("--allow-other-export", "has no effect on the sample of an audit", "remove it")
        counts = _take_answers(path, audit, file, reviewer, request.dry_run, table)
        next_ = again if request.dry_run else f"Next: querytruth audit report {request.of} --name {audit}"
        terminal.print_json(counts) if json else _show_answers(counts, next_)
        return
    reading = read_filled_export(path, file, reviewer, table.to_review_options(), request.allow_other_export)
    if reading.problems:
        raise_problems(file, reading.problems)
    known = 0 if request.dry_run else take_decisions(path.parent, reading.decisions)
    if known and not json:
        terminal.report(f"{known} of the decisions were already imported from this export, and count once")
    if json:
        decisions = [asdict(decision) for decision in reading.decisions]
        terminal.print_json({"taken": not request.dry_run, "added": reading.added_count, "decisions": decisions})
    else:
        _show(reading, again if request.dry_run else f"Next: querytruth apply {request.of}")


class ForeignJudgmentsRequest(Request):
    """Judgments that were made elsewhere."""

    stage: ClassVar[str] = "import judgments"

    of: Annotated[str, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    file: Annotated[Path, ByPlace("FILE")] = Field(description="TREC qrels, or a table with query, image and grade.")
    reviewer: str = Field("", description="Name of the reviewer.")
    dry_run: bool = Field(False, description="Show the decisions, and save none.")
    allow_unknown: bool = Field(False, description="Ignore rows that match nothing in the set.")
    encoding: str = Field("utf-8", description="Encoding of the table, such as gb18030.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")


@app.command(name="import-qrels")
@command
def import_qrels(json: options.JsonOption = False, *, request: ForeignJudgmentsRequest) -> None:
    """Import judgments from elsewhere as decisions. Rows name queries and images by ids of the set, its publisher or a
    log, by texts, file names or ends of paths. All are imported, or none if a row is invalid.

    Example: querytruth review import-qrels my-log judged.csv --reviewer lin --dry-run
    """
    from querytruth.review.foreign_judgments import read_foreign_judgments
    from querytruth.review.review_exports import take_decisions
    from querytruth.sets import set_files

    path, reviewer = set_files.find_set(request.of, request.out), request.reviewer or current_user_name()
    reading = read_foreign_judgments(
        path, request.file, reviewer, allow_unknown=request.allow_unknown, encoding=request.encoding
    )
    if reading.problems:
        raise_problems(request.file, reading.problems)
    known = 0 if request.dry_run else take_decisions(path.parent, reading.decisions)
    if json:
        counts = {"decisions": len(reading.decisions), "added": reading.added_count, "known": known}
        terminal.print_json({"taken": not request.dry_run} | counts)
        return
    again = "run it without --dry-run to save them"
    _show(reading, again if request.dry_run else f"Next: querytruth apply {request.of}")


def _take_answers(
    path: Path, audit: str, file: Path, reviewer: str, dry_run: bool, table: options.TableOptions
) -> dict[str, Any]:
    """Return how many answers of a filled-in sample were taken, were there already, and cannot tell."""
    from querytruth.audit.answers import import_sample, take_answers

    decisions, undetermined, problems = import_sample(path, audit, file, reviewer, table.to_review_options())
    if problems:
        raise_problems(file, problems)
    known = 0 if dry_run else take_answers(path, decisions, undetermined)
    answers = {"answers": len(decisions) + len(undetermined), "known": known, "cannot_tell": len(undetermined)}
    return {"taken": not dry_run} | answers


def _show_answers(counts: dict[str, Any], next_: str) -> None:
    count = f"{counts['answers'] - counts['known']:,} answers {'imported' if counts['taken'] else 'found'}"
    known = f"; {counts['known']:,} already imported" if counts["known"] else ""
    terminal.say(f'{count}, {counts["cannot_tell"]:,} of them "cannot tell"{known}')
    terminal.say(next_)


@command
def apply(
    set_: options.SetArgument,
    out: options.OutOption = DATASETS_FOLDER,
    accept_loss: options.AcceptLossOption = False,
    json: options.JsonOption = False,
) -> None:
    """Publish the next version of a set with the decisions made on it, and show what is new.

    Example: querytruth apply family-album
    """
    from flows.set_kinds import apply_decisions
    from querytruth.cli.build_output import show_build_result, summarize_build
    from querytruth.sets.set_files import find_set

    path = find_set(set_, out)
    with terminal.reported_run():
        result = apply_decisions(path, accept_loss=accept_loss)
    if json:
        terminal.print_json(summarize_build(result))
        return
    show_build_result(result)
    if result.is_new:
        set_commands.diff(str(path), str(result.path))


def raise_problems(file: Path, problems: list[str]) -> None:
    """Print the problems of a filled-in CSV, and raise the UserError that none was taken."""
    from querytruth.sets.review_tables import suggest_tolerances

    for problem in problems[:_SHOWN_PROBLEMS]:
        terminal.report(f"{file} {problem}")
    hidden = len(problems) - _SHOWN_PROBLEMS
    more = f" ({hidden} more)" if hidden > 0 else ""
    reason = f"{len(problems)} problems, listed above{more}; no decision was imported"
    raise UserError("import review CSV", file, reason, suggest_tolerances(problems))


def _show(reading: ReviewImportResult, next_: str) -> None:
    from querytruth.sets.review_tables import describe_import

    shown: list[list[object]] = [
        [d.decision, d.text, d.image_id or "", d.new_text or ("" if d.relevance is None else d.relevance), d.note]
        for d in reading.decisions
    ]
    terminal.print_table(f"{len(shown)} decisions", ["decision", "query", "image", "new", "note"], shown)
    terminal.say(f"{describe_import(reading) or 'no decisions'}. {next_}")
