"""Runs a build as a Prefect flow in this process. The import takes seconds."""

from typing import Any

from prefect.client.schemas.objects import State

from builders.publication import BuildResult
from flows.prefect_runs import build_flows, flow_runner, one_off_run
from flows.set_kinds import SET_KINDS
from querytruth.backends.steps import BuildRun, active_run
from querytruth.definitions import SetDefinition


def run_build_in_prefect(definition: SetDefinition, run: BuildRun, runner: str) -> BuildResult:
    """The result of a build under Prefect. `runner`: threads, dask or ray, the latter two with `:ADDRESS` for a running
    cluster. Raises the error of a failed run, and ValueError for a kind without a flow."""
    kind = SET_KINDS[definition.kind]
    if kind.parameters is None:
        raise ValueError(f"a set of kind {kind.name} has no flow")
    build = kind.parameters.model_validate({"definition": definition, "workers": run.workers, "runner": runner})
    run.engine_hosts = flow_runner.engine_hosts(runner)
    with one_off_run.use_own_server(), active_run(run):
        final_state: Any = build_flows.create_build_flow(kind)(build, return_state=True)
    state: State[BuildResult] = final_state
    return state.result()
