"""Runs a build as a Prefect flow in this process. The import takes seconds."""

from typing import Any

from prefect.client.schemas.objects import State

from flows.definitions import SetDefinition
from flows.prefect_runs.build_flows import create_build_flow
from flows.prefect_runs.own_server import use_own_server
from flows.prefect_runs.part_tasks import engine_hosts
from flows.set_kinds import SET_KINDS
from flows.set_publication import BuildResult
from flows.steps import BuildRun, active_run


def run_build_in_prefect(definition: SetDefinition, run: BuildRun, runner: str) -> BuildResult:
    """The result of a build under Prefect. `runner`: threads, dask or ray, the latter two with `:ADDRESS` for a running
    cluster. Raises the error of a failed run, and ValueError for a kind without a flow."""
    kind = SET_KINDS[definition.kind]
    if kind.parameters is None:
        raise ValueError(f"a set of kind {kind.name} has no flow")
    build = kind.parameters.model_validate({"definition": definition, "workers": run.workers, "runner": runner})
    run.engine_hosts = engine_hosts(runner)
    with use_own_server(), active_run(run):
        final_state: Any = create_build_flow(kind)(build, return_state=True)
    state: State[BuildResult] = final_state
    return state.result()
