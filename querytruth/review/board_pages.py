"""The leaderboard of a set as one HTML page without scripts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from querytruth.review.page_parts import PAGE_TEXTS, render_template
from querytruth.review.vega_lite import draw_intervals, draw_trend

BOARD_TEXTS: dict[str, dict[str, str]] = PAGE_TEXTS["board"]
_MOST_VALUES = 20  # of a slice
_TemplateData = dict[str, Any]
_SHOWN = ("ndcg@10", "hit@1", "hit@10", "rr@10")
_MOST_EVALUATIONS, _MOST_METRICS = 400, 4
_LATENCY = "latency"
_Entry = Mapping[str, Any]


def format_rank(best: int, worst: int) -> str:
    """Returns a rank interval: `2-4`, or `2`."""
    return str(best) if best == worst else f"{best}-{worst}"


def render_leaderboard(board: Mapping[str, Any], language: str = "en") -> str:
    """Returns the page of a board (flows/leaderboard.py) in en or zh."""
    about, systems = board["set"], board["systems"]
    return render_template(
        "leaderboard.html",
        t=BOARD_TEXTS[language],
        language=language,
        name=f"{about['name']}/v{about['version']}",
        digest=about["content_digest"],
        metric=board["metric"],
        queries=board["queries"],
        groups=[names for names in board["groups"] if len(names) > 1],
        systems=[_describe(one) for one in systems],
        plot=draw_intervals([{**one, "value": one["mean"]} for one in systems], board["metric"]),
        slices=_tabulate_slices(systems),
        most_values=_MOST_VALUES,
        origins=(board.get("origins") or {}).get("moves"),
        order=(board.get("origins") or {}).get("order"),
    )


def _describe(one: Mapping[str, Any]) -> _TemplateData:
    latency, conditions = one["latency_ms"] or {}, one["conditions"]
    ties = one["queries_with_a_tie_at_the_cut"]
    return {
        "name": one["name"],
        "kind": " ".join(filter(None, (one["kind"], conditions.get("type")))),
        "rank": format_rank(one["best_rank"], one["worst_rank"]),
        "value": f"{one['mean']:.4f}",
        "low": "" if one["low"] is None else f"{one['low']:.4f}",
        "high": "" if one["low"] is None else f"{one['high']:.4f}",
        "identity": str(conditions.get("revision") or conditions.get("sha256") or "")[:12],
        "latency": [_format_time(latency.get(name)) for name in ("p50", "p95", "p99")],
        "missing": one["queries_missing"],
        "ties": ", ".join(f"@{k} {count:,}" for k, count in ties.items() if count),
        "warnings": ", ".join(one["warnings"]).replace("_", " "),
    }


def _format_time(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:.1f}"


def _tabulate_slices(systems: Sequence[Mapping[str, Any]]) -> list[_TemplateData]:
    """A row per slice and value that all systems have, with the systems' means in their order; of each slice the values
    with the most queries."""
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


def render_history(name: str, entries: Sequence[_Entry], metric: str, language: str = "en") -> str:
    """Returns the page of a set's evaluations, the oldest first (querytruth/evaluation/steps.py), in en or zh.
    `metric` is shown first."""
    shown = entries[-_MOST_EVALUATIONS:]
    known = {one for entry in shown for one in entry["figures"]}
    metrics = [one for one in dict.fromkeys((metric, *_SHOWN)) if one in known][:_MOST_METRICS]
    by_system = {one: [entry for entry in shown if entry["system"] == one] for one in {e["system"] for e in shown}}
    return render_template(
        "history.html",
        t=BOARD_TEXTS[language],
        language=language,
        name=name,
        digest="",
        total=len(entries),
        versions=len({entry["content_digest"] for entry in entries}),
        metrics=metrics,
        systems=[{"name": one, "plots": _plots(mine, metrics)} for one, mine in sorted(by_system.items())],
        rows=[_row(entry, metrics) for entry in reversed(shown)],
    )


def _row(entry: _Entry, metrics: Sequence[str]) -> _TemplateData:
    figures = [entry["figures"].get(metric) for metric in metrics]
    latency = _measure(entry, _LATENCY)
    return {
        "at": entry["at"][:16].replace("T", " "),
        "system": entry["system"],
        "version": entry["version"],
        "digest": str(entry["content_digest"])[:12],
        "queries": entry["queries"],
        "figures": ["" if one is None else f"{one[0]:.4f}" for one in figures],
        "latency": "" if latency is None else f"{latency[0]:.1f}",
    }


def _plots(entries: Sequence[_Entry], metrics: Sequence[str]) -> list[_TemplateData]:
    plots = [_plot(entries, name) for name in (*metrics, _LATENCY)]
    return [plot for plot in plots if plot is not None]


def _plot(entries: Sequence[_Entry], name: str) -> _TemplateData | None:
    """The trend of one measure, or None where no entry has it."""
    measured = [(entry, found) for entry in entries if (found := _measure(entry, name)) is not None]
    if not measured:
        return None
    form = "{:.1f}" if name == _LATENCY else "{:.4f}"
    title, first, last = "" if name == _LATENCY else name, measured[0][1][0], measured[-1][1][0]
    rows = [
        {"at": entry["at"], "version": entry["content_digest"], "value": value, "low": low, "high": high}
        for entry, (value, low, high) in measured
    ]
    plot = draw_trend(rows, f"{title}: {form.format(first)} → {form.format(last)}")
    return {"title": title, "first": form.format(first), "last": form.format(last), "plot": plot}


def _measure(entry: _Entry, name: str) -> tuple[float, float | None, float | None] | None:
    """Value and ends of the interval."""
    if name == _LATENCY:
        latency = entry["latency_ms"]
        return None if not latency or latency["p95"] is None else (latency["p95"], None, None)
    found = entry["figures"].get(name)
    return None if found is None else (found[0], found[1], found[2])
