"""How far systems' figures differ between phrasings of one question: a drawing, and the questions that differ most."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from evaluation.evaluation_result import EvaluationResult
from evaluation.phrasing_spread import find_spreads, number_questions
from review.evaluation.display_text import format_interval, select_headline_metrics
from review.vega_lite import ACCENT, WARM, VegaSpec, draw_svg, shorten_labels

_WIDTH, _STEP = 320, 26
_NAME = 24  # columns of the longest name of a system
_MOST_QUESTIONS = 8
_EQUAL = 1e-9
_Q: VegaSpec = {"type": "quantitative"}


def describe_phrasings(systems: Mapping[str, EvaluationResult], queries: pd.DataFrame | None) -> dict[str, Any] | None:
    """Return the plot, a row per metric and system, and, of one system, the questions that differ most by the first
    metric with the texts of their phrasings. None where no question has two phrasings."""
    tables = {name: one.phrasings for name, one in systems.items()}
    first = next(iter(systems.values()))
    if queries is None or any(table.empty for table in tables.values()):
        return None
    metrics = select_headline_metrics(first.metrics)
    rows = [
        {"metric": metric, "system": name, **_format_row(table.set_index("metric").loc[metric])}
        for metric in metrics
        for name, table in tables.items()
    ]
    counts = first.phrasings.iloc[0]
    return {
        "questions": int(counts["questions"]),
        "queries": int(counts["queries"]),
        "metric": first.metrics[0],
        "plot": _draw(tables, metrics),
        "rows": rows,
        "widest": _list_widest(first, queries) if len(systems) == 1 else [],
    }


def _format_row(row: pd.Series) -> dict[str, str]:
    figures = {name: f"{row[name]:.3f}" for name in ("worst", "mean", "best", "spread")}
    return figures | {"interval": format_interval(row["low"], row["high"])}


def _list_widest(result: EvaluationResult, queries: pd.DataFrame) -> list[list[tuple[str, str, str]]]:
    """Return for each of the questions with the largest spread the text, the style and the figure of each phrasing, the
    best first."""
    metric = result.metrics[0]
    question = number_questions(queries, result.per_query.index)
    spread = find_spreads(result.per_query, question, [metric])[metric]
    chosen = spread[spread > _EQUAL].sort_values(ascending=False, kind="stable").index[:_MOST_QUESTIONS]
    known = queries.set_index("query_id")
    listed = []
    for number in chosen:
        figures = result.per_query.loc[question.index[question == number], metric]
        ordered = figures.sort_values(ascending=False, kind="stable")
        listed.append(
            [(known.at[one, "text"], known.at[one, "style"], f"{value:.3f}") for one, value in ordered.items()]
        )
    return listed


def _draw(tables: Mapping[str, pd.DataFrame], metrics: list[str]) -> Any:
    """Return a dot per metric and system at the mean, on a line from the worst to the best phrasing."""
    label = shorten_labels(tables, _NAME)
    names = list(label.values())
    values = [
        {"metric": row.metric, "system": label[name], "worst": row.worst, "mean": row.mean, "best": row.best}
        for name, table in tables.items()
        for row in table[table["metric"].isin(metrics)].itertuples(index=False)
    ]
    legend = {} if len(names) > 1 else {"legend": None}
    scale = {"domain": names, "range": [ACCENT, WARM][: len(names)]}
    colour = {"color": {"field": "system", "type": "nominal", "scale": scale, "title": None, **legend}}
    y = {
        "field": "metric",
        "type": "nominal",
        "sort": metrics,
        "title": None,
        "axis": {"ticks": False, "domain": False},
    }
    offset = {"yOffset": {"field": "system", "type": "nominal", "sort": names}} if len(names) > 1 else {}
    share = {**_Q, "scale": {"domain": [0, 1]}, "title": None}
    layers: list[VegaSpec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45},
            "encoding": {"x": {"field": "worst", **share}, "x2": {"field": "best"}, **colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"x": {"field": "mean", **share, "axis": {"tickCount": 5, "grid": True}}, **colour},
        },
    ]
    spec = {
        "data": {"values": values},
        "width": _WIDTH,
        "height": _STEP * len(metrics) * len(names),
        "encoding": {"y": y, **offset},
        "layer": layers,
    }
    described = "; ".join(f"{one['metric']} {one['worst']:.2f} to {one['best']:.2f} {one['system']}" for one in values)
    return draw_svg(spec, described)
