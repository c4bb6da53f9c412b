"""The flow that evaluates: models and baselines on the newest version of a set, each result beside the set."""

from __future__ import annotations

import time
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
from evaluation.evaluated import TEXT_TO_IMAGE
from evaluation.scoring import DEFAULT
from flows.definitions.parts import Strict
from flows.prefect_runs.carrying_out import ended
from flows.prefect_runs.pages import show_result_page
from flows.prefect_runs.runners import on_runner
from flows.prefect_runs.task_run import PrefectRun
from flows.prefect_runs.telling import Telling, if_it_answers, slug
from flows.scoring import systems
from flows.scoring.encoded_sets import encoded_by_model
from flows.scoring.judged_sets import View, judged_set, view_of
from flows.scoring.systems import System
from flows.scoring_run import Scored, keep_result, result_folder, scored
from flows.steps import running


class Evaluation(Strict):
    """What is evaluated on what."""

    of: str = Field(min_length=1, description="The set: its name (the newest version), name/v3, or a path.")
    models: list[str] = Field(default_factory=list, description="Names on the hub, or folders.")
    baselines: list[str] = Field(default_factory=list, description="random, oracle, lexical.")
    metrics: list[str] = Field(default_factory=list, description="Such as ndcg@10; none: the usual ones.")
    out: Path = Field(Path("datasets"), description="Where sets lie; a relative path is below the deployment's folder.")
    workers: int = Field(2, ge=1, le=256, description="Worker processes for pictures.")
    hours: float | None = Field(None, gt=0, description="Stop after so long.")


def run_name() -> str:
    """What is evaluated, and when the run was due."""
    asked: Evaluation = flow_run.parameters["evaluation"]
    return f"evaluate {asked.of} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


@flow(name="evaluate", flow_run_name=run_name, persist_result=False)
def evaluate(evaluation: Evaluation) -> State[Any]:
    """Have systems search the pictures of every query, and put their figures beside the set."""

    def whole() -> State[Any]:
        ends = None if evaluation.hours is None else time.monotonic() + evaluation.hours * 3600
        run = PrefectRun(workers=evaluation.workers, ends=ends)
        run.reporter = Telling(run.reporter, f"{evaluation.of}-evaluate")
        with running(run), on_runner("threads", run.workers):
            return _evaluated(evaluation)

    return ended(whole, evaluation.of, evaluation.hours)


def _evaluated(evaluation: Evaluation) -> State[Any]:
    judged = judged_set(set_files.find(evaluation.of, evaluation.out))
    asked = [systems.baseline(name) for name in evaluation.baselines]
    asked += [systems.encoded(encoded_by_model(name, judged)) for name in evaluation.models]
    if not asked:
        raise UserError("evaluate", evaluation.of, "no system is named", "name models or baselines")
    view = view_of(judged, TEXT_TO_IMAGE, evaluation.metrics or DEFAULT, (0.9,))
    rows = [_row(_kept(scored(view, system), view, system), system) for system in asked]
    name = f"{judged.described['name']}/v{judged.described['version']}"
    about = f"Systems on {name}; the results lie beside the set, in {set_files.find(evaluation.of, evaluation.out)}"
    if_it_answers(lambda: create_table_artifact(rows, slug(judged.described["name"], "figures"), about))
    return Completed(name="Evaluated", message=f"evaluated {len(rows)} systems on {name}")


def _kept(result: Scored, view: View, system: System) -> Scored:
    folder = result_folder(view.judged, system)
    if folder is not None:
        keep_result(result, view.judged.queries, folder)
        show_result_page(result.evaluated, view, folder)
    return result


def _row(result: Scored, system: System) -> dict[str, Any]:
    figures = result.evaluated.figures
    shown = zip(figures["metric"], figures["value"].tolist(), strict=True)
    return {"system": system.identity, **{str(name): round(value, 4) for name, value in shown}}
