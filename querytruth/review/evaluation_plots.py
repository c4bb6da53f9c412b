"""The plots of an evaluation. A plot is as wide as a phone screen, so that its text is never scaled down."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from querytruth.evaluation.evaluation_result import EvaluationResult
from querytruth.review import vega_lite
from querytruth.review.page_parts import format_interval, name_part, translate

_WIDTH, _HEIGHT = 285, 190
_POINTS = 200  # of a curve: more do not show
_SYSTEM = 24  # columns of the longest label; a Chinese character takes two
_SHARE = {"domain": [0, 1]}
_MAX_BARS = 12  # values of an aspect that have a bar: those with the most queries
_MAX_TABLE_ROWS = 40  # of an aspect


def draw_interval_strip(figure: Mapping[str, Any]) -> Markup:
    """Draw a figure on a line from 0 to 1 with its interval, its bounds and chance."""
    layers = [
        vega_lite.make_rule(0, 1, vega_lite.LINE, 2),
        vega_lite.make_rule(figure["at_least"], figure["at_most"], vega_lite.PALE, 3)
        if _both(figure, "at_least", "at_most")
        else None,
        vega_lite.make_rule(figure["low"], figure["high"], vega_lite.ACCENT, 7)
        if _both(figure, "low", "high")
        else None,
        vega_lite.make_tick(figure["chance"], vega_lite.WARM) if _known(figure["chance"]) else None,
        vega_lite.make_dot(figure["value"]),
    ]
    description = f"{figure['metric']}: {figure['value']:.3f}"
    if _known(figure["low"]) and _known(figure["high"]):
        description += f", interval {figure['low']:.3f} to {figure['high']:.3f}"
    return vega_lite.draw_svg(_strip([layer for layer in layers if layer], [0, 1]), description)


def draw_difference_strip(low: float, value: float, high: float, widest: float) -> Markup:
    """Draw a difference with its interval on a line from -widest to widest."""
    layers = [
        vega_lite.make_rule(-widest, widest, vega_lite.LINE, 2),
        vega_lite.make_tick(0, vega_lite.SOFT),
        vega_lite.make_rule(low, high, vega_lite.ACCENT, 7),
        vega_lite.make_dot(value),
    ]
    return vega_lite.draw_svg(
        _strip(layers, [-widest, widest]), f"difference {value:+.3f}, interval {low:+.3f} to {high:+.3f}"
    )


def _strip(layers: list[vega_lite.VegaSpec], domain: list[float]) -> vega_lite.VegaSpec:
    axis = {"x": {"type": "quantitative", "scale": {"domain": domain, "nice": False}, "axis": None}}
    return {"width": 236, "height": 22, "encoding": axis, "layer": layers}


def _known(value: Any) -> bool:
    return bool(np.isfinite(value))


def _both(figure: Mapping[str, Any], low: str, high: str) -> bool:
    return _known(figure[low]) and _known(figure[high]) and figure[low] < figure[high]


def draw_cmc_curves(curves: Mapping[str, Any], figures: Mapping[str, pd.DataFrame]) -> Markup:
    """Draw mean hit@k over k per system, with intervals and chance of those hit@k that are metrics."""
    ends = [f"{name} {values[0]:.2f} at rank 1, {values[-1]:.2f} at {len(values)}" for name, values in curves.items()]
    description = "Share of queries with a relevant image among the first k: " + "; ".join(ends)
    label = vega_lite.shorten_labels(curves, _SYSTEM)
    curves = {label[name]: values for name, values in curves.items()}
    rows = [
        {"system": name, "k": k, "y": float(values[k - 1])}
        for name, values in curves.items()
        for k in _sample_ranks(len(values))
    ]
    hits = [
        row | {"system": label[name]}
        for name, frame in figures.items()
        for row in _at_cuts(frame, "hit")
        if row["k"] <= len(curves[label[name]])  # beyond, the run has ended
    ]
    layers = [_line(rows, "k", "y", list(curves)), *_intervals(hits, list(curves)), *_chance(hits)]
    return vega_lite.draw_svg(
        _plot(layers, translate("rank k"), translate("queries with a relevant image")), description
    )


def draw_precision_recall_curves(curves: Mapping[str, pd.DataFrame], figures: pd.DataFrame) -> Markup:
    """Draw mean precision over mean recall at rank 1 to k per system; a dashed line is the chance of p@k, if there is
    one."""
    label = vega_lite.shorten_labels(curves, _SYSTEM)
    curves = {label[name]: frame for name, frame in curves.items()}
    rows = [
        {"system": name, "x": float(row.recall), "y": float(row.precision), "k": k}
        for name, frame in curves.items()
        for k, row in enumerate(frame.itertuples(index=False), 1)
        if k in set(_sample_ranks(len(frame)))
    ]
    layers = [_line(rows, "x", "y", list(curves), order="k")]
    chance = [row["chance"] for row in _at_cuts(figures, "p") if _known(row["chance"])]
    if chance:
        level = [{"a": 0, "y": chance[0]}, {"a": 1, "y": chance[0]}]
        dashed = {"type": "line", "color": vega_lite.SOFT, "strokeDash": [3, 3], "strokeWidth": 1.5}
        layers.append(vega_lite.make_layer(level, dashed, x={"field": "a", "type": "quantitative"}, y={"field": "y"}))
    return vega_lite.draw_svg(
        _plot(layers, translate("recall"), translate("precision"), x=_SHARE),
        translate("Precision over recall, at rank 1 to the last"),
    )


def draw_open_set_curves(curve: pd.DataFrame, thresholds: Sequence[float]) -> Markup:
    """Draw precision and recall over the score threshold, with the thresholds for the target precisions."""
    rows = [
        {"system": translate(name), "x": float(x), "y": float(y)}
        for name in ("precision", "recall")
        for x, y in zip(curve["threshold"], curve[name], strict=True)
    ]
    cuts = [{"a": value} for value in thresholds]
    mark = {"type": "rule", "color": vega_lite.SOFT, "strokeWidth": 1}
    layers = [
        _line(rows, "x", "y", [translate("precision"), translate("recall")]),
        vega_lite.make_layer(cuts, mark, x={"field": "a"}),
    ]
    plot = _plot(layers, translate("score threshold"), translate("share"), x={"zero": False, "nice": False})
    return vega_lite.draw_svg(plot, translate("Precision and recall over the score"))


def draw_slice_bars(rows: pd.DataFrame, systems: Sequence[str], overall: Sequence[float]) -> Markup:
    """Draw the mean of each value of an aspect, with its interval and its number of queries. `rows`: value, queries,
    mean, low, high, system; a dotted line is the mean of a system over all queries."""
    values = [
        {"name": str(row.value), "note": f"{row.queries:,}", "system": row.system, "value": float(row.mean)}
        | {end: float(getattr(row, end)) for end in ("low", "high") if _known(getattr(row, end))}
        for row in rows.itertuples(index=False)
    ]
    many = len(systems) > 1
    description = "; ".join(
        f"{one['name']} {one['value']:.2f} ({one['note']} queries)" + (f" {one['system']}" if many else "")
        for one in values
    )
    return vega_lite.draw_intervals(values, description, systems, overall)


def draw_slice_plots(systems: Mapping[str, EvaluationResult], metric: str) -> list[dict[str, Any]]:
    """Return a plot per aspect of the queries that has several values."""
    parts = [one.slices[one.slices["metric"] == metric].assign(system=name) for name, one in systems.items()]
    rows = pd.concat(parts, ignore_index=True)
    overall = [float(one.per_query[metric].mean()) for one in systems.values()]
    plot_data = []
    for aspect, mine, sizes in _aspects(rows, _MAX_BARS):
        if (total := mine["value"].nunique()) > 1:
            shown = mine[mine["value"].isin(sizes)]
            names = [name_part(aspect, str(value)) for value in shown["value"]]
            plot = draw_slice_bars(shown.assign(value=names), list(systems), overall)
            plot_data.append({"aspect": aspect, "plot": plot, "total": total, "shown": len(sizes)})
    return plot_data


def build_slice_table(slices: pd.DataFrame, metrics: list[str]) -> list[dict[str, Any]]:
    """Return per aspect a row per value: its number of queries, and mean and interval of each metric."""
    aspects = []
    for aspect, mine, sizes in _aspects(slices[slices["metric"].isin(metrics)], _MAX_TABLE_ROWS):
        cells = {(row.value, row.metric): row for row in mine.itertuples(index=False)}
        rows = [
            (name_part(aspect, str(value)), number, [_cell(cells.get((value, metric))) for metric in metrics])
            for value, number in sizes.items()
        ]
        aspects.append({"aspect": aspect, "further": mine["value"].nunique() - len(sizes), "rows": rows})
    return aspects


def _aspects(slices: pd.DataFrame, number: int) -> Iterator[tuple[str, pd.DataFrame, dict[Any, int]]]:
    """Yield each aspect, its rows, and the number of queries of its largest values, in the order of the rows."""
    for aspect in dict.fromkeys(slices["slice"]):
        mine = slices[slices["slice"] == aspect]
        sizes = mine.drop_duplicates("value").set_index("value")["queries"]
        largest = set(sizes.sort_values(ascending=False, kind="stable").index[:number])
        yield str(aspect), mine, {value: int(size) for value, size in sizes.items() if value in largest}


def _cell(row: Any) -> tuple[str, str]:
    return ("", "") if row is None else (f"{row.mean:.3f}", format_interval(row.low, row.high))


def _plot(
    layers: list[vega_lite.VegaSpec], x_title: str, y_title: str, x: vega_lite.VegaSpec | None = None
) -> vega_lite.VegaSpec:
    scale, axis = x or {"nice": False}, {"tickCount": 6, "grid": False}
    shared = {
        "x": {"type": "quantitative", "title": x_title, "axis": axis, "scale": scale},
        "y": {"type": "quantitative", "title": y_title, "scale": _SHARE, "axis": {"tickCount": 5, "domain": False}},
    }
    return {"width": _WIDTH, "height": _HEIGHT, "encoding": shared, "layer": layers}


def _line(
    rows: list[vega_lite.VegaSpec], x: str, y: str, names: list[str], order: str | None = None
) -> vega_lite.VegaSpec:
    encoding: vega_lite.VegaSpec = {"x": {"field": x}, "y": {"field": y}, "color": _colour(names)}
    if len(names) > 1:  # distinct without colours
        encoding["strokeDash"] = {
            "field": "system",
            "type": "nominal",
            "sort": names,
            "scale": {"domain": names, "range": [[1, 0], [6, 3]]},
            "legend": {"title": None},
        }
    if order:
        encoding["order"] = {"field": order, "type": "quantitative"}
    return vega_lite.make_layer(rows, {"type": "line", "strokeWidth": 2.5}, **encoding)


def _colour(names: list[str]) -> vega_lite.VegaSpec:
    shown = {"legend": None} if len(names) == 1 else {}
    scale = {"domain": names, "range": [vega_lite.ACCENT, vega_lite.WARM][: len(names)]}
    return {"field": "system", "type": "nominal", "scale": scale, "title": None, **shown}


def _intervals(hits: list[vega_lite.VegaSpec], names: list[str]) -> list[vega_lite.VegaSpec]:
    known = [row for row in hits if _known(row["low"]) and _known(row["high"])]
    encoding = {"x": {"field": "k"}, "y": {"field": "low"}, "y2": {"field": "high"}}
    return (
        [vega_lite.make_layer(known, {"type": "rule", "strokeWidth": 1.5}, **encoding, color=_colour(names))]
        if known
        else []
    )


def _chance(hits: list[vega_lite.VegaSpec]) -> list[vega_lite.VegaSpec]:
    known = [row for row in hits if _known(row["chance"])]
    mark = {"type": "tick", "color": vega_lite.SOFT, "thickness": 2, "width": 12, "orient": "horizontal"}
    return [vega_lite.make_layer(known, mark, x={"field": "k"}, y={"field": "chance"})] if known else []


def _at_cuts(figures: pd.DataFrame, name: str) -> list[vega_lite.VegaSpec]:
    """Return k, low, high and chance of the metrics `name`@k, sorted by k."""
    cuts = []
    for row in figures.itertuples(index=False):
        if match := re.fullmatch(rf"{name}@(\d+)", str(row.metric)):
            values = {side: float(getattr(row, side)) for side in ("low", "high", "chance")}
            cuts.append({"k": int(match[1]), **values})
    return sorted(cuts, key=lambda row: int(row["k"]))


def _sample_ranks(length: int) -> list[int]:
    """Return the ranks from 1 to `length`, at most about 200 of them."""
    if length <= _POINTS:
        return list(range(1, length + 1))
    return sorted({round(n) for n in np.geomspace(1, length, _POINTS)})
