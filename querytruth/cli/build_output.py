"""Output of the build commands: the plan and the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from querytruth import terminal
from querytruth.sets.manifest import Counts
from querytruth.sets.manifest_notes import Collection

if TYPE_CHECKING:
    from builders.publication import BuildResult

_SHOWN_DISPUTES = 5


def _gallery(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    known_count, total = plan["known_from_before"], plan["images"]
    terminal.say(f", {known_count:,} of them already read", bold=f"{total:,} images")
    time = f"about {plan['seconds_about']:,.0f} s on this machine"
    disk = f"at most {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    terminal.say(f"{plan['model_calls']} model calls, {time}, {disk}")


def _precision(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    labels = next(stage["entered"] for stage in plan["funnel"] if stage["stage"] == "labels")
    levels = " → ".join(f"{number:,} of level {level}" for level, number in plan["levels"].items())
    total = f"{plan['seeds']:,} seeds with {plan['parents']:,} parents in the hierarchy, {plan['queries']:,} queries"
    terminal.say(f": {total}", bold=f"{labels:,} labels → {levels}")
    calls = f"{plan['model_calls']:,} model calls"
    if phrasings := plan.get("phrasings_at_most"):
        calls += f" at most for at most {phrasings:,} phrasings: {format_forecast(plan)}"
    if asked := plan["judge_calls_at_most"]:
        calls += f", plus at most {asked:,} for the judge"
    cost = f"{calls}, about {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    terminal.say(f"at most {plan['judgments_at_most']:,} judgments, {cost}")
    pairs = plan["derived_pairs"]
    if pairs:
        shown = "; ".join(pairs[:8]) + (" …" if len(pairs) > 8 else "")
        terminal.say(f"accepted as well ({len(pairs)} pairs): {shown}")


def _recall(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    terminal.say("", bold=f"{plan['images']:,} images, {plan['captions']:,} captions")
    again = plan["model_calls_again_at_most"]
    more = f", plus at most {again:,} to ask for captions again or to judge pairs" if again else ""
    known_note = f"{plan['known_from_before']:,} answers are already stored"
    terminal.say(f"{plan['model_calls']:,} model calls{more}; {known_note}")
    if models := plan["models_to_download"]:
        terminal.say(f"models that the build downloads to this machine: {', '.join(models)}")
    cost = f"{format_forecast(plan)}, at most {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    terminal.say(cost)


def format_forecast(plan: dict[str, Any]) -> str:
    """Return the time, tokens and money of a plan's calls."""
    if not plan["model_calls"]:
        return "0 s for calls"
    pace = "as measured" if plan["seconds_are_measured"] else ("at 2.2 s per call, as in the seed article")
    parts = [f"about {plan['seconds_about']:,.0f} s {pace}"]
    if tokens := plan["tokens_about"]:
        guessed = "" if plan["tokens_are_counted"] else " at most (estimated from prompts and limits)"
        parts.append(f"{tokens['input']:,} input and {tokens['output']:,} output tokens{guessed}")
    costs = plan["cost_about"] or {}
    parts += [
        f"{cost:,.2f} {currency}" if cost >= 0.01 else f"under 0.01 {currency}" for currency, cost in costs.items()
    ]
    if limits := plan["budget"]:
        parts.append("a run stops after " + " or ".join(f"{value:,} {name}" for name, value in limits.items()))
    return ", ".join(parts)


