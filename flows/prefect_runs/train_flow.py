"""The flow that trains a dual encoder on a set, or goes on with a stopped training."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.prefect_runs.artifacts import artifact_key, call_server_if_available
from flows.prefect_runs.flow_runner import RunLimits, execute_on_threads, name_flow_run
from flows.requests import TrainingRequest
from flows.training import REPORT_FILE, train_dual_encoder


class TrainingParameters(RunLimits, TrainingRequest):
    """Parameters of `querytruth train`, and the maximum run time; the next run resumes."""


@flow(name="train", flow_run_name=name_flow_run, persist_result=False)
def train(training: TrainingParameters) -> State[Any]:
    """Train a dual encoder on a set's own images and queries, and evaluate it on the part that it never saw."""

    def work() -> State[Any]:
        definition: Any = training.load_definition()
        result = train_dual_encoder(definition)
        report = (result.folder / REPORT_FILE).read_text("utf-8")
        call_server_if_available(lambda: create_markdown_artifact(report, artifact_key(definition.name, "training")))
        figures = ", ".join(f"{way} {by['hit@1'][0]:.3f}" for way, by in result.figures.items())
        message = f"{result.folder}: hit@1 {figures}, by chance {result.chance['hit@1']:.3f}"
        return Completed(name="Trained" if result.is_new else "Unchanged", message=message)

    return execute_on_threads((training.label, "train"), training.workers, training.hours, work)
