"""Runs a build as a Prefect flow of this process. Importing this costs seconds."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State

from flows.definitions import SetDefinition
from flows.prefect_runs.build_flows import create_build_flow
from flows.set_kinds import SET_KINDS
from flows.set_publication import BuildResult
from flows.steps import BuildRun, active_run


def run_build_in_prefect(definition: SetDefinition, run: BuildRun, runner: str) -> BuildResult:
    """What a build under Prefect comes to, reported to whoever waits at the terminal. `runner`: threads, dask or ray,
    the latter two with `:ADDRESS` for a cluster that is up already. Raises the error that a failed run ends with."""
    kind = SET_KINDS[definition.kind]
    if kind.parameters is None:
        raise ValueError(f"a set of kind {kind.name} has no flow")
    build = kind.parameters.model_validate({"definition": definition, "workers": run.workers, "runner": runner})
    with active_run(run):
        final_state: Any = create_build_flow(kind)(build, return_state=True)
    state: State[BuildResult] = final_state
    return state.result()
