"""`querytruth systems`: search services under test.

`querytruth search`: one query on a set, by any system.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.cli.options import DEFAULT_DATASETS_FOLDER, ImageRootsOption, JsonOption, OutOption, SetArgument

_SHOWN_RESULTS = 24
app = typer.Typer(no_args_is_help=True, help="Search services under test.")
_TRIED_RESULTS = 10


def search(
    set_: SetArgument,
    text: Annotated[str, typer.Argument(help="A query: one of the set, or a new one.", metavar="TEXT")],
    model: Annotated[str | None, typer.Option(help="A model's name on the hub, or its folder.")] = None,
    system: Annotated[Path | None, typer.Option(help="A search service, described in YAML.", metavar="FILE")] = None,
    run: Annotated[Path | None, typer.Option(help="A run file, or the folder of a result.", metavar="FILE")] = None,
    ids: Annotated[
        str,
        typer.Option(help="What a run names pictures by.", metavar="image_id|file_name|path|source_url|source_id"),
    ] = "image_id",
    k: Annotated[int, typer.Option(help="Results to show.", min=1, max=1000)] = _SHOWN_RESULTS,
    page: Annotated[Path, typer.Option(help="The HTML page to write.")] = Path("search.html"),
    language: Annotated[str, typer.Option(help="Of the page's own texts.", metavar="zh|en")] = "en",
    images: ImageRootsOption = [],  # noqa: B006 - typer needs a list
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Try one query: write a page of a system's first results, each relevant, not relevant or not judged by the set.

    Example: querytruth search family-album "a dog on the beach" --run clip.trec
    """
    if sum(one is not None for one in (model, system, run)) != 1:
        raise typer.BadParameter("name one system: --model, --system or --run")
    terminal.err.print(f"querytruth: reading {set_}", markup=False)
    from querytruth.api.evaluations import search as search_once
    from querytruth.sets.published_files import image_roots

    with image_roots(images), terminal.reported_run():
        results = search_once(
            set_, text, model=model, system=system, run=run, ids=ids, k=k, page=page, page_language=language, out=out
        )
    if json:
        terminal.print_json(asdict(results))
        return
    rows: list[list[object]] = [
        [hit["rank"], hit["id"], "" if hit["grade"] is None else hit["grade"], hit["score"]] for hit in results.hits
    ]
    terminal.print_table(f"{results.system}: {text}", ["rank", "id", "grade", "score"], rows)
    found = results.relevant_count - len(results.missed)
    about = f"{found:,} of {results.relevant_count:,} relevant pictures found"
    terminal.out.print(about if results.is_query else "the set does not have this query: nothing is judged")
    terminal.out.print(f"page written: {page}", markup=False, soft_wrap=True)


@app.callback()
def _group() -> None:
    """Search services under test."""


@app.command("try")
def try_(
    file: Annotated[Path, typer.Argument(help="The service, described in YAML.", metavar="FILE.yaml")],
    text: Annotated[str, typer.Argument(help="A query; for a search by images, the path of one.")],
    set_: Annotated[str | None, typer.Option("--set", help="Map the answers to the images of this set.")] = None,
    k: Annotated[int, typer.Option(help="Results to ask for.", min=1)] = _TRIED_RESULTS,
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page with thumbnails.")] = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Ask a service one query, and show its first answers and the images that they map to. Records nothing.

    Example: querytruth systems try my-search.yaml "a red car" --set family-album"""
    from flows.search import ask_once, map_hits, suggest_ids, write_trial_page
    from querytruth.backends.search_systems import load_system_file

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
