"""Run the work of a flow on its task runner, suspend it if a person has to fill in a form, and return its state.

A suspended run ends its process. A resumed one starts over, and finds the earlier work in the set's files; each
question has a key by which its answer is found again.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import BaseModel, Field

from builders.publication import BuildResult
from builders.publication_guards import ShrinkageError
from flows.prefect_runs.artifacts import ProgressReporter, create_build_artifacts
from flows.prefect_runs.build_run import PrefectBuildRun, deadline_after
from flows.requests import BuildRequest, CollectStage
from flows.set_kind import SetKind
from querytruth.backends.steps import active_run, cluster_hosts, current_run, use_cluster
from querytruth.definitions import SetDefinition
from querytruth.errors import BudgetSpentError, UserError
from querytruth.sets.review_csv import ReviewTableOptions
from querytruth.sets.review_tables import ImportTolerances

InputForm = TypeVar("InputForm", bound=RunInput)

_ANSWER_TIMEOUT = 30 * 24 * 3600  # seconds; after that the next run asks again
WAITING_PARTS = 256  # that are given to a cluster at a time: it decides how many it does
# Prefect raises a failed run's error again when it sets the state, and logs it as unexpected.
_LOGGERS = ("prefect.flow_runs", "prefect.task_runs", "prefect.engine")


class RunLimits(BaseModel):
    """How a flow runs whose parameters are also those of a command."""

    workers: int = Field(2, ge=1, le=256, description="Worker processes for images.")
    hours: float | None = Field(None, gt=0, description="Stop after this many hours.")


class PublishAnyway(RunInput):
    """Whether to publish a version that loses much of the last one."""

    publish: bool = Field(False, description="Publish it. Otherwise the run fails, and the last version stays.")


class FilledTableForm(RunInput):
    """Confirm that the table is filled in; the options are those of `querytruth objects --help`."""

    encoding: str = Field("", description="Encoding of the file, if the file does not state it; e.g. gb18030.")
    allow_missing: bool = Field(False, description="Accept rows that were deleted from the table.")
    allow_doubled: bool = Field(False, description="Accept repeated rows if they agree.")
    allow_unknown: bool = Field(False, description="Accept rows that were added; they are ignored.")
    allow_changed: bool = Field(False, description="Accept changes in cells that are not to be edited.")

    def to_filling(self) -> ReviewTableOptions:
        """Return the options as the table's reader takes them."""
        allow = ImportTolerances(self.allow_missing, self.allow_doubled, self.allow_unknown, self.allow_changed)
        return ReviewTableOptions(allow, self.encoding or None)


class JudgmentsGiven(RunInput):
    """Confirms that people have judged; the run then publishes what they decided."""

    comment: str = Field("", description="A note for the run; it has no effect.")


def is_deployed_run() -> bool:
    """Return whether the run can wait for a person: a one-off run ends instead, and prints the next command."""
    return deployment.id is not None


def ask_person(question: type[InputForm], key: str, about: str) -> InputForm:
    """Suspend the run until a person has filled in the form; `about` is its description, in Markdown."""
    form = question.with_initial_data(description=about)
    key = re.sub(r"[^a-z0-9]+", "-", key.lower())
    return suspend_flow_run(wait_for_input=form, key=key, timeout=_ANSWER_TIMEOUT)


def engine_hosts(runner: str) -> tuple[str, ...]:
    """Return the hosts that a run by Prefect talks to: this machine, the cluster of the runner, and the server."""
    server = urlsplit(PREFECT_API_URL.value() or "").hostname
    return (*cluster_hosts(runner), *([server] if server else []))


@contextmanager
def use_part_threads(count: int) -> Iterator[None]:
    """Run the tasks of the current flow on so many threads, in place of the task runner that it has started with."""
    context = FlowRunContext.get()
    if context is None:
        raise RuntimeError("tasks must run inside a flow")
    threads: Any = ThreadPoolTaskRunner(max_workers=count)
    with threads as runner, context.model_copy(update={"task_runner": runner}):
        yield


def name_flow_run() -> str:
    """Return the name of the flow, the label of its one parameter, and the scheduled time."""
    (parameters,) = flow_run.parameters.values()
    return f"{flow_run.flow_name} {parameters.label} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


