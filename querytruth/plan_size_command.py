"""`querytruth plan-size`: how many queries find a difference of two systems?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from querytruth import terminal
from querytruth.evaluate_command import OptionalSetArgument
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, QrelsOption


def plan_size(
    difference: Annotated[float, typer.Option(help="The true difference that is to be found, such as 0.02.")],
    set_: OptionalSetArgument = None,
    metric: Annotated[str, typer.Option(help="Such as ndcg@10.")] = "hit@1",
    pilot: Annotated[tuple[Path, Path] | None, typer.Option(help="Two runs: how much systems differ by query.")] = None,
    discordance: Annotated[float | None, typer.Option(help="Share of queries that differ, without a pilot.")] = None,
    power: Annotated[float, typer.Option(help="The chance to find the difference.")] = 0.8,
    stratum: Annotated[
        str | None, typer.Option(help="Allocate by this aspect.", metavar="language|style|level|topic|labels|length")
    ] = None,
    qrels: QrelsOption = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Plan the number of queries that a two-sided paired test at 5% needs to find a difference of two systems.

    Example: querytruth plan-size family-album --difference 0.02 --metric ndcg@10 --pilot old.trec new.trec"""
    terminal.err.print(f"querytruth: reading {set_ or qrels}", markup=False)
    from querytruth.api import gates

    with terminal.reported_run():
        plan = gates.plan_size(
            set_,
            difference=difference,
            metric=metric,
            pilot=pilot,
            discordance=discordance,
            power=power,
            stratum=stratum,
            qrels=qrels,
            out=out,
        )
    terminal.print_json(plan) if json else _show(plan)


def _show(plan: dict[str, Any]) -> None:
    at_hand = f"{plan['queries_at_hand']:,} at hand"
    about = f"a difference of {plan['difference']:g} by {plan['metric']}, found in {plan['power']:.0%} of cases"
    terminal.out.print(f"{plan['queries']:,} queries ({at_hand}) for {about}", markup=False, soft_wrap=True)
    pace = f"{plan['seconds_per_judgment']} s each" + (", assumed" if plan["pace_is_assumed"] else ", as logged")
    cost = f"{plan['judgments']:,} judgments, about {plan['hours']} hours ({pace})"
    terminal.out.print(f"{cost}; {plan['judgments_per_query']} a query", markup=False, soft_wrap=True)
    if strata := plan["strata"]:
        rows: list[list[object]] = [
            [one["name"], f"{one['share']:.1%}", f"{one['deviation']:.4f}", one["proportional"], one["neyman"]]
            for one in strata
        ]
        rows.append(["all", "", "", *(sum(one[kind] for one in strata) for kind in ("proportional", "neyman"))])
        columns = ["stratum", "share", "deviation", "proportional", "Neyman"]
        terminal.print_table("Queries drawn by stratum", columns, rows)
