"""`querytruth judge` and `querytruth replies`: how far a judge can be trusted, and stored replies."""

from __future__ import annotations

from typing import Any

from flows.requests import RefreshRequest
from querytruth import terminal
from querytruth.audit.requests import JudgeCheckRequest
from querytruth.cli.command_line import command, group
from querytruth.cli.options import JsonOption

app = group("judge", "Check a model that judges whether images fit queries.")
replies_app = group("replies", "The stored replies of chat models.")


@app.command
@command
def check(json: JsonOption = False, *, request: JudgeCheckRequest) -> None:
    """Write the card of a judge: how it agrees with the people of an audit, and what changes its grades.

    Example: querytruth judge check family-album --judge openai_compatible --judge-option name=qwen3-vl
    """
    from querytruth.audit.judge_check import TERMINAL_PROBES, check_judge, load_checked_judge
    from querytruth.cli.trust_tables import describe_agreement_line
    from querytruth.sets import set_files

    path, judge = set_files.find_set(request.of, request.out), request.load_judge()
    assert judge is not None, "the request has one"
    model = load_checked_judge(path, request.name, judge)
    with terminal.reported_run(offline=request.offline):
        card, file = check_judge(path, request.name, model, request.probes)
    if json:
        terminal.print_json(card)
        return
    if "reliability" in card:
        _show_reliability(card)
        terminal.out.print(f"written: {file}", markup=False, soft_wrap=True)
        return
    terminal.out.print(describe_agreement_line(card), markup=False, soft_wrap=True)
    area = card["roc"]["area"]
    if area is not None:
        terminal.out.print(f"area under the ROC curve of its grades: {area:.3f}", markup=False)
    rows: list[list[Any]] = [
        [TERMINAL_PROBES[probe], *_describe_probe(found)] for probe, found in card["probes"].items()
    ]
    terminal.print_table("Probes", ["probe", "pairs", "same grade", "calls relevant", "kappa with people"], rows)
    cost = card["per_1000_pairs"]
    stated = [f"{cost[unit]:,} {unit}" for unit in ("tokens", "seconds") if cost[unit] is not None]
    if stated:
        terminal.out.print(f"1,000 pairs: {', '.join(stated)}", markup=False)
    terminal.out.print(f"written: {file}", markup=False, soft_wrap=True)


def _show_reliability(card: dict[str, Any]) -> None:
    from querytruth.cli.trust_tables import describe_reliability, name_judge

    found, blank = card["reliability"], card["blank"]
    if found is None:
        terminal.out.print(f"judge {name_judge(card)}: {describe_reliability(found)}", markup=False, soft_wrap=True)
        return
    rows: list[list[Any]] = [
        [one["pairs"], _share(one["calibrated"]), _share(one["relevant"])] for one in found["curve"]
    ]
    title = f"Reliability of {name_judge(card)}"
    terminal.print_table(title, ["pairs", "calibrated score", "people say relevant"], rows)
    terminal.out.print(describe_reliability(found), markup=False, soft_wrap=True)
    if blank["area"] is not None:
        helps = f"{blank['area']:.3f} with the image, {blank['area_blank']:.3f} with a grey area in its place"
        terminal.out.print(f"the same on {blank['pairs']} pairs: {helps}", markup=False, soft_wrap=True)


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


@replies_app.command
@command
def refresh(json: JsonOption = False, *, request: RefreshRequest) -> None:
    """Have the next build ask a model again, one that changed behind its name; older versions keep their replies for
    rebuild.

    Example: querytruth replies refresh recall.yaml --model qwen-vl-max --before 2026-06-01
    """
    from flows.rebuild import refresh_replies

    checked = request.load_definition()
    count = refresh_replies(checked, request.model, request.before)
    if json:
        terminal.print_json({"model": request.model, "refreshed": count})
        return
    terminal.out.print(f"{count:,} replies of {request.model} are set aside", markup=False)
    build, stage = (
        f"querytruth build {checked.kind} {request.definition}",
        f"querytruth topics {request.definition} --retry-failures",
    )
    again = stage if checked.kind == "generated" else build
    terminal.out.print(f"Next: {again}, which asks again", markup=False, soft_wrap=True)
