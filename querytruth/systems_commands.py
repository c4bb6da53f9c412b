"""`querytruth systems`: search services under test."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption

app = typer.Typer(no_args_is_help=True, help="Search services under test.")
_SHOWN_RESULTS = 10


@app.callback()
def _group() -> None:
    """Search services under test."""


@app.command("try")
def try_(
    file: Annotated[Path, typer.Argument(help="The service, described in YAML.", metavar="FILE.yaml")],
    text: Annotated[str, typer.Argument(help="A query; for a search by images, the path of one.")],
    set_: Annotated[str | None, typer.Option("--set", help="Map the answers to the images of this set.")] = None,
    k: Annotated[int, typer.Option(help="Results to ask for.", min=1)] = _SHOWN_RESULTS,
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page with thumbnails.")] = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Ask a service one query, and show its first answers and the images that they map to. Records nothing.

    Example: querytruth systems try my-search.yaml "a red car" --set family-album"""
    from backends.search_systems import load_system_file
    from flows.scoring.system_trial import ask_once, map_hits, suggest_ids, write_trial_page

    described = load_system_file(file)
    start = time.perf_counter()
    hits = ask_once(described, text, k)
    milliseconds = round((time.perf_counter() - start) * 1000, 1)
    rows = map_hits(hits, described, set_, out)
    if json:
        terminal.print_json({"milliseconds": milliseconds, "hits": rows})
    else:
        shown: list[list[object]] = [[row["rank"], row["id"], row["score"], row["maps_to"]] for row in rows]
        terminal.print_table(f"{described.name}: {text}", ["rank", "id", "score", "maps to"], shown)
        unmapped = sum(not row.get("query_id", row["image_id"]) for row in rows)
        lost = f"; {unmapped:,} map to nothing of {set_}" if set_ else ""
        terminal.out.print(f"{len(rows):,} results in {milliseconds} ms{lost}", markup=False, soft_wrap=True)
        if set_ and rows and not any(row["image_id"] or "query_id" in row for row in rows):
            hint = suggest_ids(hits, set_, out)
            terminal.out.print(
                f"no id is one of ids: {described.system.options.ids}; {hint}", markup=False, soft_wrap=True
            )
    if page is not None:
        if set_ is None:
            raise typer.BadParameter("--page shows the images of a set: give --set")
        write_trial_page(page, f"{described.name}: {text}", rows, set_, out)
        terminal.err.print(f"page written: {page}", markup=False, soft_wrap=True)
