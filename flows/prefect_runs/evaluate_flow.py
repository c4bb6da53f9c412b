"""The flow that evaluates models and baselines on a version of a set, and stores the results beside it."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import Field

from backends.sets import set_files
from builders.errors import UserError
from evaluation.evaluation_result import TEXT_TO_IMAGE
from evaluation.metric_scores import DEFAULT_METRICS
from flows.definitions.common import StrictModel
from flows.evaluation_run import EvaluationOptions, evaluate_systems
from flows.prefect_runs.build_artifacts import create_page_link
from flows.prefect_runs.flow_runner import capture_final_state
from flows.prefect_runs.prefect_build_run import PrefectBuildRun, deadline_after
from flows.prefect_runs.progress import ProgressReporter, artifact_key, call_server_if_available
from flows.prefect_runs.task_runners import use_task_runner
from flows.scoring import systems
from flows.scoring.encoded_sets import encode_set
from flows.scoring.judged_sets import load_judged_set
from flows.steps import active_run, current_run


class EvaluationParameters(StrictModel):
    """The set, the systems and the metrics of an evaluation."""

    of: str = Field(min_length=1, description="The set: its name (the newest version), name/v3, or a path.")
    models: list[str] = Field(default_factory=list, description="Names on the hub, or folders.")
    baselines: list[str] = Field(default_factory=list, description="random, oracle, lexical.")
    metrics: list[str] = Field(default_factory=list, description="Such as ndcg@10; none: the usual ones.")
    out: Path = Field(Path("datasets"), description="Where sets lie; a relative path is below the deployment's folder.")
    workers: int = Field(2, ge=1, le=256, description="Worker processes for pictures.")
    hours: float | None = Field(None, gt=0, description="Stop after so long.")


def evaluation_run_name() -> str:
    """The set and the scheduled time."""
    evaluation: EvaluationParameters = flow_run.parameters["evaluation"]
    return f"evaluate {evaluation.of} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


@flow(name="evaluate", flow_run_name=evaluation_run_name, persist_result=False)
def evaluate(evaluation: EvaluationParameters) -> State[Any]:
    """Evaluate systems on the queries of a set, and store their results beside it."""

    def run_whole() -> State[Any]:
        reporter = ProgressReporter(current_run().reporter, f"{evaluation.of}-evaluate")
        run = PrefectBuildRun(reporter, evaluation.workers, deadline=deadline_after(evaluation.hours))
        with active_run(run), use_task_runner("threads", run.workers):
            return _evaluate_systems(evaluation)

    return capture_final_state(run_whole, evaluation.of, evaluation.hours)


def _evaluate_systems(evaluation: EvaluationParameters) -> State[Any]:
    path = set_files.find_set(evaluation.of, evaluation.out)
    judged_set = load_judged_set(path)
    evaluated = [systems.make_baseline(name) for name in evaluation.baselines]
    evaluated += [systems.make_vector_system(encode_set(name, judged_set)) for name in evaluation.models]
    if not evaluated:
        raise UserError("evaluate", evaluation.of, "no system is named", "name models or baselines")
    set_name = judged_set.description["name"]
    options = EvaluationOptions(evaluation.metrics or DEFAULT_METRICS)
    rows = []
    for stored in evaluate_systems(judged_set, evaluated, (TEXT_TO_IMAGE,), options):
        if stored.page is not None:
            about = f"{stored.page.parent.name} on {set_name}"
            create_page_link(stored.page, about, about)
        figures = stored.scored.result.figures
        values = zip(figures["metric"], figures["value"].tolist(), strict=True)
        rows.append({"system": stored.system.identity, **{str(name): round(value, 4) for name, value in values}})
    label = f"{set_name}/v{judged_set.description['version']}"
    about = f"Systems on {label}; the results lie beside the set, in {path}"
    call_server_if_available(lambda: create_table_artifact(rows, artifact_key(set_name, "figures"), about))
    return Completed(name="Evaluated", message=f"evaluated {len(rows)} systems on {label}")
