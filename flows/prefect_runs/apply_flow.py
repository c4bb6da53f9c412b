"""The flow that publishes what people decided on a set."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from pydantic import BaseModel, Field

from flows.prefect_runs.flow_runner import execute_on_threads, name_flow_run, publish_state
from flows.set_kinds import apply_decisions
from querytruth.defaults import DATASETS_FOLDER
from querytruth.sets.set_files import find_set


class ApplyParameters(BaseModel):
    """The set, and how the flow runs."""

    of: str = Field(min_length=1, description="The set: its name, or a path.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")
    workers: int = Field(2, ge=1, le=256, description="Worker processes for images.")
    hours: float | None = Field(None, gt=0, description="Stop after this many hours.")

    @property
    def label(self) -> str:
        """Return the name of the set, as given."""
        return self.of


@flow(name="apply", flow_run_name=name_flow_run, persist_result=False)
def apply(decisions: ApplyParameters) -> State[Any]:
    """Publish the next version of a set from the decisions made on the newest one."""

    def work() -> State[Any]:
        return publish_state(apply_decisions(find_set(decisions.of, decisions.out), accept_loss=False))

    return execute_on_threads((decisions.of, "apply"), decisions.workers, decisions.hours, work)
