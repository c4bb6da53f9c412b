"""Parts of the queries: a plot per aspect, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from evaluation.evaluation_result import EvaluationResult
from review.evaluation import plots
from review.evaluation.cards import TemplateData
from review.evaluation.display_text import format_interval

_BARS = 12  # values of an aspect that have a bar: those with the most queries
_ROWS = 40  # in the table beside them


def draw_slice_plots(systems: Mapping[str, EvaluationResult], metric: str) -> list[TemplateData]:
    """A plot per aspect that has several values."""
    parts = [one.slices[one.slices["metric"] == metric].assign(system=name) for name, one in systems.items()]
    rows = pd.concat(parts, ignore_index=True)
    overall = [float(one.per_query[metric].mean()) for one in systems.values()]
    plot_data = []
    for aspect, mine, sizes in _aspects(rows, _BARS):
        if (total := mine["value"].nunique()) > 1:
            drawn = plots.draw_slice_bars(mine[mine["value"].isin(sizes)], list(systems), overall)
            plot_data.append({"aspect": aspect, "plot": drawn, "total": total, "shown": len(sizes)})
    return plot_data


def build_slice_table(slices: pd.DataFrame, metrics: list[str]) -> list[TemplateData]:
    """Per aspect a row per value: its queries, and mean and interval of each of these metrics."""
    aspects = []
    for aspect, mine, sizes in _aspects(slices[slices["metric"].isin(metrics)], _ROWS):
        cells = {(row.value, row.metric): row for row in mine.itertuples(index=False)}
        rows = [
            (str(value), number, [_cell(cells.get((value, metric))) for metric in metrics])
            for value, number in sizes.items()
        ]
        aspects.append({"aspect": aspect, "further": mine["value"].nunique() - len(sizes), "rows": rows})
    return aspects


def _aspects(slices: pd.DataFrame, number: int) -> Iterator[tuple[str, pd.DataFrame, dict[Any, int]]]:
    """Each aspect with its rows, and its values that have the most queries with their queries, in the rows' order."""
    for aspect in dict.fromkeys(slices["slice"]):
        mine = slices[slices["slice"] == aspect]
        sizes = mine.drop_duplicates("value").set_index("value")["queries"]
        largest = set(sizes.sort_values(ascending=False, kind="stable").index[:number])
        yield str(aspect), mine, {value: int(size) for value, size in sizes.items() if value in largest}


def _cell(row: Any) -> tuple[str, str]:
    return ("", "") if row is None else (f"{row.mean:.3f}", format_interval(row.low, row.high))
