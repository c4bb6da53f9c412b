"""`querytruth compare` and `querytruth stability`: systems on one set, and sets on the same systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.evaluate_command import parse_directions, parse_metrics
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, MetricsOption, OutOption, QrelsOption

if TYPE_CHECKING:
    import pandas as pd

SingleDirectionOption = Annotated[str, typer.Option(help="Who searched whom.", metavar="text_to_image|image_to_text")]


def compare(
    names: Annotated[
        list[str],
        typer.Argument(help="A set, and two or more runs: files, or results' folders.", metavar="SET RUN RUN"),
    ],
    qrels: QrelsOption = None,
    metrics: MetricsOption = "",
    direction: SingleDirectionOption = "text_to_image",
    queries: Annotated[int, typer.Option(help="Queries shown of those where two systems differ most.", min=0)] = 10,
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page about two systems.")] = None,
    slice_: Annotated[
        str | None, typer.Option("--slice", help="Only these queries, such as overlap=clean.", metavar="ASPECT=VALUE")
    ] = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Compare systems on the same queries: their differences, whether these exceed chance, and on which queries.

    Example: querytruth compare family-album bm25.trec datasets/family-album/evaluations/v1/lexical
    """
    set_name, runs = (None, names) if qrels else (names[0], names[1:])
    if len(runs) < 2:
        raise typer.BadParameter("name a SET and at least two runs")
    if page is not None and len(runs) > 2:
        raise typer.BadParameter("--page is about two runs")
    (search_direction,) = parse_directions(direction, single_direction_reason="runs answer one way")
    terminal.err.print(f"querytruth: reading {set_name or qrels}", markup=False)
    from querytruth import result_tables
    from querytruth.api import comparisons

    with terminal.reported_run():
        found = comparisons.compare(
            set_name,
            runs,
            metrics=parse_metrics(metrics),
            direction=search_direction,
            qrels=qrels,
            page=page,
            slice_=slice_,
            out=out,
        )
    if page is not None:
        terminal.err.print(f"page written: {page}", markup=False)
    if json:
        most_different = found.pair.most_different_queries[:queries] if found.pair else []
        leaked = {"leaked": _plain(found.leaked)} if len(found.leaked) else {}
        phrasings = {"phrasings": _plain(found.phrasings)} if len(found.phrasings) else {}
        terminal.print_json({"pairs": _plain(found.table), "most_different": most_different} | leaked | phrasings)
        return
    result_tables.show_results(found.results)
    result_tables.show_pairwise_differences(found.table)
    result_tables.show_leaked_differences(found.leaked)
    result_tables.show_phrasing_spreads(found.phrasings)
    if found.pair is not None:
        result_tables.show_most_different_queries(found.pair, found.texts, queries)


def stability(
    set_a: Annotated[str, typer.Argument(metavar="SET_A")],
    set_b: Annotated[str, typer.Argument(metavar="SET_B", help="Another version, or another size.")],
    metrics: MetricsOption = "",
    direction: SingleDirectionOption = "text_to_image",
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Show whether two versions, or two sizes, of a set rank systems alike and distinguish them, by the results of all
    systems that were evaluated on both.

    Example: querytruth stability family-album-1000 family-album
    """
    (search_direction,) = parse_directions(direction, single_direction_reason="one direction at a time")
    terminal.err.print(f"querytruth: reading the results of {set_a} and {set_b}", markup=False)
    from backends.sets.set_files import find_set
    from flows.scoring.set_stability import compare_set_stability
    from querytruth.result_tables import show_stability

    paths = find_set(set_a, out), find_set(set_b, out)
    table, means = compare_set_stability(*paths, parse_metrics(metrics) if metrics else None, search_direction)
    names = f"{paths[0].parent.name}/{paths[0].name}", f"{paths[1].parent.name}/{paths[1].name}"
    if json:
        terminal.print_json({"sets": names, "metrics": _plain(table), "means": means})
        return
    show_stability(table, means, names)


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON values; unknown values are null."""
    return [{k: None if v != v else v for k, v in row.items()} for row in table.to_dict("records")]
