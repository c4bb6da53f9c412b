"""The leaderboard of a set as one HTML page without scripts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from querytruth.evaluation.evaluation_result import find_other_queries
from querytruth.review.page_parts import PAGE_TEXTS, render_template

BOARD_TEXTS: dict[str, dict[str, str]] = PAGE_TEXTS["board"]
_MOST_VALUES = 20  # of a slice
_OPTIONAL = ("identity", "latency", "missing", "ties", "warnings")  # columns that are left out where all are empty
_TemplateData = dict[str, Any]


def format_rank(best: int | None, worst: int | None) -> str:
    """Return a rank interval: `2-4`, or `2`; "" for the floor and the ceiling, which have no rank."""
    return "" if best is None else str(best) if best == worst else f"{best}-{worst}"


def render_leaderboard(board: Mapping[str, Any], language: str = "en") -> str:
    """Return the page of a board (flows/leaderboard.py) in en or zh."""
    about, systems = board["set"], board["systems"]
    rows = [_describe(one) for one in systems]
    return render_template(
        "leaderboard.html",
        t=BOARD_TEXTS[language],
        language=language,
        name=f"{about['name']}/v{about['version']}",
        digest=about["content_digest"],
        metric=board["metric"],
        queries=board["queries"],
        of_set=find_other_queries(board),
        groups=[names for names in board["groups"] if len(names) > 1],
        systems=rows,
        has={key: any(any(one[key]) if key == "latency" else one[key] for one in rows) for key in _OPTIONAL},
        slices=_tabulate_slices(systems),
        most_values=_MOST_VALUES,
    )


def _describe(one: Mapping[str, Any]) -> _TemplateData:
    latency, conditions = one["latency_ms"] or {}, one["conditions"]
    ties = one["queries_with_a_tie_at_the_cut"]
    return {
        "name": one["name"],
        "is_bound": one["best_rank"] is None,
        "kind": " ".join(filter(None, (one["kind"], conditions.get("type")))),
        "rank": format_rank(one["best_rank"], one["worst_rank"]),
        "value": f"{one['mean']:.4f}",
        "low": "" if one["low"] is None else f"{one['low']:.4f}",
        "high": "" if one["low"] is None else f"{one['high']:.4f}",
        "bounds": [f"{one[end]:.4f}" for end in ("at_least", "at_most")] if one["at_most"] > one["at_least"] else None,
        "identity": str(conditions.get("revision") or conditions.get("sha256") or "")[:12],
        "latency": ["" if latency.get(name) is None else f"{latency[name]:.1f}" for name in ("p50", "p95", "p99")],
        "missing": one["queries_missing"],
        "ties": ", ".join(f"@{k} {count:,}" for k, count in ties.items() if count),
        "warnings": ", ".join(one["warnings"]).replace("_", " "),
    }


def _tabulate_slices(systems: Sequence[Mapping[str, Any]]) -> list[_TemplateData]:
    """Return a row per slice and value that all systems have, with the systems' means in their order; of each slice the
    values with the most queries."""
    means = [{(row["slice"], row["value"]): row for row in one["slices"]} for one in systems]
    common = [(key, row) for key, row in means[0].items() if all(key in mine for mine in means)]
    counted: Counter[str] = Counter()
    largest = set()
    for key, _ in sorted(common, key=lambda pair: (-pair[1]["queries"], pair[0])):
        counted[key[0]] += 1
        if counted[key[0]] <= _MOST_VALUES:
            largest.add(key)
    return [
        {"slice": key[0], "value": key[1], "queries": row["queries"], "means": [mine[key]["mean"] for mine in means]}
        for key, row in common
        if key in largest
    ]
