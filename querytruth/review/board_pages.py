"""The leaderboard of a set as one HTML page without scripts.

The evaluations of a set over time as one HTML page without scripts.

The texts of the leaderboard's page and of the page of a history, English and Chinese.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

from querytruth.review.page_parts import render_template

BOARD_TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "title": "Leaderboard",
        "about": "{metric} on {queries} queries that all {systems} systems answered: texts find images.",
        "skip": "Skip to the systems",
        "page": "On this page",
        "footer": "Written by querytruth from {name}. The page needs no network and has no script.",
        "ranks": "Ranks",
        "ranks_lead": "Each figure with its 95% interval. A rank is an interval, too: the tests of all pairs, "
        "corrected together (Holm), leave these places open.",
        "rank": "rank {rank}",
        "interval": "95%: {low} to {high}",
        "groups": "Not told apart",
        "groups_lead": "No pair of systems within a group differs by the tests.",
        "groups_none": "The tests tell all systems apart.",
        "slices": "Slices",
        "slices_lead": "{metric} by kind of query; of each kind the {most} values with the most queries.",
        "slice": "Queries",
        "number": "Number",
        "conditions": "Conditions",
        "conditions_lead": "Latency in milliseconds, of live systems. Ties: queries with equal scores at the cut.",
        "system": "System",
        "kind": "Kind",
        "identity": "Version",
        "missing": "Queries without results",
        "ties": "Ties",
        "warnings": "Warnings",
        "history": "History",
        "history_about": "{evaluations} evaluations of {systems} systems on {versions} versions.",
        "newest": "Shown are the newest {shown} of {all} evaluations.",
        "trend": "Over time",
        "trend_lead": "From the first evaluation to the last, with 95% intervals. A vertical line marks another "
        "version of the set; a line does not cross it, for figures of two versions are not comparable.",
        "latency": "Latency p95, ms",
        "table": "All evaluations",
        "at": "At",
        "version": "Version",
        "queries": "Queries",
    },
    "zh": {
        "title": "排行榜",
        "about": "{metric}，在全部 {systems} 个系统都回答的 {queries} 条查询上：以文搜图。",
        "skip": "跳到各系统",
        "page": "本页内容",
        "footer": "由 querytruth 根据 {name} 生成。本页无需网络，不含脚本。",
        "ranks": "名次",
        "ranks_lead": "每个指标附 95% 区间。名次也是区间：所有系统对的检验一起做 Holm 校正，留下这些可能的名次。",
        "rank": "第 {rank} 名",
        "interval": "95%：{low} 至 {high}",
        "groups": "无法区分",
        "groups_lead": "组内任何两个系统的检验都没有显著差异。",
        "groups_none": "检验能区分全部系统。",
        "slices": "切片",
        "slices_lead": "按查询类别的 {metric}；每类只列查询最多的 {most} 个值。",
        "slice": "查询",
        "number": "数量",
        "conditions": "条件",
        "conditions_lead": "延迟以毫秒计，仅限在线系统。并列：在截断处得分相同的查询数。",
        "system": "系统",
        "kind": "类型",
        "identity": "版本",
        "missing": "无结果的查询",
        "ties": "并列",
        "warnings": "警告",
        "history": "历史",
        "history_about": "{systems} 个系统在 {versions} 个版本上的 {evaluations} 次评测。",
        "newest": "显示全部 {all} 次评测中最新的 {shown} 次。",
        "trend": "随时间的变化",
        "trend_lead": "从第一次评测到最后一次，附 95% 区间。竖线标出集的版本改变；"
        "折线不跨过竖线，因为两个版本的指标不可比较。",
        "latency": "延迟 p95（毫秒）",
        "table": "全部评测",
        "at": "时间",
        "version": "版本",
        "queries": "查询",
    },
}
BOARD_LANGUAGES = tuple(BOARD_TEXTS)
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
    """Returns the page of a board (flows/leaderboard.py) in a language of BOARD_LANGUAGES."""
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
        systems=[_describe(one, board["metric"]) for one in systems],
        slices=_tabulate_slices(systems),
        most_values=_MOST_VALUES,
    )


def _describe(one: Mapping[str, Any], metric: str) -> _TemplateData:
    ends = [one["low"], one["mean"], one["high"]] if one["low"] is not None else [one["mean"]] * 3
    low, value, high = (2 + 96 * min(max(end, 0.0), 1.0) for end in ends)
    latency, conditions = one["latency_ms"] or {}, one["conditions"]
    ties = one["queries_with_a_tie_at_the_cut"]
    return {
        "name": one["name"],
        "kind": " ".join(filter(None, (one["kind"], conditions.get("type")))),
        "rank": format_rank(one["best_rank"], one["worst_rank"]),
        "value": f"{one['mean']:.4f}",
        "low": "" if one["low"] is None else f"{one['low']:.4f}",
        "high": "" if one["low"] is None else f"{one['high']:.4f}",
        "at": {"low": f"{low:.2f}%", "width": f"{high - low:.2f}%", "value": f"{value:.2f}%"},
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
    """Returns the page of a set's evaluations, the oldest first (querytruth/evaluation/steps.py), in a language of
    BOARD_LANGUAGES. `metric` is shown first."""
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
    """The trend of one measure in percent of the plot's box, or None where no entry has it."""
    measured = [(entry, found) for entry in entries if (found := _measure(entry, name)) is not None]
    if not measured:
        return None
    times = [datetime.fromisoformat(entry["at"]).timestamp() for entry, _ in measured]
    start, span = times[0], (times[-1] - times[0]) or 1.0
    across = [50.0 if times[-1] == times[0] else round(3 + 94 * (at - start) / span, 2) for at in times]
    known = [value for _, found in measured for value in found if value is not None]
    low, high = min(known), max(known)
    height = (high - low) or 1.0

    def place(value: float | None) -> float | None:
        return None if value is None else round(94 - 88 * (value - low) / height, 2)

    form = "{:.1f}" if name == _LATENCY else "{:.4f}"
    dots = [
        {"x": x, "y": place(found[0]), "low": place(found[1]), "high": place(found[2]),
         "title": f"{form.format(found[0])} · {entry['at'][:16]} · v{entry['version']}"}
        for x, (entry, found) in zip(across, measured, strict=True)
    ]  # fmt: skip
    digests = [entry["content_digest"] for entry, _ in measured]
    stretches = groupby(zip(digests, dots, strict=True), key=lambda pair: pair[0])
    return {
        "title": "" if name == _LATENCY else name,
        "first": form.format(measured[0][1][0]),
        "last": form.format(measured[-1][1][0]),
        "top": form.format(high),
        "bottom": form.format(low),
        "from": measured[0][0]["at"][:10],
        "to": measured[-1][0]["at"][:10],
        "dots": dots,
        "lines": [" ".join(f"{dot['x']},{dot['y']}" for _, dot in stretch) for _, stretch in stretches],
        "changes": [
            round((a + b) / 2, 2) for (a, b), (d, e) in zip(pairwise(across), pairwise(digests), strict=True) if d != e
        ],
    }


def _measure(entry: _Entry, name: str) -> tuple[float, float | None, float | None] | None:
    """Value and ends of the interval."""
    if name == _LATENCY:
        latency = entry["latency_ms"]
        return None if not latency or latency["p95"] is None else (latency["p95"], None, None)
    found = entry["figures"].get(name)
    return None if found is None else (found[0], found[1], found[2])
