"""`querytruth judge`: how far a model that judges can be trusted.

`querytruth calibrate`: fits the probability that a caption fits another image to reviewers' decisions.

`querytruth replies`: the stored replies of chat models.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from querytruth import terminal
from querytruth.cli.options import (
    DEFAULT_DATASETS_FOLDER,
    DefinitionOutOption,
    JsonOption,
    OfflineOption,
    OutOption,
    OverridesOption,
    SetArgument,
    expand_option_groups,
    list_overrides,
)
from querytruth.cli.trust_tables import AddedOptions, build_judge_options

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
replies_app = typer.Typer(help="The stored replies of chat models.", no_args_is_help=True)


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
    from querytruth.audit.definition import JudgeOptions
    from querytruth.audit.judge_check import check_judge, load_checked_judge
    from querytruth.cli.options import parse_model_options
    from querytruth.cli.trust_tables import describe_agreement_line
    from querytruth.sets import set_files

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
    from querytruth.audit.judge_carry_over import carry_over, read_carry_over
    from querytruth.sets import set_files

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


def calibrate(
    name: SetArgument,
    to: Annotated[
        Path | None, typer.Option(help="The file to write (default: calibration.json beside the set's versions).")
    ] = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Fit the probability that a caption fits another image to what the reviewers of a recall set said.

    Example: querytruth calibrate family-album
    """
    terminal.err.print(f"querytruth: reading {name}", markup=False)
    from builders.recall.calibration_steps import calibrate_set
    from querytruth.sets.set_files import find_set

    with terminal.reported_run():
        file, fitted = calibrate_set(find_set(name, out), to)
    if json:
        rows = [
            {"language": one.calibration.language, "pairs": one.pairs, "fit": one.fit, "starts_from": one.starts_from,
             "error_before": one.before, "error_held_out": one.after}
            for one in fitted
        ]  # fmt: skip
        terminal.print_json({"file": str(file), "languages": rows})
        return
    for one in fitted:
        start = "the shipped calibration" if one.starts_from else "nothing"
        before = "" if one.before is None else f", before {one.before:.3f}"
        terminal.out.print(
            f"{one.calibration.language}: {one.pairs} pairs, {one.fit} fit; from {start}; "
            f"mean squared error {one.after:.3f} on held-out queries{before}",
            markup=False,
        )
    terminal.out.print(f"{file} written; name it in the definition: ambiguity: {{calibration: {file}}}", markup=False)


@replies_app.callback()
def _replies() -> None:
    """Take the options of the command itself."""


@replies_app.command()
def refresh(
    definition: Annotated[Path, typer.Argument(help="The definition, a YAML file.", metavar="DEFINITION.yaml")],
    model: Annotated[str, typer.Option(help="The model's name, as in the manifest.")],
    before: Annotated[
        datetime | None, typer.Option(help="Only replies from before this day, UTC.", formats=["%Y-%m-%d"])
    ] = None,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    out: DefinitionOutOption = None,
    json: JsonOption = False,
) -> None:
    """Have the next build ask a model again, one that changed behind its name; older versions keep their replies for
    rebuild.

    Example: querytruth replies refresh recall.yaml --model qwen-vl-max --before 2026-06-01
    """
    from flows.rebuild import refresh_replies
    from querytruth.api import set_builds

    checked = set_builds.read_definition(definition, list_overrides(set_, out))
    count = refresh_replies(checked, model, None if before is None else before.date())
    if json:
        terminal.print_json({"model": model, "refreshed": count})
        return
    terminal.out.print(f"{count:,} replies of {model} are set aside", markup=False)
    build, stage = f"querytruth build {checked.kind} {definition}", f"querytruth topics {definition} --retry-failures"
    again = stage if checked.kind == "generated" else build
    terminal.out.print(f"Next: {again}, which asks again", markup=False, soft_wrap=True)
