"""The flow that publishes somebody else's files as a set, again where they changed."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.definition_loader import parse_definition
from flows.prefect_runs.flow_runner import RunLimits, build_and_publish, execute_on_threads, name_flow_run
from flows.requests import ImportRequest
from flows.set_kinds import SET_KINDS


class ImportParameters(RunLimits, ImportRequest):
    """Parameters of `querytruth import`, and the maximum run time."""

    @property
    def label(self) -> str:
        """Return the name of the set."""
        return self.to.name


@flow(name="import", flow_run_name=name_flow_run, persist_result=False)
def import_set(files: ImportParameters) -> State[Any]:
    """Publish a publisher's files as the next version of a set, if their content differs from the last one."""

    def work() -> State[Any]:
        definition = parse_definition(files.keys, "imported", str(files.source))
        return build_and_publish(SET_KINDS[definition.kind], definition)

    return execute_on_threads((files.label, "import"), files.workers, files.hours, work, accept_loss=files.accept_loss)
