"""`querytruth leaderboard` and `querytruth history`: the systems of a set beside each other, and over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, SetArgument

PageLanguageOption = Annotated[Literal["en", "zh"], typer.Option("--page-language", help="Of the page.")]


def leaderboard(
    set_: SetArgument,
    to: Annotated[Path | None, typer.Option(help="Write an HTML page, and CSV and JSON beside it.")] = None,
    metric: Annotated[str | None, typer.Option(help="Order by it (default: ndcg@10, else hit@1).")] = None,
    page_language: PageLanguageOption = "en",
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Order all systems that were evaluated on a set, with rank intervals and the groups that it cannot tell apart.

    Example: querytruth leaderboard family-album --to board.html"""
    terminal.err.print(f"querytruth: reading the results of {set_}", markup=False)
    from querytruth.api import leaderboards
    from review.leaderboard_page import format_rank

    with terminal.reported_run():
        found = leaderboards.leaderboard(set_, metric=metric, out=out)
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
    set_: SetArgument,
    system: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    metric: Annotated[str, typer.Option(help="The figure that is shown.")] = "ndcg@10",
    to: Annotated[Path | None, typer.Option(help="Write an HTML page with the trend of each metric.")] = None,
    page_language: PageLanguageOption = "en",
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """List the evaluations on all versions of a set in the order of time.

    Example: querytruth history family-album --system my-search"""
    from backends.sets.set_files import find_set
    from evaluation.metric_names import parse_metric
    from flows.evaluation_run import RESULTS_FOLDER
    from flows.pages.history_pages import write_history_page
    from flows.scoring.evaluation_history import read_history

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
