"""`querytruth search`: one query on a set, by any system."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, ImageRootsOption, JsonOption, OutOption, SetArgument

_SHOWN_RESULTS = 24


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
    from backends.sets.trusted_sources import image_roots
    from querytruth.api.searches import search as search_once

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
