"""The flow that publishes somebody else's files as a set, again where they changed."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from pydantic import Field

from flows.definition_loader import parse_definition
from flows.prefect_runs.flow_runner import build_and_publish, execute_on_threads
from flows.requests import ImportRequest
from flows.set_kinds import SET_KINDS


class ImportParameters(ImportRequest):
    """Parameters of `querytruth import`, and the maximum run time."""

    workers: int = Field(2, ge=1, le=256, description="Worker processes for images.")
    hours: float | None = Field(None, gt=0, description="Stop after this many hours.")


def import_run_name() -> str:
    """Return the set and the scheduled time."""
    parameters: ImportParameters = flow_run.parameters["files"]
    return f"import {parameters.to.name} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


@flow(name="import", flow_run_name=import_run_name, persist_result=False)
def import_set(files: ImportParameters) -> State[Any]:
    """Publish a publisher's files as the next version of a set, if their content differs from the last one."""

    def work() -> State[Any]:
        definition = parse_definition(files.keys, "imported", str(files.source))
        return build_and_publish(SET_KINDS[definition.kind], definition)

    names = (files.to.name, "import")
    return execute_on_threads(names, files.workers, files.hours, work, accept_loss=files.accept_loss)
