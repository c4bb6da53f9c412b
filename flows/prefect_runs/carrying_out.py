"""What all flows have in common: how a run is named, what it runs on, and the state it ends in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from builders.errors import UserError
from flows.builds import build_set
from flows.definitions import SetDefinition
from flows.losses import LosesTooMuch
from flows.prefect_runs.artifacts import show_build
from flows.prefect_runs.log_lines import say_faults_in_one_line
from flows.prefect_runs.parameters import Asking, Build
from flows.prefect_runs.review_gates import PublishAllTheSame, ask, is_deployed
from flows.prefect_runs.runners import is_elsewhere, on_runner
from flows.prefect_runs.task_run import PrefectRun
from flows.prefect_runs.telling import Telling
from flows.publish import BuildResult
from flows.steps import current, running


def run_name() -> str:
    """The flow, the definition's name, and when the run was due."""
    build: Build = flow_run.parameters["build"]
    return f"{flow_run.flow_name} {build.label} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


def carried_out(build: Build, work: Callable[[Any], State[Any]]) -> State[Any]:
    """The state that `work` on the definition comes to."""

    def whole() -> State[Any]:
        definition = build.read()
        run = _run_of(build, definition.name)
        with running(run), on_runner(build.runner, run.workers):
            return work(definition)

    return ended(whole, build.label, build.hours)


def ended(work: Callable[[], State[Any]], label: str, hours: float | None) -> State[Any]:
    """The state that `work` comes to. What the user can mend is the message of a failed one, and a line of its log."""
    say_faults_in_one_line()
    started = time.monotonic()
    try:
        return work()
    except UserError as error:
        return Failed(message=str(error), data=error)
    except TimeoutError:
        if hours is None or time.monotonic() - started < hours * 3600:
            raise
        late = UserError("run", label, f"stopped after {hours:g} hours", "run it again: it goes on from there")
        return Failed(name="Stopped", message=f"{late.reason}; the next run goes on from there", data=late)


def _run_of(build: Build, name: str) -> PrefectRun:
    """The run under way: that of whoever started it in this process, or one by the flow's parameters."""
    run = current()
    if not isinstance(run, PrefectRun):
        run = PrefectRun(workers=build.workers)
        if isinstance(build, Asking):
            run.offline, run.retry_failures = build.offline, build.retry_failures
    run.reporter = Telling(run.reporter, name)
    run.elsewhere = is_elsewhere(build.runner)
    run.ends = None if build.hours is None else time.monotonic() + build.hours * 3600
    return run


def published(definition: SetDefinition) -> State[Any]:
    """Build, publish, and show what came of it."""
    result = _allowed(definition)
    run = current()
    if isinstance(run, PrefectRun):
        run.outcome = result
    show_build(result)
    return _state(result)


def _allowed(definition: SetDefinition) -> BuildResult:
    """A build that would lose much is published where a person says so; the answer holds for just that content."""
    try:
        return build_set(definition)
    except LosesTooMuch as stopped:
        if not is_deployed() or not ask(PublishAllTheSame, f"loses-{stopped.digest}", str(stopped)).publish:
            raise
    return build_set(definition.model_copy(update={"lose_at_most": None}))


def _state(result: BuildResult) -> State[Any]:
    counts, name = result.manifest["counts"], f"{result.manifest['name']}/v{result.version}"
    if not result.is_new:
        return Completed(name="Unchanged", message=f"unchanged: {name} says the same, nothing was published")
    held = f"{counts['images']:,} pictures, {counts['queries']:,} queries, {counts['judgments']:,} judgments"
    return Completed(name="Published", message=f"published {name}: {held}")
