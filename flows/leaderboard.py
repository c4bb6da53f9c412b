"""Systems beside each other: the board of a version."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.text_formats import encode_csv
from querytruth.backends.steps import step
from querytruth.errors import UserError, suggest_choice, translate_write_errors
from querytruth.evaluation import encoded_sets, judged_sets, leaderboard, statistics, steps
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.result_types import BOUNDING_BASELINES, ResultFile
from querytruth.review.board_pages import render_leaderboard
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import canonical_json

LEADERBOARD_STAGE = "leaderboard"
_USUAL_METRICS = ("ndcg@10", "hit@1")
_CSV_COLUMNS = (
    *("system", "kind", "metric", "value", "low", "high", "at_least", "at_most", "best_rank", "worst_rank"),
    *("p50", "p95", "p99"),
)


@step("leaderboard")
def build_leaderboard(path: Path, metric: str | None = None) -> dict[str, Any]:
    """Return the board of the results beside the version at `path`, on the queries that all of them have: systems by
    the metric with rank intervals, groups that the set cannot tell apart, slices, latency and conditions. Raises
    UserError without results, and for a metric that not all have."""
    results = steps.load_stored_results(path)
    if not results:
        next_step = f"run querytruth evaluate {path.parent.name} --baseline lexical"
        raise UserError(LEADERBOARD_STAGE, f"{path.parent.name}/{path.name}", "has no evaluation results", next_step)
    chosen = _choose_metric(results, metric)
    tables = {name: table for name, (_, table) in results.items()}
    first = next(iter(tables.values())).index
    common = first[[all(name in table.index for table in tables.values()) for name in first]]
    stored = set_files.read_set(path, ("queries", "qrels")).tables
    clusters = statistics.align_clusters(judged_sets.cluster_queries(stored.queries), common)
    figures = {name: table.loc[common, chosen].to_numpy() for name, table in tables.items()}
    limits = {
        name
        for name, (data, _) in results.items()
        if data["system"]["kind"] == "baseline" and name in BOUNDING_BASELINES
    }
    competing = {name: values for name, values in figures.items() if name not in limits}
    described = {
        name: _describe_system(data, chosen, path.parent.parent / ".vectors") for name, (data, _) in results.items()
    }
    bounds = {name: (one["at_least"], one["at_most"]) for name, one in described.items()}
    about, counts = (next(iter(results.values()))[0][part] for part in ("set", "counts"))
    is_pooled = judged_sets.is_pooled(stored.qrels)
    ranks, groups = leaderboard.rank_systems(competing, clusters=clusters, bounds=bounds if is_pooled else {})
    listed = [asdict(rank) | described[rank.name] for rank in ranks]
    for name in limits:  # the floor and the ceiling stand at their figures, without a rank
        unranked = {"name": name, "mean": float(figures[name].mean()), "best_rank": None, "worst_rank": None}
        listed.append(unranked | described[name])
    return {
        "schema_version": 1,
        "set": about,
        "metric": chosen,
        "queries": len(common),
        "queries_of_set": counts.get("queries_of_set"),
        "systems": sorted(listed, key=lambda one: (-one["mean"], one["name"])),
        "groups": groups,
    }


def _choose_metric(results: dict[str, Any], metric: str | None) -> str:
    names = [[row["metric"] for row in data["figures"]] for data, _ in results.values()]
    common = [name for name in names[0] if all(name in others for others in names)]
    wanted = [str(parse_metric(metric))] if metric is not None else [*_USUAL_METRICS, *common]
    chosen = next((name for name in wanted if name in common), None)
    if chosen is None:
        next_step = suggest_choice(wanted[0], common) if common else "evaluate the systems with a common metric"
        raise UserError(LEADERBOARD_STAGE, str(metric or "metric"), "is missing from some results", next_step)
    return chosen


def _describe_system(data: ResultFile, metric: str, vectors: Path) -> dict[str, Any]:
    """Return what a result states besides the rank: the interval, slices, latency, cost of encoding and conditions."""
    cost = encoded_sets.read_encoding_cost(vectors, data["system"])
    figure = next(row for row in data["figures"] if row["metric"] == metric)
    return {
        "kind": data["system"]["kind"],
        "low": figure["low"],
        "high": figure["high"],
        "at_least": figure.get("at_least"),
        "at_most": figure.get("at_most"),
        "slices": [row for row in data["slices"] if row["metric"] == metric],
        "latency_ms": data["counts"].get("latency_ms"),
        "encoding": cost and {name: value for name, value in cost.items() if not math.isnan(value)},
        "queries_missing": data["counts"]["queries_missing"],
        "queries_with_a_tie_at_the_cut": data["counts"]["queries_with_a_tie_at_the_cut"],
        "warnings": sorted({warning["code"] for warning in data["warnings"]}),
        "conditions": data["system"],
    }


def write_leaderboard(board: dict[str, Any], page: Path, language: str = "en") -> list[Path]:
    """Write the page in en or zh, and the board as JSON and CSV beside it. Return the paths.
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
