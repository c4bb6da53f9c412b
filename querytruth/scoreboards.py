"""Figures in the terminal: a table a system, or a row a system, and what to distrust in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evaluation.evaluated import Compared, Evaluated
from evaluation.side_by_side import named_apart
from querytruth import terminal

if TYPE_CHECKING:
    import pandas as pd

_SIDE_BY_SIDE = ("hit@1", "hit@10", "ndcg@10")  # of several systems, where they are there
_BY_DESIGN = ("random", "oracle")  # a floor and a ceiling: what a warning would say is what they are for
_WAYS = {"text_to_image": "texts find pictures", "image_to_text": "pictures find texts"}


def show_results(results: Sequence[Evaluated]) -> None:
    """One system in full, several side by side, each way round."""
    for way in dict.fromkeys(found.direction for found in results):
        mine = [found for found in results if found.direction == way]
        show_evaluated(mine[0]) if len(mine) == 1 else show_side_by_side(mine)


def show_means(means: dict[str, dict[str, float]]) -> None:
    """The mean of both directions, where systems were evaluated both ways."""
    if means:
        metrics = list(next(iter(means.values())))
        rows: list[list[object]] = [[metric, *[number(of[metric]) for of in means.values()]] for metric in metrics]
        terminal.table("Mean of both ways", ["metric", *means], rows)


def show_on_sets(results: Sequence[Evaluated], metric: str) -> None:
    """A row per system, a column per set: one metric, with its interval."""
    sets = list(dict.fromkeys(str(found.set["name"]) for found in results))
    rows: dict[str, list[object]] = {}
    chance: list[object] = ["chance"]
    for found in results:
        row = found.figures.set_index("metric").loc[metric]
        if not rows or found.system["name"] == next(iter(rows)):
            chance.append(f"{row['chance']:.3f}")
        cell = f"{row['value']:.3f} {between(row['low'], row['high'], '.3f')}"
        rows.setdefault(str(found.system["name"]), [found.system["name"]]).append(cell)
    terminal.table(f"{metric} and its 95% interval", ["baseline", *sets], [*rows.values(), chance])


def show_evaluated(found: Evaluated) -> None:
    """All figures of one system."""
    rows: list[list[object]] = [
        [
            row.metric,
            number(row.value),
            between(row.low, row.high),
            number(row.at_most),
            number(row.chance),
            number(row.detectable),
        ]
        for row in found.figures.itertuples()
    ]
    columns = ["metric", "figure", "95% interval", "at most", "chance", "detectable"]
    terminal.table(_title(found), columns, rows)
    for note in _notes(found):
        terminal.out.print(note, markup=False, soft_wrap=True)
    show_warnings(found)


def show_side_by_side(systems: Sequence[Evaluated]) -> None:
    """A row per system."""
    names = systems[0].metrics
    shown = [name for name in _SIDE_BY_SIDE if name in names] or names[:3]
    rows: list[list[object]] = []
    for name, found in zip(named_apart(systems), systems, strict=True):
        of = found.figures.set_index("metric")
        figures = [
            f"{of['value'][metric]:.3f} {between(of['low'][metric], of['high'][metric], '.3f')}" for metric in shown
        ]
        rows.append([name, *figures])
    chance = systems[0].figures.set_index("metric")["chance"]
    if chance[shown].notna().all():
        rows.append(["chance", *[f"{chance[metric]:.3f}" for metric in shown]])
    title = f"{_name(systems[0].set)}: {len(systems[0].per_query):,} queries, {_WAYS[systems[0].direction]}"
    terminal.table(title, ["system", *shown], rows)
    for found in systems:
        if found.system["kind"] != "baseline" or found.system["name"] not in _BY_DESIGN:
            show_warnings(found, of=f"{found.system['name']}: ")


def show_warnings(found: Evaluated, of: str = "") -> None:
    """Metrics with the same thing said of them share a line."""
    told: dict[tuple[str, str], list[str]] = {}
    for warning in found.warnings:
        detail = "" if warning.code == "like_chance" else warning.detail
        told.setdefault((warning.code, detail), []).append(warning.metric)
    for (code, detail), metrics in told.items():
        about = f" {', '.join(filter(None, metrics))}" if any(metrics) else ""
        said = detail or "the interval reaches down to what a random order gets"
        terminal.err.print(f"warning: {of}{code.replace('_', ' ')}{about}: {said}", markup=False, soft_wrap=True)


def show_compared(table: pd.DataFrame) -> None:
    """A table per pair of systems, with a row per metric."""
    columns = ["metric", "difference", "95% interval", "p (Holm)", "win / tie / loss", "detectable"]
    for (one, other), mine in table.groupby(["one", "other"], sort=False):
        rows: list[list[object]] = [
            [
                row.metric,
                f"{row.difference:+.4f}",
                between(row.low, row.high, "+.4f"),
                _p(row.p_holm),
                f"{row.wins:,} / {row.ties:,} / {row.losses:,}",
                number(row.detectable),
            ]
            for row in mine.itertuples()
        ]
        terminal.table(f"{one} less {other}", columns, rows)


def show_different(found: Compared, texts: dict[str, str], most: int) -> None:
    """The queries on which two systems differ most by the first metric."""
    metric = str(found.table["metric"].iloc[0])
    rows: list[list[object]] = [
        [
            texts.get(name, name),
            number(found.one.per_query[metric][name]),
            number(found.other.per_query[metric][name]),
            f"{found.differences[name]:+.4f}",
        ]
        for name in found.different[:most]
    ]
    if rows:
        columns = ["query", str(found.one.system["name"]), str(found.other.system["name"]), "difference"]
        terminal.table(f"Queries that differ most by {metric}", columns, rows)


def number(value: Any) -> str:
    """Four decimals; nothing where it is not known."""
    return "" if value is None or math.isnan(value) else f"{value:.4f}"


def between(low: float, high: float, form: str = ".4f") -> str:
    """An interval."""
    return f"[{low:{form}}, {high:{form}}]"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _name(about: dict[str, Any]) -> str:
    return f"{about['name']}/v{about['version']}" if about["version"] else str(about["title"])


def _title(found: Evaluated) -> str:
    system = f"{found.system['kind']} {found.system['name']}"
    return f"{system} on {_name(found.set)}: {len(found.per_query):,} queries, {_WAYS[found.direction]}"


def _notes(found: Evaluated) -> list[str]:
    """How much of what came back is judged, what an index loses, what a threshold brings."""
    told = []
    if judged := found.counts["judged"]:
        shares = [f"{share:.1%} of the first {name.partition('@')[2]}" for name, share in judged.items()]
        told.append(f"judged: {', '.join(shares)} (at most: if the others were right)")
    if (search := found.counts.get("search")) and search["index"] != "exact":
        told.append(
            f"index {search['index']} misses {search['missed_of_exact']:.2%} of the exact {search['results']} nearest "
            f"(measured on {search['measured_on_queries']:,} queries)"
        )
    for wanted, cut in found.thresholds.items():
        if cut is None:
            told.append(f"no score is a threshold with a precision of {wanted}")
        else:
            told.append(
                f"shown from a score of {cut.threshold:.4f}: precision {cut.precision:.3f} ({wanted} wanted), recall "
                f"{cut.recall:.3f}, nothing shown for {cut.queries_empty:,} queries"
            )
    return told


def show_stability(table: pd.DataFrame, means: dict[str, dict[str, list[float]]], names: tuple[str, str]) -> None:
    """A row per metric, and what each system got on both sets by the first of them."""
    rows: list[list[object]] = [
        [
            row.metric,
            number(row.correlation) or "none told apart",
            f"{row.told_apart_one} of {row.pairs}",
            f"{row.told_apart_other} of {row.pairs}",
            row.told_apart_swapped,
        ]
        for row in table.itertuples()
    ]
    columns = ["metric", "rank correlation", f"told apart by {names[0]}", f"by {names[1]}", "the other way round"]
    terminal.table(f"{table['systems'].iloc[0]} systems on both sets", columns, rows)
    metric = str(table["metric"].iloc[0])
    figures: list[list[object]] = [[name, *[number(value) for value in of[metric]]] for name, of in means.items()]
    terminal.table(metric, ["system", *names], figures)