def execute_build(build: BuildRequest | CollectStage, work: Callable[[Any], State[Any]]) -> State[Any]:
    """Load the definition, and return the state of `work` on it."""

    def run_whole() -> State[Any]:
        definition = build.load_definition()
        reporter, deadline = ProgressReporter(current_run().reporter, definition.name), deadline_after(build.hours)
        hosts = engine_hosts(build.runner)
        run = PrefectBuildRun(reporter, build.worker_count, **build.run_flags, engine_hosts=hosts, deadline=deadline)
        run.run_url = (flow_run.ui_url or "") if is_deployed_run() else ""  # of a server that stays
        at_once = run.workers if build.runner == "threads" else WAITING_PARTS
        with (
            active_run(run),
            use_cluster(build.runner, run.workers) as run.cluster,
            use_part_threads(at_once),
        ):
            return work(definition)

    return capture_final_state(run_whole, build.label, build.hours)


def execute_on_threads(
    names: tuple[str, str], workers: int, hours: float | None, work: Callable[[], State[Any]], **options: Any
) -> State[Any]:
    """Return the state of `work`, whose parts run on threads of this process. `names`: of the set and of the flow, for
    progress and errors; `options`: further ones of the run."""

    def run_whole() -> State[Any]:
        reporter = ProgressReporter(current_run().reporter, "-".join(names))
        run = PrefectBuildRun(reporter, workers, deadline=deadline_after(hours), **options)
        with active_run(run), use_part_threads(workers):
            return work()

    return capture_final_state(run_whole, names[0], hours)


def capture_final_state(work: Callable[[], State[Any]], label: str, hours: float | None) -> State[Any]:
    """Return the state that `work` returns. A UserError becomes a failed state with its one line as message; so do a
    spent budget and the end of the given `hours`, by names of their own."""
    log_user_errors_in_one_line()
    started = time.monotonic()
    try:
        return work()
    except BudgetSpentError as error:
        return Failed(name="BudgetSpent", message=str(error), data=error)
    except UserError as error:
        return Failed(message=str(error), data=error)
    except TimeoutError:
        if hours is None or time.monotonic() - started < hours * 3600:
            raise
        late = UserError("run", label, f"stopped after {hours:g} hours", "run it again to resume")
        return Failed(name="Stopped", message=f"{late.reason}; the next run resumes", data=late)


def build_and_publish(kind: SetKind, definition: SetDefinition) -> State[Any]:
    """Build, publish, and create the artifacts."""
    result = kind.write_version_page(_build_with_approval(kind, definition))
    create_build_artifacts(result)
    return publish_state(result)


def _build_with_approval(kind: SetKind, definition: SetDefinition) -> BuildResult:
    """Build and publish; where too much would be lost, a person decides, and the answer holds for that content only."""
    try:
        return kind.build_set(definition)
    except ShrinkageError as stopped:
        if not is_deployed_run() or not ask_person(PublishAnyway, f"loses-{stopped.digest}", str(stopped)).publish:
            raise
    return kind.build_set(definition.model_copy(update={"lose_at_most": None}))


def publish_state(result: BuildResult) -> State[Any]:
    """Return the final state of what published a version, or found nothing new."""
    counts, name = result.manifest["counts"], f"{result.manifest['name']}/v{result.version}"
    stored = "" if result.url is None else f"; stored as {result.url}"
    if not result.is_new:
        message = f"unchanged: the content equals {name}, nothing was published{stored}"
        return Completed(name="Unchanged", message=message, data=result)
    contents = f"{counts['images']:,} images, {counts['queries']:,} queries, {counts['judgments']:,} judgments"
    return Completed(name="Published", message=f"published {name}: {contents}{stored}", data=result)


class _UserErrorFilter(logging.Filter):
    """Changes records before they reach the handlers of the terminal and the server."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove the traceback of a UserError; every record passes."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, UserError):
            record.msg, record.args = str(error), None
        if error is None or isinstance(error, UserError):
            record.exc_info = None  # without an error Prefect would print “NoneType: None”
        return True


_USER_ERROR_FILTER = _UserErrorFilter()


def log_user_errors_in_one_line() -> None:
    """Log a UserError as one line in all runs of this process; a second call changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_USER_ERROR_FILTER)
