"""The evaluations of a set over time as one HTML page without scripts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

from review.board_texts import BOARD_TEXTS
from review.page_parts import render_template

_SHOWN = ("ndcg@10", "hit@1", "hit@10", "rr@10")
_MOST_EVALUATIONS, _MOST_METRICS = 400, 4
_LATENCY = "latency"
_Entry = Mapping[str, Any]
_TemplateData = dict[str, Any]


def render_history(name: str, entries: Sequence[_Entry], metric: str, language: str = "en") -> str:
    """Returns the page of a set's evaluations, the oldest first (flows/scoring/evaluation_history.py), in a language of
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
