"""Builds as Prefect flows, and the ways to run one of them from here. Importing this costs seconds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from flows.definitions import SetDefinition
from flows.prefect_runs.build_flows import gallery_set, precision_set, recall_set
from flows.prefect_runs.build_parameters import (
    BuildParameters,
    GalleryBuild,
    GeneratedBuild,
    PrecisionBuild,
    RecallBuild,
)
from flows.prefect_runs.evaluate_flow import evaluate
from flows.prefect_runs.generated_flows import collect, generated_set, objects, topics
from flows.prefect_runs.one_off_run import run_flow
from flows.prefect_runs.prefect_build_run import PrefectBuildRun
from flows.steps import BuildRun, active_run

BUILD_FLOWS: dict[str, Any] = {
    "gallery": gallery_set,
    "precision": precision_set,
    "recall": recall_set,
    "generated": generated_set,
}
_PARAMETERS: dict[str, type[BuildParameters]] = {
    "gallery": GalleryBuild,
    "precision": PrecisionBuild,
    "recall": RecallBuild,
    "generated": GeneratedBuild,
}
_FLOWS_BY_NAME: dict[str, Any] = {
    flow.fn.__name__: flow for flow in (*BUILD_FLOWS.values(), topics, objects, collect, evaluate)
}


def run_build_in_prefect(definition: SetDefinition, run: BuildRun, runner: str) -> Any:
    """A build under Prefect, told to whoever waits at the terminal. `runner`: threads, dask or ray, the latter two
    with `:ADDRESS` for a cluster that is up already."""
    build_parameters: dict[str, Any] = {"definition": definition, "workers": run.workers, "runner": runner}
    build = _PARAMETERS[definition.kind](**build_parameters)
    prefect_run = PrefectBuildRun(**{field.name: getattr(run, field.name) for field in fields(BuildRun)})
    with active_run(prefect_run):
        BUILD_FLOWS[definition.kind](build)
    return prefect_run.build_result


def get_flow(name: str) -> Any:
    """A flow by its function's name."""
    return _FLOWS_BY_NAME[name]


def run_flow_by_name(name: str, parameters: list[str]) -> str:
    """Run that flow with parameters written KEY=VALUE; in a line what came of it."""
    return run_flow(get_flow(name), parameters)
