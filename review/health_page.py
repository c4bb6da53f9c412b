"""The health page of a generator: the share of new rows, the lengths, the most frequent object, the yield of each
topic, and the same figures of every other run."""

from collections.abc import Sequence
from typing import Any

from builders.self_instruct.generator_health import MAX_HEAD_SHARE
from builders.self_instruct.row_rules import ROW_REJECTION_REASONS
from review import page_parts, plot_geometry

_SLOTS = 60  # bars of a topic's strip
_OPEN_TOPICS = 24  # shown without unfolding
_UNITS = {"zh": "characters", "en": "words"}
_STRATEGIES = {
    "self_instruct": "The model found topics, then objects of each topic.",
    "by_topic": "People named the topics, and the model found nouns of each.",
    "visual_elements": "No topic was given: the model listed visual elements, then wrote a phrase.",
}
_ADVICE = {
    "collapse": "Drop such rows in review, show fewer of the model's own (objects.from_model), or name more topics.",
    "drift": "Lower max_length, show fewer of the model's own (objects.from_model), or drop long ones in the review.",
    "few_new": "The model may know no more: stop here, or give it other samples.",
    "poor_topics": "Drop these topics in the review, or write better samples for them.",
}
_TemplateData = dict[str, Any]


def render_health_page(name: str, run: dict[str, Any], runs: Sequence[dict[str, Any]]) -> str:
    """Return one HTML document without other files and scripts. `run`: the summary of a finished stage; `runs`: those
    of all runs of the stage."""
    health, course = run["health"], run["course"]
    topics = _topics(run["new_by_round"])
    return page_parts.render_report(
        "health_page.html",
        run["funnel"],
        name=name,
        stage=run["stage"],
        strategy=run["strategy"].replace("_", " "),
        strategy_text=_STRATEGIES[run["strategy"]],
        health=health,
        new=health["accepted"] / max(health["rows"], 1),
        tokens=run["tokens"],
        stops=[(why.replace("_", " "), count) for why, count in sorted(run["stops"].items())],
        warnings=[{**warning, "advice": _ADVICE[warning["code"]]} for warning in health["warnings"]],
        plots=_plots(course, health, _UNITS[run["language"]]),
        rounds=(course[0]["replies"], course[-1]["replies"]) if course else (0, 0),
        topics=(topics[:_OPEN_TOPICS], topics[_OPEN_TOPICS:]),
        has_topics=bool(health["yields"]),
        reasons=[
            (reason.replace("_", " "), ROW_REJECTION_REASONS.get(reason, ""), count)
            for reason, count in sorted(run["rows"].items(), key=lambda pair: (-pair[1], pair[0]))
            if reason != "accepted"
        ],
        runs=[build_run_row(one) for one in runs] if len(runs) > 1 else [],
    )


def build_run_row(run: dict[str, Any]) -> _TemplateData:
    """Return a run as a row of a table: its settings and its figures."""
    health = run["health"]
    accepted = int(health["accepted"])
    return {
        "run": run["journal"].rpartition("-")[2][:6],
        "is_current": run["is_current"],
        "strategy": run["strategy"],
        "model": run["models"][0]["name"],
        "replies": health["replies"],
        "objects": accepted,
        "new": accepted / max(health["rows"], 1),
        **{name: health[name] for name in ("length", "length_of_people", "head", "head_share")},
        "tokens_per_object": run["tokens"] / accepted if accepted else None,
        "warnings": [warning["code"] for warning in health["warnings"]],
    }


def _plots(course: Sequence[dict[str, float]], health: _TemplateData, unit: str) -> list[_TemplateData]:
    """Return the curves with points; each has a title, a note, and whether its values are shares."""
    people, named_most = health["length_of_people"], {"warned of": MAX_HEAD_SHARE}
    curves: list[tuple[str, str, str, float, dict[str, float], bool]] = [
        ("acceptance", "New rows", "share of the last 100 rows", 1.0, {}, True),
        ("length", "Length", f"mean of the last 100 sound rows, in {unit}",
         1.5 * people or 1.0, {"people's": people} if people else {}, False),
        ("head", "Named most", "share of the last 100 sound rows that name the same", 0.5, named_most, True),
        ("accepted", "Objects found", "in all, so far", 1.0, {}, False),
    ]  # fmt: skip
    return [
        {"title": title, "note": note, "plot": plot, "is_share": is_share}
        for key, title, note, highest, cuts, is_share in curves
        if (plot := plot_geometry.build_line_plot([point[key] for point in course], highest, cuts))
    ]


def _topics(counts_by_topic: dict[str, list[int]]) -> list[_TemplateData]:
    """Return the topics with their bars, the highest yield first."""
    strips = {topic: _merge_bars(numbers) for topic, numbers in counts_by_topic.items()}
    most = max((max(strip, default=0) for strip in strips.values()), default=0)
    slots = max((len(strip) for strip in strips.values()), default=0)
    ordered = sorted(counts_by_topic, key=lambda topic: (-sum(counts_by_topic[topic]), topic))
    return [
        {
            "topic": topic,
            "total": sum(counts_by_topic[topic]),
            "rounds": len(counts_by_topic[topic]),
            "bars": plot_geometry.build_bars(strips[topic], max(most, 1), max(slots, 12)),
        }
        for topic in ordered
    ]


def _merge_bars(numbers: Sequence[int]) -> list[int]:
    """Return at most `_SLOTS` bars; neighbours are added up where there are more rounds."""
    every = -(-len(numbers) // _SLOTS) or 1
    return [sum(numbers[start : start + every]) for start in range(0, len(numbers), every)]
