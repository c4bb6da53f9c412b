"""`querytruth compare` and `querytruth stability`: systems on one set, and sets on the same systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.evaluate_command import load_judged_set, parse_directions, parse_metrics
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, MetricsOption, OutOption, QrelsOption

if TYPE_CHECKING:
    import pandas as pd

    from flows.scoring.judged_sets import JudgedSet

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
    from evaluation.pairwise_comparison import compare_all_pairs, compare_two_systems
    from flows.evaluation_run import score_on_common_queries
    from flows.pages.result_pages import write_comparison_page
    from flows.scoring.judged_sets import build_evaluation_view
    from flows.scoring.systems import load_run_system
    from querytruth import result_tables

    with terminal.reported_run():
        judged_set = load_judged_set(set_name, qrels, out)
        view = build_evaluation_view(judged_set, search_direction, parse_metrics(metrics), ())
        runs_to_compare = [load_run_system(Path(name), judged_set) for name in runs]
        results = [scored.result for scored in score_on_common_queries(view, runs_to_compare)]
        table = compare_all_pairs(results, view.spec.clusters)
        pairwise = compare_two_systems(results[0], results[1], view.spec.clusters) if len(results) == 2 else None
        if pairwise is not None and page is not None:
            write_comparison_page(pairwise, view, page)
            terminal.err.print(f"page written: {page}", markup=False)
    if json:
        most_different = pairwise.most_different_queries[:queries] if pairwise else []
        terminal.print_json({"pairs": _plain(table), "most_different": most_different})
        return
    result_tables.show_results(results)
    result_tables.show_pairwise_differences(table)
    if pairwise is not None:
        result_tables.show_most_different_queries(pairwise, _item_texts(judged_set), queries)


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


def _item_texts(judged_set: JudgedSet) -> dict[str, str]:
    """Return the texts of queries and the file names of images, by id."""
    if judged_set.queries is None or judged_set.images is None:
        return {}
    texts = dict(zip(judged_set.queries["query_id"], judged_set.queries["text"], strict=True))
    return texts | dict(zip(judged_set.images["image_id"], judged_set.images["file_name"].fillna(""), strict=True))
