"""`querytruth search`: one query on a set, by any system."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, ImageRootsOption, JsonOption, OutOption, SetArgument

if TYPE_CHECKING:
    from flows.scoring.judged_sets import JudgedSet
    from flows.scoring.query_search import QueryResults

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
    from flows.scoring.judged_sets import load_judged_set
    from flows.scoring.query_search import check_page_language, write_search_page
    from querytruth.api.loaded_set import find_version

    check_page_language(language)
    with image_roots(images), terminal.reported_run():
        judged = load_judged_set(find_version(set_, out))
        results = _search(judged, model, system, run, text, k, ids)
        write_search_page(results, judged, page, language)
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


def _search(
    judged: JudgedSet, model: str | None, system: Path | None, run: Path | None, text: str, k: int, ids: str
) -> QueryResults:
    from backends.sets.set_files import read_set
    from flows.scoring.query_search import search_by_model, search_by_system, search_in_run

    if model is not None:
        return search_by_model(judged, model, text, k)
    if run is not None:
        return search_in_run(judged, run, text, k, ids)
    assert system is not None and judged.stored is not None
    all_images = read_set(judged.stored.path, ("images",)).tables.images
    return search_by_system(judged, system, text, k, all_images)
