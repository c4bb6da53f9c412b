"""`querytruth compare` and `querytruth leaderboard`: systems on one set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from querytruth import terminal
from querytruth.cli import options
from querytruth.cli.command_line import command, option
from querytruth.defaults import DATASETS_FOLDER
from querytruth.evaluation.requests import CompareRequest
from querytruth.evaluation.result_types import Latency

if TYPE_CHECKING:
    import pandas as pd

_MOST_LANGUAGES = 4
_COSTS = {"ms_per_image": "ms an image", "mb_per_100000_images": "MB per 100,000"}


class TypedComparison(CompareRequest):
    """A comparison as it is typed: beside qrels, what stands in the set's place is a run."""

    queries: int = Field(10, ge=0, description="Queries shown of those where two systems differ most.")

    @model_validator(mode="before")
    @classmethod
    def _take_first_run(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("qrels") is not None and values.get("of") is not None:
            return {**values, "of": None, "run": [values["of"], *values.get("run", [])]}
        return values


@command
def compare(json: options.JsonOption = False, *, request: TypedComparison) -> None:
    """Compare systems on the same queries: their differences, whether these exceed chance, and on which queries.

    Example: querytruth compare family-album bm25.trec datasets/family-album/evaluations/v1/lexical
    """
    terminal.err.print(f"querytruth: reading {request.label}", markup=False)
    from querytruth.api import comparisons
    from querytruth.cli import result_tables

    with terminal.reported_run():
        found = comparisons.compare_runs(request, [(None, run) for run in request.run])
    if request.page is not None:
        terminal.err.print(f"page written: {request.page}", markup=False)
    if json:
        most_different = found.pair.most_different_queries[: request.queries] if found.pair else []
        leaked = {"leaked": _plain(found.leaked)} if len(found.leaked) else {}
        phrasings = {"phrasings": _plain(found.phrasings)} if len(found.phrasings) else {}
        terminal.print_json({"pairs": _plain(found.table), "most_different": most_different} | leaked | phrasings)
        return
    result_tables.show_results(found.results)
    result_tables.show_pairwise_differences(found.table)
    result_tables.show_leaked_differences(found.leaked)
    result_tables.show_phrasing_spreads(found.phrasings)
    if found.pair is not None:
        result_tables.show_most_different_queries(found.pair, found.texts, request.queries)


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON values; unknown values are null."""
    return [{k: None if v != v else v for k, v in row.items()} for row in table.to_dict("records")]


@command
def leaderboard(
    set_: options.SetArgument,
    to: Annotated[Path | None, option(help="Write an HTML page, and CSV and JSON beside it.")] = None,
    metric: Annotated[str | None, option(help="Order by it (default: ndcg@10, else hit@1).")] = None,
    page_language: options.PageLanguageOption = "en",
    out: options.OutOption = DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """Order all systems that were evaluated on a set, with rank intervals and the groups that it cannot tell apart.

    Example: querytruth leaderboard family-album --to board.html"""
    terminal.err.print(f"querytruth: reading the results of {set_}", markup=False)
    from querytruth.api.loaded_set import load
    from querytruth.evaluation.evaluation_result import describe_queries
    from querytruth.review.board_pages import format_rank

    with terminal.reported_run():
        found = load(set_, out=out).leaderboard(metric)
    board = found.board
    written = [] if to is None else found.save(to, page_language)
    if json:
        terminal.print_json(board)
        return
    slices = [row for one in board["systems"] for row in one["slices"] if row["slice"] == "language"]
    languages = sorted({row["value"] for row in slices})
    languages = languages if 1 < len(languages) <= _MOST_LANGUAGES else []
    rows: list[list[object]] = [
        [
            format_rank(one["best_rank"], one["worst_rank"]),
            one["name"],
            f"{one['mean']:.4f}",
            "" if one["low"] is None else f"{one['low']:.4f} to {one['high']:.4f}",
            f"{one['at_least']:.4f} to {one['at_most']:.4f}",
            *_format_languages(one, languages),
            _format_latency(one["latency_ms"]),
            *(f"{(one['encoding'] or {}).get(name, math.nan):.4g}".replace("nan", "") for name in _COSTS),
        ]
        for one in board["systems"]
    ]
    columns = ["rank", "system", "figure", "95%", "at least, at most", *languages, "p95 ms", *_COSTS.values()]
    terminal.print_table(f"{board['metric']} on {set_}; {describe_queries(board, board['queries'])}", columns, rows)
    for names in board["groups"]:
        if len(names) > 1:
            terminal.out.print(f"not told apart: {', '.join(names)}", markup=False, soft_wrap=True)
    for path in written:
        terminal.out.print(f"written: {path}", markup=False, soft_wrap=True)


def _format_languages(one: dict[str, Any], languages: list[str]) -> list[str]:
    means = {row["value"]: f"{row['mean']:.4f}" for row in one["slices"] if row["slice"] == "language"}
    return [means.get(language, "") for language in languages]


def _format_latency(latency: Latency | None) -> str:
    return "" if not latency or latency["p95"] is None else f"{latency['p95']:.1f}"
