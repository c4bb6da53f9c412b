"""What `--plan` prints: counts, model calls, time and disk, by kind of set."""

from __future__ import annotations

from typing import Any

from querytruth import terminal


def _gallery(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    known_count, total = plan["known_from_before"], plan["pictures"]
    terminal.out.print(f"[bold]{total:,} pictures[/], {known_count:,} of them read before")
    disk = f"{plan['bytes_about'] / 1e6:,.0f} MB on disk at most"
    terminal.out.print(
        f"{plan['model_calls']} model calls, about {plan['seconds_about']:,.0f} s on this machine, {disk}"
    )


def _precision(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    labels = next(stage["entered"] for stage in plan["funnel"] if stage["stage"] == "labels")
    levels = " → ".join(f"{number:,} of level {level}" for level, number in plan["levels"].items())
    total = f"{plan['seeds']:,} seeds with {plan['parents']:,} parents of the tree, {plan['queries']:,} queries"
    terminal.out.print(f"[bold]{labels:,} labels → {levels}[/]: {total}")
    cost = f"{plan['model_calls']} model calls, about {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    terminal.out.print(f"at most {plan['judgments_at_most']:,} judgments, {cost}")
    pairs = plan["derived_pairs"]
    if pairs:
        shown = "; ".join(pairs[:8]) + (" …" if len(pairs) > 8 else "")
        terminal.out.print(f"accepted because others are ({len(pairs)} pairs): {shown}", soft_wrap=True, markup=False)


def _recall(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    terminal.out.print(f"[bold]{plan['pictures']:,} pictures, {plan['captions']:,} captions[/]")
    again = plan["model_calls_again_at_most"]
    more = f", at most {again:,} more for captions asked again" if again else ""
    known_note = f"{plan['known_from_before']:,} answers are known from before"
    terminal.out.print(f"{plan['model_calls']:,} model calls{more}; {known_note}", soft_wrap=True)
    cost = f"about {plan['seconds_about']:,.0f} s if a call takes what the seed article's took (2.2 s)"
    terminal.out.print(f"{cost}, {plan['bytes_about'] / 1e6:,.0f} MB on disk at most", soft_wrap=True)


def _generated(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    query_note = f"{plan['queries']:,} queries, {plan['complete']:,} of them with all their pictures"
    request_note = f"{plan['searches']:,} searches and at most {plan['pictures_at_most']:,} pictures to ask the web for"
    terminal.out.print(f"[bold]{query_note}[/]; {request_note}", soft_wrap=True)
    cost = f"about {plan['seconds_about']:,.0f} s where hosts are many, {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    terminal.out.print(cost, soft_wrap=True)


PLAN_PRINTERS = {"gallery": _gallery, "precision": _precision, "recall": _recall, "generated": _generated}
