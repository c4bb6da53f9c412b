"""The flow that evaluates systems on a version of a set, and stores the results beside it."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import Field

from flows.evaluation import evaluate_request, load_judgments
from flows.prefect_runs.artifacts import artifact_key, call_server_if_available, create_page_link
from flows.prefect_runs.flow_runner import RunLimits, execute_on_threads, name_flow_run
from querytruth.evaluation.requests import EvaluationRequest
from querytruth.sets.published_files import image_roots


class EvaluationParameters(RunLimits, EvaluationRequest):
    """Parameters of `querytruth evaluate`, and the maximum run time."""

    of: str = Field(min_length=1, description="The set: its name (the newest version), name/v3, or a path.")


@flow(name="evaluate", flow_run_name=name_flow_run, persist_result=False)
def evaluate(evaluation: EvaluationParameters) -> State[Any]:
    """Evaluate systems on the queries of a set, and store their results beside it."""
    names = evaluation.of, "evaluate"
    return execute_on_threads(names, evaluation.workers, evaluation.hours, lambda: _evaluate_systems(evaluation))


def _evaluate_systems(evaluation: EvaluationParameters) -> State[Any]:
    with image_roots(evaluation.images):
        judged_set = load_judgments(evaluation)
        results = evaluate_request(evaluation, judged_set)
    set_name = judged_set.description["name"]
    rows = []
    for stored in results:
        if stored.page is not None:
            about = f"{stored.page.parent.name} on {set_name}"
            create_page_link(stored.page, about, about)
        figures = stored.scored.result.figures
        values = zip(figures["metric"], figures["value"].tolist(), strict=True)
        direction = {"direction": stored.scored.result.direction} if len(evaluation.directions) > 1 else {}
        rows.append(
            {"system": stored.system.identity, **direction, **{str(name): round(value, 4) for name, value in values}}
        )
    label = f"{set_name}/v{judged_set.description['version']}"
    about = f"Systems on {label}; the results are stored beside the set"
    call_server_if_available(lambda: create_table_artifact(rows, artifact_key(set_name, "figures"), about))
    return Completed(name="Evaluated", message=f"evaluated {len(rows)} systems on {label}")
