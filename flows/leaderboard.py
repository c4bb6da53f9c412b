"""Systems beside each other: the board of a version, and the order of systems on two sets."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.text_formats import encode_csv
from querytruth.backends.steps import step
from querytruth.errors import UserError, suggest_choice, translate_write_errors
from querytruth.evaluation import (
    encoded_sets,
    evaluation_result,
    judged_sets,
    leaderboard,
    query_origins,
    statistics,
    steps,
)
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.result_types import ResultFile
from querytruth.records import list_rows
from querytruth.review.board_pages import render_leaderboard
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import canonical_json

MeansBySystem = dict[str, dict[str, list[float]]]
LEADERBOARD_STAGE = "leaderboard"
_USUAL_METRICS = ("ndcg@10", "hit@1")
_CSV_COLUMNS = ("system", "kind", "metric", "value", "low", "high", "best_rank", "worst_rank", "p50", "p95", "p99")


def compare_set_stability(
    first_set: Path,
    second_set: Path,
    metrics: Sequence[str] | None = None,
    direction: str = evaluation_result.TEXT_TO_IMAGE,
) -> tuple[pd.DataFrame, MeansBySystem]:
    """Returns the table of `measure_stability` for two versions of sets, and by system and metric its mean on each.
    Systems are matched by the names of their results' folders, and compared on the queries that all of a set's results
    have     (those of another version's runs lack some). Without `metrics`, the metrics that all results have."""
    results = [steps.load_stored_results(path, direction) for path in (first_set, second_set)]
    names = sorted(results[0].keys() & results[1].keys())
    if len(names) < 2:
        sets = f"{first_set.parent.name}/{first_set.name} and {second_set.parent.name}/{second_set.name}"
        reason = f"have {len(names)} evaluated systems in common, at least two are needed"
        raise UserError("stability", sets, reason, "evaluate the same systems on both")
    figures = [_on_common_queries({name: set_results[name][1] for name in names}) for set_results in results]
    metrics_of_results = [
        [figure["metric"] for figure in set_results[name][0]["figures"]] for set_results in results for name in names
    ]
    common_metrics = [metric for metric in metrics_of_results[0] if all(metric in mine for mine in metrics_of_results)]
    chosen = common_metrics if metrics is None else [str(parse_metric(name)) for name in metrics]
    if lacking := [name for name in chosen if name not in common_metrics]:
        next_step = f"choose from {', '.join(common_metrics) or 'none'}"
        raise UserError("stability", lacking[0], "is not in all results", next_step)
    clusters = _clusters(first_set, figures[0], direction), _clusters(second_set, figures[1], direction)
    table = leaderboard.measure_stability(figures[0], figures[1], chosen, clusters=clusters)
    means = {name: {m: [float(mine[name][m].mean()) for mine in figures] for m in chosen} for name in names}
    return table, means


def _on_common_queries(figures: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    first = next(iter(figures.values())).index
    common = first[[all(name in one.index for one in figures.values()) for name in first]]
    return {system: one.loc[common] for system, one in figures.items()}


def _clusters(path: Path, figures: dict[str, pd.DataFrame], direction: str) -> Any:
    queries = (
        set_files.read_set(path, ("queries",)).tables.queries if direction == evaluation_result.TEXT_TO_IMAGE else None
    )
    return statistics.align_clusters(judged_sets.cluster_queries(queries), next(iter(figures.values())).index)


@step("leaderboard")
def build_leaderboard(path: Path, metric: str | None = None) -> dict[str, Any]:
    """Returns the board of the results beside the version at `path`, on the queries that all of them have: systems by
    the metric with rank intervals, groups that the set cannot tell apart, slices, latency and conditions. Raises
    UserError without results, and for a metric that not all have."""
    results = steps.load_stored_results(path)
    if not results:
        next_step = f"querytruth evaluate {path.parent.name} --baseline lexical"
        raise UserError(LEADERBOARD_STAGE, f"{path.parent.name}/{path.name}", "has no evaluated system", next_step)
    chosen = _choose_metric(results, metric)
    tables = {name: table for name, (_, table) in results.items()}
    first = next(iter(tables.values())).index
    common = first[[all(name in table.index for table in tables.values()) for name in first]]
    queries = set_files.read_set(path, ("queries",)).tables.queries
    clusters = statistics.align_clusters(judged_sets.cluster_queries(queries), common)
    figures = {name: table.loc[common, chosen].to_numpy() for name, table in tables.items()}
    board = leaderboard.rank_systems(figures, clusters=clusters)
    about = next(iter(results.values()))[0]["set"]
    return {
        "schema_version": 1,
        "set": about,
        "metric": chosen,
        "queries": len(common),
        "systems": [
            asdict(rank) | _describe_system(results[rank.name][0], chosen, path.parent.parent / ".vectors")
            for rank in board.ranks
        ],
        "groups": board.groups,
        "origins": _compare_origins(
            {name: table.loc[common] for name, table in tables.items()}, queries, chosen, clusters
        ),
    }


def _compare_origins(
    figures: dict[str, pd.DataFrame], queries: pd.DataFrame, metric: str, clusters: Any
) -> dict[str, Any] | None:
    """How far made queries move figures and order against typed ones; None where the set has one kind alone."""
    if (origins := query_origins.find_origins(queries)) is None:
        return None
    moves = query_origins.measure_moves(figures, origins, [metric], clusters=clusters)
    return {
        "moves": list_rows(moves),
        "order": query_origins.measure_order(figures, origins, metric, clusters=clusters),
    }


def _choose_metric(results: dict[str, Any], metric: str | None) -> str:
    names = [[row["metric"] for row in data["figures"]] for data, _ in results.values()]
    common = [name for name in names[0] if all(name in others for others in names)]
    wanted = [str(parse_metric(metric))] if metric is not None else [*_USUAL_METRICS, *common]
    chosen = next((name for name in wanted if name in common), None)
    if chosen is None:
        next_step = suggest_choice(wanted[0], common) if common else "evaluate the systems with one metric in common"
        raise UserError(LEADERBOARD_STAGE, str(metric or "metric"), "is not in all results", next_step)
    return chosen


def _describe_system(data: ResultFile, metric: str, vectors: Path) -> dict[str, Any]:
    """What a result states besides the rank: the interval, slices, latency, cost of encoding and conditions."""
    cost = encoded_sets.read_encoding_cost(vectors, data["system"])
    figure = next(row for row in data["figures"] if row["metric"] == metric)
    return {
        "kind": data["system"]["kind"],
        "low": figure["low"],
        "high": figure["high"],
        "slices": [row for row in data["slices"] if row["metric"] == metric],
        "latency_ms": data["counts"].get("latency_ms"),
        "encoding": cost and {name: value for name, value in cost.items() if not math.isnan(value)},
        "queries_missing": data["counts"]["queries_missing"],
        "queries_with_a_tie_at_the_cut": data["counts"]["queries_with_a_tie_at_the_cut"],
        "warnings": sorted({warning["code"] for warning in data["warnings"]}),
        "conditions": data["system"],
    }


def write_leaderboard(board: dict[str, Any], page: Path, language: str = "en") -> list[Path]:
    """Writes the page in en or zh, and the board as JSON and CSV beside it. Returns the paths.
    Raises UserError."""
    rows = []
    for one in board["systems"]:
        latency = one["latency_ms"] or {}
        named = {"system": one["name"], "metric": board["metric"], "value": one["mean"], **one, **latency}
        rows.append([named.get(column, "") for column in _CSV_COLUMNS])
    contents = {
        page: render_leaderboard(board, language).encode(),
        page.with_suffix(".json"): canonical_json(board),
        page.with_suffix(".csv"): encode_csv(_CSV_COLUMNS, rows),
    }
    with translate_write_errors(LEADERBOARD_STAGE, page, "or give another --to"):
        page.parent.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            write_atomically(path, content)
    return list(contents)
