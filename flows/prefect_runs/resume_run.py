"""`prefect resume`: answers a run that waits for a person, from a shell, by one call of the server's API."""

import sys
from typing import Annotated, Any

import cyclopts
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType

from flows.prefect_runs.one_off_run import parse_parameters
from querytruth.errors import UserError

_STAGE = "resume run"
app = cyclopts.App(name="resume", help="Answer a run that waits for a person.")


@app.default
def resume(
    run: Annotated[str, cyclopts.Parameter(help="Name or id of the run; optional if only one run is waiting.")] = "",
    *,
    param: Annotated[
        tuple[str, ...],
        cyclopts.Parameter(["--param", "-p"], negative="", help="An answer; its value is read as YAML: publish=true"),
    ] = (),
) -> None:
    """Answer a run that waits for a person; without a name, the one that waits.

    Example: prefect resume

    Example: prefect resume "recall-set photos" -p publish=true
    """
    try:
        print(f"{answer_run(run, parse_parameters(list(param)))}: resumed; a worker continues it")
    except UserError as error:
        print(f"error {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


def answer_run(wanted: str, answers: dict[str, Any]) -> str:
    """Resume the waiting run with the answers, and return its name. Raises UserError."""
    with get_client(sync_client=True) as client:
        waits = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED]))
        waiting = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=waits))
        chosen = choose_waiting_run(waiting, wanted)
        answered = client.resume_flow_run(chosen.id, run_input=answers)
        if answered.status.value != "ACCEPT":
            reason = f"was not resumed ({getattr(answered.details, 'reason', answered.status.value)})"
            raise UserError(_STAGE, chosen.name, reason, "give its answers with -p, or answer on the page of the run")
    return chosen.name


def choose_waiting_run(waiting: list[FlowRun], wanted: str) -> FlowRun:
    """Return the run with the name or id; without one, the only one that waits. Raises UserError where none is it."""
    found = [one for one in waiting if not wanted or wanted in (one.name, str(one.id))]
    if len(found) == 1:
        return found[0]
    names = ", ".join(sorted(f"{one.name} ({one.id})" for one in waiting)[:3]) or "none"
    reason = f"matches {len(found)} of {len(waiting)} waiting runs" if wanted else f"{len(waiting)} runs are waiting"
    raise UserError(_STAGE, wanted or "run", reason, f"give one of: {names}")
