"""`querytruth list`, `show`, `verify`, `lint`, `diff` and `rebuild`: commands that read published sets."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.prompt import Confirm

from querytruth import terminal
from querytruth.cli.command_line import argument, command, option
from querytruth.cli.options import ImageRootsOption, JsonOption, OutOption, PageLanguageOption, SetArgument
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UserError
from querytruth.sets.manifest import Manifest

_MOST_REJECTED = 100  # rows on a terminal
_ROWS, _PAGE_ROWS = 10, 200  # of each kind of change, on a terminal and on a page


@command
def show(
    set_: SetArgument,
    out: OutOption = DATASETS_FOLDER,
    json: JsonOption = False,
    page: Annotated[Path | None, option(help="Also write an HTML page.")] = None,
    page_language: PageLanguageOption = "en",
    images: ImageRootsOption = [],  # noqa: B006 - read only
    rejected: Annotated[
        str | None, option(help="List the items not accepted for this reason, or for any (all).", metavar="REASON|all")
    ] = None,
) -> None:
    """Show the card of a set: counts, grades, funnel.

    Example: querytruth show family-album/v2 --page album.html --page-language zh

    Example: querytruth show family-album --rejected blurred
    """
    from querytruth.sets.manifest import read_manifest
    from querytruth.sets.set_places import describe_place, find_set

    path = find_set(set_, out, remote="tables" if page is None else "whole")
    manifest, place = read_manifest(path), describe_place(set_, out, path)
    if rejected is not None:
        _list_rejected(path, manifest, rejected, json)
        return
    if json:
        terminal.print_json({"path": place, **manifest})
    else:
        _show_card(path, place, manifest)
    if page is not None:
        from flows.set_kinds import write_set_page
        from querytruth.review.page_parts import pages_in
        from querytruth.sets.published_files import image_roots

        with image_roots(images), pages_in(page_language):
            write_set_page(path, page)
        terminal.report(f"page written: {page}")


def _list_rejected(path: Path, manifest: Manifest, reason: str, json: bool) -> None:
    """Print the items of the ledger that were not accepted for a reason, or `all`. Raises UserError for a reason that
    none has."""
    from querytruth.records import list_rows
    from querytruth.sets.set_files import read_set

    ledger = read_set(path, ("ledger",)).tables.ledger
    known = ledger["reason"].value_counts()
    if reason != "all" and reason not in known.index:
        counts = ", ".join(f"{name} ({number:,})" for name, number in known.items())
        raise UserError("show", reason, f"is not a reason in {manifest['name']}", f"choose all, or one of {counts}")
    found = ledger if reason == "all" else ledger[ledger["reason"] == reason]
    columns = ["stage", "reason", "item", "detail"]
    if json:
        terminal.print_json(list_rows(found[["bucket", *columns]]))
        return
    shown = found.head(_MOST_REJECTED)[columns].astype("str").fillna("")
    terminal.print_table(f"{len(found):,} not accepted", columns, shown.to_numpy().tolist())
    if len(found) > len(shown):
        terminal.say(f"{len(found) - len(shown):,} more; use --json to list all")


def _show_card(path: Path, place: str, manifest: Manifest) -> None:
    from querytruth.sets.leaked_queries import describe_overlap
    from querytruth.sets.published_files import describe_notice

    counts = manifest["counts"]
    parent, grades = manifest["parent"], manifest["grades"]
    terminal.say(f" {manifest['kind']} set in {place}", bold=f"{manifest['name']}/v{manifest['version']}")
    terminal.print_table(
        "Counts",
        ["what", "number"],
        [
            *([["queries", counts["queries"]]] if counts["queries"] else []),
            *[[f"  level {level}", number] for level, number in counts["by_level"].items()],
            *[[f"  {style}", number] for style, number in counts["by_style"].items()],
            ["images", counts["images"]],
            *([["  of them with near-duplicates", counts["duplicate_groups"]]] if counts["duplicate_groups"] else []),
            *([["judgments", counts["judgments"]]] if counts["judgments"] else []),
            *[[f"  grade {grade}: {grades.get(grade, '')}", number] for grade, number in counts["by_grade"].items()],
            *[[f"  judged by {judge}", number] for judge, number in counts["by_judge"].items()],
        ],
    )
    terminal.print_funnel(manifest["funnel"])
    decisions = manifest["decisions"]
    origin = f"from v{parent['version']}" if parent else "first version"
    terminal.say(f"{origin}; decisions in effect {len(decisions['in_effect'])}, stale {len(decisions['stale'])}")
    terminal.say(f"content digest {manifest['content_digest']}")
    for line in describe_notice(path, manifest["content_digest"]):
        terminal.say(line)
    for warning in describe_overlap(path, manifest["content_digest"]):
        terminal.say(f"warning: {warning}")


@command
def verify(
    set_: SetArgument,
    out: OutOption = DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Recompute all checksums, and check the chain of each decision log; list the differences.

    Example: querytruth verify family-album/v2
    """
    from querytruth.api import loaded_set
    from querytruth.backends.files.bucket_urls import join_set_url
    from querytruth.sets.bucket_reading import find_remote_version

    if (url := join_set_url(set_, str(out))) is not None:
        place = str(find_remote_version(url).url)
        problems = loaded_set.verify(place)
        checked = "every object read again"
    else:
        path = loaded_set.find_version(set_, out)
        total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        with terminal.TerminalReporter().bar("verify", total, "bytes") as advance:
            problems = loaded_set.verify(path, progress=advance)
        place, checked = str(path), f"{total / 1e6:,.1f} MB checked"
    if json:
        terminal.print_json({"path": place, "problems": problems})
    else:
        for problem in problems:
            terminal.say(f"{place}/{problem}")
        outcome = f"{len(problems)} problems" if problems else f"intact, {checked}"
        terminal.say(f"{place}: {outcome}")
    if problems:
        raise SystemExit(1)


