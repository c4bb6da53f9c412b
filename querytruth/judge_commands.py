"""`querytruth judge`: how far a model that judges can be trusted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from querytruth import terminal
from querytruth.audit_options import AddedOptions, build_judge_options
from querytruth.options import (
    DEFAULT_DATASETS_FOLDER,
    JsonOption,
    OfflineOption,
    OutOption,
    SetArgument,
    expand_option_groups,
)

app = typer.Typer(help="Check a model that judges whether images fit queries.", no_args_is_help=True)
_PROBE_TEXTS = {
    "asked_twice": "asked twice",
    "grades_reversed": "grades listed in reverse",
    "mirrored": "image mirrored",
    "paraphrased": "query in other words",
    "longer_text": "longer text around the query",
    "near_miss": "an image of a query alike",
    "blank": "a grey area",
}
_CARRIED_TEXTS = {
    "relevant": "relevant pairs of the pool",
    "multiplier": "relevant pairs for each that the set has",
    "sensitivity": "of relevant pairs, those that the judge calls so",
    "specificity": "of the others, those that it does not",
}


@app.callback()
def judge() -> None:
    """Check a model that judges whether images fit queries."""


@app.command()
def check(
    set_: SetArgument,
    judge: Annotated[str, typer.Option(help="A chat model that sees images.")],
    judge_option: Annotated[
        list[str] | None, typer.Option("--judge-option", help="An option of that model.", metavar="KEY=VALUE")
    ] = None,
    name: Annotated[str, typer.Option(help="The audit whose answers the judge is compared with.")] = "audit",
    probes: Annotated[int, typer.Option(help="Pairs that every probe asks about.", min=1, max=1000)] = 40,
    allow_contestant: Annotated[
        bool, typer.Option("--allow-contestant", help="The judge may be one of the systems.")
    ] = False,
    offline: OfflineOption = False,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Write the card of a judge: how it agrees with the people of an audit, and what changes its grades.

    Example: querytruth judge check family-album --judge openai_compatible --judge-option name=qwen3-vl
    """
    from backends.sets import set_files
    from flows.audits.judge_check import check_judge, load_checked_judge
    from flows.definitions.audit import JudgeOptions
    from querytruth.audit_tables import describe_agreement_line
    from querytruth.model_options import parse_model_options

    path = set_files.find_set(set_, out)
    options = parse_model_options(judge_option or [])
    choice = JudgeOptions(model=judge, options=options, allow_contestant=allow_contestant)
    model = load_checked_judge(path, name, choice)
    with terminal.reported_run(offline=offline):
        card, file = check_judge(path, name, model, probes)
    if json:
        terminal.print_json(card)
        return
    terminal.out.print(describe_agreement_line(card), markup=False, soft_wrap=True)
    area = card["roc"]["area"]
    if area is not None:
        terminal.out.print(f"area under the ROC curve of its grades: {area:.3f}", markup=False)
    rows: list[list[Any]] = [[_PROBE_TEXTS[probe], *_describe_probe(found)] for probe, found in card["probes"].items()]
    terminal.print_table("Probes", ["probe", "pairs", "same grade", "calls relevant", "kappa with people"], rows)
    cost = card["per_1000_pairs"]
    stated = [f"{cost[unit]:,} {unit}" for unit in ("tokens", "seconds") if cost[unit] is not None]
    if stated:
        terminal.out.print(f"1,000 pairs: {', '.join(stated)}", markup=False)
    terminal.out.print(f"written: {file}", markup=False, soft_wrap=True)


@app.command()
@expand_option_groups
def carry(
    set_: SetArgument,
    calibrated: Annotated[str, typer.Option("--from", help="The set whose audit measured the judge.", metavar="SET")],
    name: Annotated[str, typer.Option(help="That audit.")] = "audit",
    depth: Annotated[int, typer.Option(help="Results of each query and run that are pooled.", min=1, max=1000)] = 20,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
    *,
    added: AddedOptions,
) -> None:
    """Estimate how much a set lacks that no person judged, by a judge whose errors an audit of another set measured.

    Example: querytruth judge carry new-album --from family-album --run clip.trec --judge openai_compatible
    --judge-option name=qwen3-vl
    """
    from backends.sets import set_files
    from flows.audits.judge_carry_over import carry_over, read_carry_over

    judge = build_judge_options(added.judge, added.judge_option, added.allow_contestant)
    if judge is None:
        raise typer.BadParameter("name the judge of that audit", param_hint="--judge")
    given = read_carry_over(
        set_files.find_set(set_, out), added.run, depth, judge, set_files.find_set(calibrated, out), name
    )
    with terminal.reported_run(offline=added.offline):
        found = carry_over(given)
    if json:
        terminal.print_json(found)
        return
    rows: list[list[Any]] = [
        [text, *(_figure(found[key][end]) for end in ("value", "low", "high"))]
        for key, text in _CARRIED_TEXTS.items()
        if found[key] is not None
    ]
    title = f"{found['set']}, by {found['judge']} as {found['from']['audit']} measured it"
    terminal.print_table(title, ["", "estimate", "from", "to (95%)"], rows)
    called = f"the judge calls {found['called_relevant']:,} of {found['pairs']:,} pairs relevant"
    unread = f", and gives {found['without_grade']:,} no grade" if found["without_grade"] else ""
    terminal.out.print(f"{called}{unread}; the set has {found['judged_relevant']:,}", markup=False, soft_wrap=True)
    alone = f"{found['as_precise_as_judgments']:,} judgments by people of this set, without a judge, are as precise"
    terminal.out.print(f"{alone}; and it holds only where the judge errs here as often as there", soft_wrap=True)
    terminal.out.print(f"Next: querytruth audit plan {set_}", markup=False, soft_wrap=True)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _describe_probe(found: dict[str, Any]) -> list[str]:
    if "called_relevant" in found:
        return [str(found["pairs"]), "", _share(found["called_relevant"]), ""]
    shares, kappas = (
        [found[f"{name}_{side}"] for side in ("before", "after")] for name in ("relevant", "kappa")
    )  # fmt: skip
    kappa = " → ".join("–" if value is None else f"{value:.3f}" for value in kappas)
    return [str(found["pairs"]), _share(found["same"]), " → ".join(map(_share, shares)), kappa]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
