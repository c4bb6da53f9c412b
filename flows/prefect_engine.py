"""Builds as Prefect flows, and the ways to run one of them from here. Importing this costs seconds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from flows.definitions import SetDefinition
from flows.prefect_runs.build_flows import gallery_set, precision_set, recall_set
from flows.prefect_runs.evaluate_flow import evaluate
from flows.prefect_runs.generated_flows import collect, generated_set, objects, topics
from flows.prefect_runs.one_off import run_flow
from flows.prefect_runs.parameters import Build, GalleryBuild, GeneratedBuild, PrecisionBuild, RecallBuild
from flows.prefect_runs.task_run import PrefectRun
from flows.steps import Run, running

FLOWS: dict[str, Any] = {
    "gallery": gallery_set,
    "precision": precision_set,
    "recall": recall_set,
    "generated": generated_set,
}
_PARAMETERS: dict[str, type[Build]] = {
    "gallery": GalleryBuild,
    "precision": PrecisionBuild,
    "recall": RecallBuild,
    "generated": GeneratedBuild,
}
_NAMED: dict[str, Any] = {flow.fn.__name__: flow for flow in (*FLOWS.values(), topics, objects, collect, evaluate)}


def run_build(definition: SetDefinition, run: Run, runner: str) -> Any:
    """A build under Prefect, told to whoever waits at the terminal. `runner`: threads, dask or ray, the latter two
    with `:ADDRESS` for a cluster that is up already."""
    given: dict[str, Any] = {"definition": definition, "workers": run.workers, "runner": runner}
    build = _PARAMETERS[definition.kind](**given)
    started = PrefectRun(**{field.name: getattr(run, field.name) for field in fields(Run)})
    with running(started):
        FLOWS[definition.kind](build)
    return started.outcome


def flow_named(name: str) -> Any:
    """A flow by its function's name."""
    return _NAMED[name]


def run_named(name: str, parameters: list[str]) -> str:
    """Run that flow with parameters written KEY=VALUE; in a line what came of it."""
    return run_flow(flow_named(name), parameters)