def _generated(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    query_note = f"{plan['queries']:,} queries, {plan['complete']:,} of them with all their images"
    request_note = f"at most {plan['searches']:,} web searches and {plan['images_at_most']:,} image downloads"
    terminal.say(f"; {request_note}", bold=query_note)
    cost = f"about {plan['seconds_about']:,.0f} s with many hosts, {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    if proposed := plan["judge_calls_at_most"]:
        cost += f"; at most {proposed:,} calls of the judge"
    terminal.say(cost)


def _queries(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    strata = ", ".join(f"{one['drawn']:,} of {one['queries']:,} in {one['stratum']}" for one in plan["strata"])
    text = f"{plan['queries']:,} queries ({strata}) on {plan['images']:,} images"
    terminal.say(f", about {plan['bytes_about'] / 1e6:,.0f} MB on disk", bold=text)


PLAN_PRINTERS = {
    "gallery": _gallery,
    "precision": _precision,
    "recall": _recall,
    "generated": _generated,
    "queries": _queries,
}


def summarize_build(result: BuildResult) -> dict[str, Any]:
    """Return the outcome of a build as JSON values."""
    stated: Mapping[str, object] = result.manifest
    keys = ("name", "version", "kind", "content_digest", "build_digest", "counts", "funnel", "decisions")
    return {
        "path": str(result.path),
        "published": result.is_new,
        "page": result.page and str(result.page),
        "url": result.url,
        **{key: stated[key] for key in keys},
        "shared": result.shared_count,
        "disputed": [{"query_id": one.query_id, "image_id": one.image_id} for one in result.disputed],
        "disagreements": result.disagreement_count,
        "edited_waiting": list(result.edited_waiting),
        "model_calls": result.manifest["envelope"]["calls"] if result.is_new else {},
        "smaller": [summarize_build(smaller) for smaller in result.nested_results],
    }


def show_build_result(result: BuildResult) -> None:
    """Print the outcome of a build: the funnel, the counts, and the decisions without effect."""
    terminal.print_funnel(result.manifest["funnel"])
    name, counts = f"{result.manifest['name']}/v{result.version}", result.manifest["counts"]
    state = "published" if result.is_new else "unchanged: nothing published, the newest version has the same content,"
    terminal.say(f" {state} in {result.path}", bold=name)
    terminal.say(_format_contents(counts))
    if ambiguity := result.manifest["notes"].get("ambiguity"):
        from querytruth.formats.set_card import format_share  # imports pandas, which is slow

        before, after = ambiguity["before"], ambiguity["after"]
        shares = f"{before['ambiguous']:,} of {before['queries']:,} captions ({format_share(before)}) before"
        resolved = f"{after['ambiguous']:,} of {after['queries']:,} after {ambiguity['policy']}"
        terminal.say(f"ambiguous: {shares}, {resolved}")
    if collection := result.manifest["notes"].get("collection"):
        terminal.say(format_collection_summary(collection))
    if result.url is not None:
        terminal.say(f"stored as {result.url}")
    if result.page is not None:
        terminal.say(f"its page: {result.page}")
    for smaller in result.nested_results:
        terminal.say(_format_nested_set(smaller))
    for decision, why in result.stale:
        terminal.report(f"decision no longer applies: {decision.decision} on {decision.text!r}: {why}")
    if result.shared_count:
        more = "judgment follows" if result.shared_count == 1 else "judgments follow"
        terminal.say(f"{result.shared_count:,} more {more} from queries with the same meaning as a judged one")
    for conflict in result.conflicts:
        note = f"queries with the same meaning are judged differently: {conflict.image_id}: {conflict.describe()}"
        terminal.report(f"{note}; each keeps its own; judge one of them again")
    _show_disputes(result)
    if count := len(result.edited_waiting):
        about = "edited query has" if count == 1 else "edited queries have"
        note = f"{count:,} {about} no relevant image until a person accepts one (review page, Queries: not judged)"
        terminal.report(f"{note}; until then no metric includes them")
    if result.waiting_count:
        about = "decision waits" if result.waiting_count == 1 else "decisions wait"
        note = f"{result.waiting_count} {about} for the next build of the set, which applies them: querytruth build"
        terminal.report(note)


def _show_disputes(result: BuildResult) -> None:
    """Print the pairs of audits that are left out because people differ, and how often people differ elsewhere."""
    if count := len(result.disputed):
        about = "pair of an audit is" if count == 1 else "pairs of audits are"
        note = f"{count:,} {about} left out: two people disagree and no third person has answered (review page, Audit)"
        terminal.report(note)
    for one in result.disputed[:_SHOWN_DISPUTES]:
        terminal.report(f"  {one.text!r} and {one.image_id}")
    if count := result.disagreement_count:
        about = "decision" if count == 1 else "decisions"
        note = f"people disagree on {count:,} {about}; the last one applies (review page, Pairs: disagreements)"
        terminal.report(note)


def _format_contents(counts: Counts) -> str:
    parts = []
    if counts["queries"]:
        levels = " / ".join(f"{number:,}" for number in counts["by_level"].values())
        parts = [f"{counts['queries']:,} queries (by level {levels})", f"{counts['judgments']:,} judgments"]
    if counts["duplicate_groups"]:
        parts.insert(0, f"{counts['duplicate_groups']:,} of them with near-duplicates")
    return ", ".join([f"{counts['images']:,} images", *parts])


def format_collection_summary(figures: Collection) -> str:
    """Return the figures of a collection in one line."""
    summary_text = f"{figures['queries']:,} queries keep {figures['pictures']:,} images"
    if figures["same_picture_at_other_addresses"]:
        summary_text += f"; {figures['same_picture_at_other_addresses']:,} more are copies at other addresses"
    if figures["pictures_of_several_queries"]:
        summary_text += f"; {figures['pictures_of_several_queries']:,} are relevant to several queries"
    licences = ", ".join(f"{name} {count:,}" for name, count in figures["licences"].items())
    return f"{summary_text}; licences: {licences}" if licences else summary_text


def _format_nested_set(result: BuildResult) -> str:
    state = "published" if result.is_new else "unchanged"
    counts, name = result.manifest["counts"], f"{result.manifest['name']}/v{result.version}"
    return f"  smaller set in it, {name} {state}: {counts['images']:,} images, {counts['queries']:,} queries"