@command
def gc(
    name: Annotated[str, argument(help="Name of a set, or path of its folder.", metavar="NAME")],
    out: OutOption = DATASETS_FOLDER,
    hours: Annotated[float, option(help="Only files that have not changed for this long.", min=1)] = 24,
    dry_run: Annotated[bool, option("--dry-run", help="List the files, and remove none.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove unfinished files that interrupted runs left in the folder of a set.

    Example: querytruth gc family-album --dry-run
    """
    from querytruth.backends.files.durable_files import remove_abandoned_folders
    from querytruth.errors import translate_write_errors
    from querytruth.sets.published_files import find_leftovers

    folder = next((place for place in (out / name, Path(name)) if place.is_dir()), None)
    if folder is None:
        raise UserError("remove leftovers", name, f"is not a folder there or in {out}", "give the name of a set")
    leftovers = find_leftovers(folder, time.time() - hours * 3600)
    total = sum(path.stat().st_size for path in leftovers)
    for path in leftovers:
        if not dry_run:
            with translate_write_errors("remove leftovers", path):
                path.unlink(missing_ok=True)
        if not json:
            terminal.say(str(path))
    if not dry_run:
        remove_abandoned_folders(folder / ".publish")
    if json:
        terminal.print_json({"files": [str(path) for path in leftovers], "bytes": total, "removed": not dry_run})
        return
    done = "would be removed" if dry_run else "removed"
    terminal.report(f"{len(leftovers)} files {done}, {total / 1e6:,.1f} MB")


@command
def lint(set_: SetArgument, out: OutOption = DATASETS_FOLDER, json: JsonOption = False) -> None:
    """Check for dangling ids, missing truth, duplicates, overlaps and leaks. Exit 1 if there is an error.

    Example: querytruth lint family-album
    """
    from querytruth.api.loaded_set import LoadedSet
    from querytruth.sets import set_files

    path = set_files.find_set(set_, out, remote="tables")
    findings, place = LoadedSet(path).lint(), set_files.describe_place(set_, out, path)
    if json:
        terminal.print_json(findings.to_dict("records"))
    elif len(findings):
        rows: list[list[object]] = [
            [found.severity, found.check, found.count_, found.says, "\n".join(found.examples[:3])]
            for found in findings.rename(columns={"count": "count_"}).itertuples()
        ]
        terminal.print_table(f"Lint of {place}", ["", "check", "cases", "what", "examples"], rows)
    else:
        terminal.say(f"{place}: nothing found")
    if (findings["severity"] == "error").any():
        raise SystemExit(1)


@command
def diff(
    set_a: Annotated[str, argument(metavar="SET_A")],
    set_b: Annotated[str, argument(metavar="SET_B")],
    out: OutOption = DATASETS_FOLDER,
    json: JsonOption = False,
    page: Annotated[Path | None, option(help="Also write a page of added, removed and changed images.")] = None,
    page_language: PageLanguageOption = "en",
) -> None:
    """Show how two versions differ, and whether figures stay comparable: the queries, images and judgments that were
    added, removed or changed, and why.

    Example: querytruth diff family-album/v1 family-album/v2"""
    from querytruth.api.loaded_set import LoadedSet, find_version
    from querytruth.backends.files.durable_files import write_page
    from querytruth.review.difference_page import list_changes, render_difference_page
    from querytruth.review.page_parts import pages_in
    from querytruth.sets.set_files import read_set

    before, after = (LoadedSet(find_version(one, out, remote="tables"), out) for one in (set_a, set_b))
    found = before.diff(after)
    for warning in found.warnings:
        terminal.report(warning)
    difference = found.difference
    if json:
        terminal.print_json({**asdict(difference), "comparable": difference.comparability})
        return
    tables = list(list_changes(before.tables, after.tables, difference, _ROWS if page is None else _PAGE_ROWS))
    for table in tables:
        shown: list[list[object]] = [[*row] for row in table.rows[:_ROWS]]
        if table.total > _ROWS:
            shown.append([f"… and {table.total - _ROWS:,} more", *[""] * (len(table.columns) - 1)])
        title = f"{table.kind.capitalize()} {table.change}: {table.total:,}"
        terminal.print_table(title, table.columns, shown)
    if difference.judgments_with_them:
        terminal.say(f"{difference.judgments_with_them:,} judgments came or went with their query or image")
    terminal.say(difference.comparability)
    if page is not None:
        earlier, later = (read_set(one.path) for one in (before, after))
        with pages_in(page_language):
            html = render_difference_page(earlier, later, tables, difference.comparability)
            write_page(page, html, "or give another file")
        terminal.report(f"page written: {page}")


def _agree_to_definition(lines: list[str]) -> bool:
    """Show the lines of a stranger's definition, and ask whether to build with them."""
    for line in lines:
        terminal.report(line)
    return Confirm.ask("The definition of the set names these. Build with them?", console=terminal.err, default=False)


@command
def rebuild(
    set_: SetArgument,
    out: OutOption = DATASETS_FOLDER,
    json: JsonOption = False,
    check: Annotated[bool, option("--check", help="Rebuild and compare digests; publish nothing.")] = False,
    offline: Annotated[
        bool, option("--offline/--online", help="Use recorded replies and pages only, or query models and the web.")
    ] = True,
    trust_definition: Annotated[
        bool,
        option("--trust-definition", help="For a set from elsewhere: show what its definition names, and ask."),
    ] = False,
) -> None:
    """Rebuild a version from its manifest, and print whether the digest is the same, or what differs.

    A set that you did not publish on this machine may name folders, addresses and keys: nothing of it is run unless you
    agree with --trust-definition.

    Example: querytruth rebuild family-album/v2 --check
    """
    if not check:
        raise UserError("rebuild", set_, "only checks; it does not publish", "add --check, or run querytruth build")
    from flows.rebuild import rebuild_tables
    from querytruth.sets import set_files
    from querytruth.sets.manifest import read_manifest
    from querytruth.sets.version_difference import compare_versions

    path = set_files.find_set(set_, out)
    with terminal.reported_run(offline=offline):
        rebuilt = rebuild_tables(path, _agree_to_definition) if trust_definition else rebuild_tables(path)
    manifest = read_manifest(path)
    same = rebuilt.digest == manifest["content_digest"]
    for line in rebuilt.inputs_moved:
        terminal.report(f"input moved; using {line}")
    if json:
        outcome = {"path": str(path), "same": same}
        terminal.print_json(outcome | {"content_digest": rebuilt.digest, "inputs_changed": rebuilt.inputs_changed})
    elif same:
        terminal.say(f"{path}: the rebuild has the same content digest {rebuilt.digest}")
    else:
        published = manifest["content_digest"]
        terminal.say(f"{path}: rebuilt to {rebuilt.digest}, the published version is {published}")
        for name in rebuilt.inputs_changed:
            terminal.say(f"input {name} differs from the file that the version was built from")
        changes = asdict(compare_versions(set_files.read_set(path).tables, rebuilt.as_stored()))
        lists = {name: value for name, value in changes.items() if isinstance(value, list) and value}
        sizes = [f"{len(value):,} {name.replace('_', ' ')}" for name, value in lists.items()]
        terminal.say(", ".join(sizes) or "only the order differs")
    if not same:
        raise SystemExit(1)


@command
def list_(out: OutOption = DATASETS_FOLDER, json: JsonOption = False) -> None:
    """List the sets in a folder with their newest version.

    Example: querytruth list --out datasets
    """
    from querytruth.sets.manifest import read_manifest
    from querytruth.sets.published_files import newest_version
    from querytruth.sets.set_files import find_set

    if not out.is_dir():
        raise UserError("list sets", out, "is not a folder", "give --out the folder that holds the sets")
    names = sorted(folder.name for folder in out.iterdir() if folder.is_dir() and newest_version(folder))
    sets = []
    for name in names:
        manifest = read_manifest(find_set(name, out))
        counts = {key: manifest["counts"][key] for key in ("queries", "images", "judgments")}
        sets.append({"name": name, "kind": manifest["kind"], "version": manifest["version"], **counts})
    if json:
        terminal.print_json(sets)
    elif sets:
        columns = ["name", "kind", "version", "queries", "images", "judgments"]
        terminal.print_table(f"Sets in {out}", columns, [list(one.values()) for one in sets])
    else:
        terminal.say(f"{out}: no published sets")
