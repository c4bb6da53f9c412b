"""`querytruth judge` and `querytruth replies`: how far a judge can be trusted, and stored replies."""

from flows.requests import RefreshRequest
from querytruth import terminal
from querytruth.audit.requests import JudgeCheckRequest
from querytruth.cli.command_line import command, group
from querytruth.cli.options import JsonOption

app = group("judge", "Check a model that judges whether images match queries.")
replies_app = group("replies", "Manage the stored replies of chat models.")


@app.command
@command
def check(json: JsonOption = False, *, request: JudgeCheckRequest) -> None:
    """Check a judge on the pairs of a set that people judged: does it agree with them, and does it need the image?

    Example: querytruth judge check family-album --judge openai_compatible --judge-option name=qwen3-vl
    """
    from querytruth.audit.judge_reliability import check_judge, load_checked_judge
    from querytruth.cli.trust_tables import describe_agreement, describe_reliability, name_judge
    from querytruth.sets import set_files

    path, judge = set_files.find_set(request.of, request.out), request.load_judge()
    assert judge is not None, "the request has one"
    model = load_checked_judge(path, judge)
    with terminal.reported_run(offline=request.offline):
        found = check_judge(path, model, judge)
    if json:
        terminal.print_json(found)
        return
    seen, blind = found["reliability"], found.get("without_image")
    rows: list[list[object]] = [
        [one["pairs"], f"{one['calibrated']:.1%}", f"{one['relevant']:.1%}"] for one in (seen or {"curve": []})["curve"]
    ]
    if rows:
        title = f"Reliability of {name_judge(found)}"
        terminal.print_table(title, ["pairs", "calibrated score", "share relevant by people"], rows)
    lines = [f"judge {name_judge(found)}: {describe_reliability(seen)}"]
    if seen and blind:
        lines.append(f"with a grey image instead of each image: area under the ROC curve {blind['area']:.3f}")
        if seen["area"] <= blind["area"]:
            lines.append("the judge gets no help from the image: choose another judge")
    if agreement := found.get("agreement"):
        lines.append(describe_agreement(agreement))
    for line in lines:
        terminal.say(line)


@replies_app.command
@command
def refresh(json: JsonOption = False, *, request: RefreshRequest) -> None:
    """Make the next build ask a model again, after the model changed under the same name; older versions keep their
    replies for rebuild.

    Example: querytruth replies refresh recall.yaml --model qwen-vl-max
    """
    from flows.rebuild import refresh_replies

    checked = request.load_definition()
    count = refresh_replies(checked, request.model)
    if json:
        terminal.print_json({"model": request.model, "refreshed": count})
        return
    terminal.say(f"{count:,} replies of {request.model} are discarded")
    build, stage = (
        f"querytruth build {checked.kind} {request.definition}",
        f"querytruth topics {request.definition} --retry-failures",
    )
    again = stage if checked.kind == "generated" else build
    terminal.say(f"Next: {again}, which sends these requests again")
