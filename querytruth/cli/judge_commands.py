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
    """Write the card of a judge: how its grades, or its calibrated scores, agree with the people of an audit.

    Example: querytruth judge check family-album --judge openai_compatible --judge-option name=qwen3-vl
    """
    from querytruth.audit.judge import choose_form
    from querytruth.audit.judge_card import check_judge, load_checked_judge
    from querytruth.cli.trust_tables import describe_agreement_line
    from querytruth.sets import set_files

    path, judge = set_files.find_set(request.of, request.out), request.load_judge()
    assert judge is not None, "the request has one"
    model, form = load_checked_judge(path, request.name, judge), choose_form(judge)
    with terminal.reported_run(offline=request.offline):
        card, file = check_judge(path, request.name, model, form, judge.samples)
    if json:
        terminal.print_json(card)
        return
    if card.get("reliability"):
        _show_curve(card)
    terminal.out.print(describe_agreement_line(card), markup=False, soft_wrap=True)
    cost = card["per_1000_pairs"]
    stated = [f"{cost[unit]:,} {unit}" for unit in ("tokens", "seconds") if cost[unit] is not None]
    if stated:
        terminal.out.print(f"1,000 pairs: {', '.join(stated)}", markup=False)
    terminal.out.print(f"written: {file}", markup=False, soft_wrap=True)


def _show_curve(card: dict[str, Any]) -> None:
    from querytruth.cli.trust_tables import name_judge

    rows: list[list[Any]] = [
        [one["pairs"], f"{one['calibrated']:.1%}", f"{one['relevant']:.1%}"] for one in card["reliability"]["curve"]
    ]
    title = f"Reliability of {name_judge(card)}"
    terminal.print_table(title, ["pairs", "calibrated score", "people say relevant"], rows)


@replies_app.command
@command
def refresh(json: JsonOption = False, *, request: RefreshRequest) -> None:
    """Have the next build ask a model again, one that changed behind its name; older versions keep their replies for
    rebuild.

    Example: querytruth replies refresh recall.yaml --model qwen-vl-max
    """
    from flows.rebuild import refresh_replies

    checked = request.load_definition()
    count = refresh_replies(checked, request.model)
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
