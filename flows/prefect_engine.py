"""Runs a build as a Prefect flow in this process. The import takes seconds."""

from typing import Any

from prefect.client.schemas.objects import State

from builders.publication import BuildResult
from flows.prefect_runs import build_flows, flow_runner, one_off_run
from flows.requests import BuildRequest
from flows.set_kinds import SET_KINDS
from querytruth.backends.steps import BuildRun, Reporter, active_run
from querytruth.definitions import SetDefinition


def run_build_in_prefect(request: BuildRequest, definition: SetDefinition, reporter: Reporter) -> BuildResult:
    """Return the result of a build of the loaded definition under Prefect, with the other fields of the request. Raises
    the error of a failed run, and ValueError for a kind without a flow."""
    kind = SET_KINDS[definition.kind]
    if kind.parameters is None:
        raise ValueError(f"a set of kind {kind.name} has no flow")
    stated = {name: getattr(request, name) for name in kind.parameters.model_fields if hasattr(request, name)}
    build = kind.parameters.model_validate({**stated, "definition": definition, "overrides": [], "out": None})
    run = BuildRun(reporter, engine_hosts=flow_runner.engine_hosts(request.runner))
    with one_off_run.use_own_server(), active_run(run):
        final_state: Any = build_flows.create_build_flow(kind)(build, return_state=True)
    state: State[BuildResult] = final_state
    return state.result()
