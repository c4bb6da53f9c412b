"""`querytruth compare` and `querytruth stability`: systems on one set, and sets on the same systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.evaluating import Metrics, Qrels, judged_of, listed, ways_of
from querytruth.sets import DATASETS, Json, Out

if TYPE_CHECKING:
    import pandas as pd

    from flows.scoring.judged_sets import Judged

OneWay = Annotated[str, typer.Option(help="Who searched whom.", metavar="text_to_image|image_to_text")]


def compare(
    names: Annotated[
        list[str],
        typer.Argument(help="A set, and two or more runs: files, or results' folders.", metavar="SET RUN RUN"),
    ],
    qrels: Qrels = None,
    metrics: Metrics = "",
    direction: OneWay = "text_to_image",
    queries: Annotated[int, typer.Option(help="Queries shown of those where two systems differ most.", min=0)] = 10,
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page about two systems.")] = None,
    out: Out = DATASETS,
    json: Json = False,
) -> None:
    """Systems side by side on the same queries: by how much they differ, whether that is more than chance, and where.

    Example: querytruth compare family-album bm25.trec datasets/family-album/evaluations/v1/lexical
    """
    set_, runs = (None, names) if qrels else (names[0], names[1:])
    if len(runs) < 2:
        raise typer.BadParameter("name a SET and at least two runs")
    if page is not None and len(runs) > 2:
        raise typer.BadParameter("--page is about two runs")
    (way,) = ways_of(direction, one_way="runs answer one way")
    terminal.err.print(f"querytruth: reading {set_ or qrels}", markup=False)
    from evaluation.side_by_side import all_pairs, compared
    from flows.scoring.judged_sets import view_of
    from flows.scoring.systems import run_file
    from flows.scoring_run import scored
    from flows.steps import Run, running
    from querytruth import scoreboards
    from querytruth.result_pages import write_comparison_page

    with running(Run(terminal.Terminal())):
        judged = judged_of(set_, qrels, out)
        view = view_of(judged, way, listed(metrics), ())
        found = [scored(view, run_file(Path(name))).evaluated for name in runs]
        table = all_pairs(found, view.asked.clusters)
        two = compared(found[0], found[1], view.asked.clusters) if len(found) == 2 else None
        if two is not None and page is not None:
            write_comparison_page(two, view, page)
            terminal.err.print(f"page written: {page}", markup=False)
    if json:
        terminal.as_json({"pairs": _plain(table), "most_different": two.different[:queries] if two else []})
        return
    scoreboards.show_results(found)
    scoreboards.show_compared(table)
    if two is not None:
        scoreboards.show_different(two, _texts_of(judged), queries)


def stability(
    set_a: Annotated[str, typer.Argument(metavar="SET_A")],
    set_b: Annotated[str, typer.Argument(metavar="SET_B", help="Another version, or another size.")],
    metrics: Metrics = "",
    direction: OneWay = "text_to_image",
    out: Out = DATASETS,
    json: Json = False,
) -> None:
    """Whether two versions, or two sizes, of a set order systems alike, and whether each still tells them apart: by the
    results of all systems that were evaluated on both.

    Example: querytruth stability family-album-1000 family-album
    """
    (way,) = ways_of(direction, one_way="one direction at a time")
    terminal.err.print(f"querytruth: reading the results of {set_a} and {set_b}", markup=False)
    from backends.sets.set_files import find
    from flows.scoring.set_stability import stability_of
    from querytruth.scoreboards import show_stability

    paths = find(set_a, out), find(set_b, out)
    table, means = stability_of(*paths, listed(metrics) if metrics else None, way)
    names = f"{paths[0].parent.name}/{paths[0].name}", f"{paths[1].parent.name}/{paths[1].name}"
    if json:
        terminal.as_json({"sets": names, "metrics": _plain(table), "means": means})
        return
    show_stability(table, means, names)


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for machines: what is unknown is null."""
    return [{k: None if v != v else v for k, v in row.items()} for row in table.to_dict("records")]


def _texts_of(judged: Judged) -> dict[str, str]:
    """What queries and pictures are called."""
    if judged.queries is None or judged.images is None:
        return {}
    texts = dict(zip(judged.queries["query_id"], judged.queries["text"], strict=True))
    return texts | dict(zip(judged.images["image_id"], judged.images["file_name"].fillna(""), strict=True))
