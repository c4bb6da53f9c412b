"""`querytruth compare` and `querytruth stability`: systems on one set, and sets on the same systems.

`querytruth leaderboard` and `querytruth history`: the systems of a set beside each other, and over time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from querytruth import terminal
from querytruth.cli import options
from querytruth.cli.evaluate_command import parse_directions, parse_metrics

if TYPE_CHECKING:
    import pandas as pd

SingleDirectionOption = Annotated[str, typer.Option(help="Who searched whom.", metavar="text_to_image|image_to_text")]
PageLanguageOption = Annotated[Literal["en", "zh"], typer.Option("--page-language", help="Of the page.")]


def compare(
    names: Annotated[
        list[str],
        typer.Argument(help="A set, and two or more runs: files, or results' folders.", metavar="SET RUN RUN"),
    ],
    qrels: options.QrelsOption = None,
    metrics: options.MetricsOption = "",
    direction: SingleDirectionOption = "text_to_image",
    queries: Annotated[int, typer.Option(help="Queries shown of those where two systems differ most.", min=0)] = 10,
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page about two systems.")] = None,
    slice_: Annotated[
        str | None, typer.Option("--slice", help="Only these queries, such as overlap=clean.", metavar="ASPECT=VALUE")
    ] = None,
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
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
    from querytruth.api import comparisons
    from querytruth.cli import result_tables

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
    metrics: options.MetricsOption = "",
    direction: SingleDirectionOption = "text_to_image",
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """Show whether two versions, or two sizes, of a set rank systems alike and distinguish them, by the results of all
    systems that were evaluated on both.

    Example: querytruth stability family-album-1000 family-album
    """
    (search_direction,) = parse_directions(direction, single_direction_reason="one direction at a time")
    terminal.err.print(f"querytruth: reading the results of {set_a} and {set_b}", markup=False)
    from flows.leaderboard import compare_set_stability
    from querytruth.cli.result_tables import show_stability
    from querytruth.sets.set_files import find_set

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


def leaderboard(
    set_: options.SetArgument,
    to: Annotated[Path | None, typer.Option(help="Write an HTML page, and CSV and JSON beside it.")] = None,
    metric: Annotated[str | None, typer.Option(help="Order by it (default: ndcg@10, else hit@1).")] = None,
    page_language: PageLanguageOption = "en",
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """Order all systems that were evaluated on a set, with rank intervals and the groups that it cannot tell apart.

    Example: querytruth leaderboard family-album --to board.html"""
    terminal.err.print(f"querytruth: reading the results of {set_}", markup=False)
    from querytruth.api import comparisons
    from querytruth.review.board_pages import format_rank

    with terminal.reported_run():
        found = comparisons.leaderboard(set_, metric=metric, out=out)
    board = found.board
    written = [] if to is None else found.save(to, page_language)
    if json:
        terminal.print_json(board)
        return
    rows: list[list[object]] = [
        [format_rank(one["best_rank"], one["worst_rank"]), one["name"], f"{one['mean']:.4f}", _format_latency(one)]
        for one in board["systems"]
    ]
    terminal.print_table(f"{board['metric']} on {set_}", ["rank", "system", "figure", "p95 ms"], rows)
    for names in board["groups"]:
        if len(names) > 1:
            terminal.out.print(f"not told apart: {', '.join(names)}", markup=False, soft_wrap=True)
    for path in written:
        terminal.out.print(f"written: {path}", markup=False, soft_wrap=True)


def history(
    set_: options.SetArgument,
    system: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    metric: Annotated[str, typer.Option(help="The figure that is shown.")] = "ndcg@10",
    to: Annotated[Path | None, typer.Option(help="Write an HTML page with the trend of each metric.")] = None,
    page_language: PageLanguageOption = "en",
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """List the evaluations on all versions of a set in the order of time.

    Example: querytruth history family-album --system my-search"""
    from flows.leaderboard import write_history_page
    from querytruth.evaluation.metrics import parse_metric
    from querytruth.evaluation.steps import RESULTS_FOLDER, read_history
    from querytruth.sets.set_files import find_set

    folder = find_set(set_, out).parent
    entries, name = read_history(folder / RESULTS_FOLDER, system), str(parse_metric(metric))
    if to is not None:
        write_history_page(folder.name, entries, name, to, page_language)
    if json:
        terminal.print_json(entries)
        return
    rows, last = list[list[object]](), None
    for entry in entries:
        value, low, high = entry["figures"].get(name, (None, None, None))
        figure = "" if value is None else f"{value:.4f} [{low:.4f}, {high:.4f}]"
        mark = f"v{entry['version']}" + (" (changed)" if last not in (None, entry["content_digest"]) else "")
        last = entry["content_digest"]
        rows.append([entry["at"], entry["system"], mark, figure, _format_latency(entry)])
    terminal.print_table(f"{name} on {set_}", ["at", "system", "version", "figure", "p95 ms"], rows)
    if to is not None:
        terminal.out.print(f"written: {to}", markup=False, soft_wrap=True)


def _format_latency(entry: dict[str, Any]) -> str:
    latency = entry["latency_ms"]
    return "" if not latency or latency["p95"] is None else f"{latency['p95']:.1f}"
