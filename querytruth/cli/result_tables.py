"""Figures of evaluations and comparisons as tables in the terminal, with their warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from querytruth import terminal
from querytruth.evaluation.evaluation_result import EvaluationResult, SystemComparison, describe_queries
from querytruth.evaluation.result_types import BOUNDING_BASELINES
from querytruth.evaluation.system_differences import make_unique_names
from querytruth.sets.manifest_notes import describe_certificate

if TYPE_CHECKING:
    import pandas as pd


_SIDE_BY_SIDE = ("hit@1", "hit@10", "ndcg@10")  # of several systems, where evaluated
_MAX_LEFT_OUT = 10  # ids; the result's folder lists all
_DIRECTION_NAMES = {"text_to_image": "text to image", "image_to_text": "image to text"}


def show_results(results: Sequence[EvaluationResult]) -> None:
    """Print one system in full, or several side by side, for each direction."""
    for direction in dict.fromkeys(result.direction for result in results):
        direction_results = [result for result in results if result.direction == direction]
        if len(direction_results) == 1:
            show_system_result(direction_results[0])
        else:
            show_system_comparison(direction_results)


def show_direction_means(means: dict[str, dict[str, float]]) -> None:
    """Print the mean of both directions, where systems were evaluated in both."""
    if means:
        metrics = list(next(iter(means.values())))
        rows: list[list[object]] = [
            [metric, *[format_number(of[metric]) for of in means.values()]] for metric in metrics
        ]
        terminal.print_table("Mean of both directions", ["metric", *means], rows)


def show_metric_by_set(results: Sequence[EvaluationResult], metric: str) -> None:
    """Print one metric with its interval: a row per system, a column per set."""
    sets = list(dict.fromkeys(str(result.set["name"]) for result in results))
    rows: dict[str, list[object]] = {}
    chance: list[object] = ["chance"]
    for result in results:
        row = result.figures.set_index("metric").loc[metric]
        if not rows or result.system["name"] == next(iter(rows)):
            chance.append(f"{row['chance']:.3f}")
        cell = f"{row['value']:.3f} {format_interval(row['low'], row['high'], '.3f')}"
        rows.setdefault(str(result.system["name"]), [result.system["name"]]).append(cell)
    terminal.print_table(f"{metric} and its 95% interval", ["baseline", *sets], [*rows.values(), chance])


def show_leaked_differences(leaked: pd.DataFrame) -> None:
    """Print leaked queries against clean ones by the first metric, where the overlap is known."""
    if leaked.empty:
        return
    first = leaked[leaked["metric"] == leaked["metric"].iloc[0]]
    rows: list[list[object]] = [
        [
            *(row.system, f"{row.leaked:.4f}", f"{row.clean:.4f}", f"{row.difference:+.4f}"),
            *(format_interval(row.low, row.high), f"{row.p:.4f}"),
        ]
        for row in first.itertuples()
    ]
    counts = f"{first['queries_leaked'].iloc[0]:,} leaked, {first['queries_clean'].iloc[0]:,} clean queries"
    columns = ["system", "leaked", "clean", "difference", "95% interval", "p"]
    terminal.print_table(f"{first['metric'].iloc[0]}: {counts}", columns, rows)


def show_phrasing_spreads(phrasings: pd.DataFrame) -> None:
    """Print how far two systems differ between phrasings of a question, by the first metric."""
    if phrasings.empty:
        return
    first = phrasings[phrasings["metric"] == phrasings["metric"].iloc[0]]
    rows: list[list[object]] = [
        [
            *(f"{row.one} minus {row.other}", f"{row.spread_one:.4f}", f"{row.spread_other:.4f}"),
            *(f"{row.difference:+.4f}", format_interval(row.low, row.high), f"{row.p_holm:.4f}"),
        ]
        for row in first.itertuples()
    ]
    title = f"{first['metric'].iloc[0]}: best minus worst wording of {first['questions'].iloc[0]:,} questions"
    terminal.print_table(title, ["systems", "first", "second", "difference", "95% interval", "p (Holm)"], rows)


def show_slices(results: Sequence[EvaluationResult]) -> None:
    """Print the slices of each system by its first metrics."""
    for result in results:
        shown = [name for name in _SIDE_BY_SIDE if name in result.metrics] or result.metrics[:3]
        rows: list[list[object]] = []
        for (aspect, value), part in result.slices.groupby(["slice", "value"], sort=False):
            by_metric = part.set_index("metric").reindex(shown)
            figures = [f"{row.mean:.3f} {format_interval(row.low, row.high, '.3f')}" for row in by_metric.itertuples()]
            rows.append([f"{aspect}={value}", f"{by_metric['queries'].iloc[0]:,.0f}", *figures])
        terminal.print_table(str(result.system["name"]), ["slice", "queries", *shown], rows)


def show_system_result(result: EvaluationResult) -> None:
    """Print all figures of one system."""
    rows: list[list[object]] = [
        [row.metric, format_number(row.value), format_interval(row.low, row.high)]
        + [format_number(value) for value in (row.at_least, row.at_most, row.chance, row.detectable)]
        for row in result.figures.itertuples()
    ]
    columns = ["metric", "figure", "95% interval", "at least", "at most", "chance", "detectable"]
    title = f"{result.system['kind']} {result.system['name']} on {_format_scope(result)}"
    terminal.print_table(title, columns, rows)
    for note in _notes(result):
        terminal.say(note)
    show_warnings(result)
    if len(left_out := result.left_out):
        shown = [[row.kind, row.id, f"{row.rows:,}", row.known_in] for row in left_out.head(_MAX_LEFT_OUT).itertuples()]
        rest = f" (first {_MAX_LEFT_OUT} of {len(left_out):,})" if len(left_out) > _MAX_LEFT_OUT else ""
        terminal.print_table(f"Ids of the run that are not in the set{rest}", ["", "id", "rows", "known in"], shown)


def show_system_comparison(systems: Sequence[EvaluationResult]) -> None:
    """Print a row per system."""
    names = systems[0].metrics
    shown = [name for name in _SIDE_BY_SIDE if name in names] or names[:3]
    rows: list[list[object]] = []
    for name, result in zip(make_unique_names(systems), systems, strict=True):
        by_metric = result.figures.set_index("metric")
        figures = (by_metric.loc[metric] for metric in shown)
        rows.append([name, *(_format_figure(row) for row in figures)])
    chance = systems[0].figures.set_index("metric")["chance"]
    if chance[shown].notna().all():
        rows.append(["chance", *[f"{chance[metric]:.3f}" for metric in shown]])
    terminal.print_table(_format_scope(systems[0]), ["system", *shown], rows)
    for result in systems:
        if result.system["kind"] != "baseline" or result.system["name"] not in BOUNDING_BASELINES:
            show_warnings(result, prefix=f"{result.system['name']}: ")


def _format_figure(row: Any) -> str:
    """Return a figure, its interval and, where judgments are missing, its bounds."""
    text = f"{row['value']:.3f} {format_interval(row['low'], row['high'], '.3f')}"
    is_open = row["at_most"] - row["at_least"] >= 0.0005
    return f"{text}, {row['at_least']:.3f} to {row['at_most']:.3f}" if is_open else text


def show_warnings(result: EvaluationResult, prefix: str = "") -> None:
    """Print the warnings; metrics with the same warning share a line."""
    metrics_by_warning: dict[tuple[str, str], list[str]] = {}
    for warning in result.warnings:
        detail = "" if warning.code == "like_chance" else warning.detail
        metrics_by_warning.setdefault((warning.code, detail), []).append(warning.metric)
    for (code, detail), metrics in metrics_by_warning.items():
        about = f" {', '.join(filter(None, metrics))}" if any(metrics) else ""
        message = detail or "the interval includes the value of a random order"
        terminal.report(f"warning: {prefix}{code.replace('_', ' ')}{about}: {message}")


def show_pairwise_differences(table: pd.DataFrame) -> None:
    """Print a table per pair of systems, with a row per metric."""
    columns = ["metric", "difference", "95% interval", "p (Holm)", "win / tie / loss", "detectable"]
    for (one, other), pair_rows in table.groupby(["one", "other"], sort=False):
        rows: list[list[object]] = [
            [
                row.metric,
                f"{row.difference:+.4f}",
                format_interval(row.low, row.high, "+.4f"),
                "< 0.001" if row.p_holm < 0.001 else f"{row.p_holm:.3f}",
                f"{row.wins:,} / {row.ties:,} / {row.losses:,}",
                format_number(row.detectable),
            ]
            for row in pair_rows.itertuples()
        ]
        terminal.print_table(f"{one} minus {other}", columns, rows)


def show_most_different_queries(comparison: SystemComparison, texts: dict[str, str], max_rows: int) -> None:
    """Print the queries on which two systems differ most by the first metric."""
    metric = str(comparison.table["metric"].iloc[0])
    sides = (comparison.first, comparison.second)
    rows: list[list[object]] = []
    for name in comparison.most_different_queries[:max_rows]:
        figures = (format_number(side.per_query[metric][name]) for side in sides)
        rows.append([texts.get(name, name), *figures, f"{comparison.differences[name]:+.4f}"])
    if rows:
        columns = ["query", *(str(side.system["name"]) for side in sides), "difference"]
        terminal.print_table(f"Queries that differ most by {metric}", columns, rows)


def format_number(value: Any) -> str:
    """Return four decimals, "" where the value is unknown."""
    return "" if value is None or math.isnan(value) else f"{value:.4f}"


def format_interval(low: float, high: float, form: str = ".4f") -> str:
    """Return an interval in brackets."""
    return f"[{low:{form}}, {high:{form}}]"


def _format_scope(result: EvaluationResult) -> str:
    queries = describe_queries(result.counts, len(result.per_query))
    return f"{result.set_name}, {_DIRECTION_NAMES[result.direction]}; {queries}"


def describe_traffic(result: EvaluationResult) -> str:
    """Return the first metric weighted back to the log that the queries are a sample of; empty for other sets."""
    if not len(result.traffic):
        return ""
    metric = result.traffic["metric"].iloc[0]
    means = result.traffic[result.traffic["metric"] == metric].itertuples()
    parts = [f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}] over {row.over}" for row in means]
    return f"{metric} of the whole log: {', '.join(parts)}"


def _notes(result: EvaluationResult) -> list[str]:
    """Return lines on judged results, on the results an index loses, and on thresholds."""
    notes = []
    if certificate := result.set.get("certificate"):
        notes.append(f"certified: {describe_certificate(certificate)}")
    if judged := result.counts["judged"]:
        shares = [f"{share:.1%} of the first {name.partition('@')[2]}" for name, share in judged.items()]
        notes.append(
            f"judged: {', '.join(shares)} (at least / at most: value if all other results were not relevant / relevant)"
        )
    if copies := result.counts.get("results_counted_as_their_representative"):
        notes.append(f"{copies:,} results are near-duplicates of a gallery image and count as that image, once")
    if (search := result.counts.get("search")) and search["index"] != "exact":
        notes.append(
            f"index {search['index']} misses {search['missed_of_exact']:.2%} of the {search['results']} exact "
            f"nearest images (measured on {search['measured_on_queries']:,} queries)"
        )
    if traffic := describe_traffic(result):
        notes.append(traffic)
    if absent := result.counts.get("absent"):
        words = f"{absent['queries']:,} queries have no answer in the gallery and are excluded from all means"
        if "auroc" in absent:
            empty = [f"{share:.0%} show nothing at {wanted}" for wanted, share in absent["shows_nothing"].items()]
            words += (
                f": their best scores are lower than those of others in {absent['auroc']:.0%} of the pairs (95%: "
                f"{absent['low']:.0%} to {absent['high']:.0%}){'; ' if empty else ''}{', '.join(empty)}"
            )
        notes.append(words)
    if len(result.phrasings):
        row = result.phrasings.iloc[0]
        notes.append(
            f"{row['metric']} of {row['questions']:,} questions with several wordings: worst {row['worst']:.3f}, "
            f"mean {row['mean']:.3f}, best {row['best']:.3f}"
        )
    for target_precision, cut in result.thresholds.items():
        if cut is None:
            notes.append(f"no score threshold reaches a precision of {target_precision}")
        else:
            notes.append(
                f"threshold {cut.threshold:.4f}: precision {cut.precision:.3f} (target {target_precision}), recall "
                f"{cut.recall:.3f}, no results for {cut.queries_empty:,} queries"
            )
    return notes
