"""The flow that evaluates systems on a version of a set, and stores the results beside it."""

from pathlib import Path
from typing import Any, Literal

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import Field

from flows.evaluation import SystemSources, evaluate_sources
from flows.prefect_runs.artifacts import artifact_key, call_server_if_available, create_page_link
from flows.prefect_runs.flow_runner import execute_on_threads
from querytruth.definitions import StrictModel
from querytruth.errors import UserError
from querytruth.evaluation import evaluation_result, judged_sets, live_systems, run_evaluation, steps
from querytruth.sets import set_files
from querytruth.sets.published_files import image_roots


class EvaluationParameters(StrictModel):
    """The set, the systems and the metrics of an evaluation: what `querytruth evaluate` takes."""

    of: str = Field(min_length=1, description="The set: its name (the newest version), name/v3, or a path.")
    models: list[str] = Field(default_factory=list, description="Names on the hub, or folders.")
    baselines: list[str] = Field(default_factory=list, description="random, oracle, lexical.")
    runs: list[Path] = Field(default_factory=list, description="Run files, folders of results, or folders of runs.")
    ids: Literal["image_id", "file_name", "path", "source_url", "source_id"] = Field(
        "image_id", description="What run files name pictures by."
    )
    scores: Literal["likeness", "distance"] | None = Field(
        None, description="What the scores of runs and of a matrix are: likeness (the highest is the best) or distance."
    )
    systems: list[Path] = Field(default_factory=list, description="Search services, each described in a YAML file.")
    offline: bool = Field(False, description="Use recorded answers of services only.")
    refresh: bool = Field(False, description="Ask services again, also what is recorded.")
    vectors: list[Path] = Field(default_factory=list, description="Folders with images/ and queries/*.parquet.")
    similarities: Path | None = Field(None, description="A matrix (.npy), texts by pictures or turned.")
    rows: Path | None = Field(None, description="The ids of the matrix's rows, one a line.")
    columns: Path | None = Field(None, description="The ids of its columns, one a line.")
    name: str | None = Field(None, min_length=1, description="The name of a single system.")
    metrics: list[str] = Field(default_factory=list, description="Such as ndcg@10; none: the usual ones.")
    k: int | None = Field(None, ge=1, description="Results that a search gives; none: what the metrics look at.")
    direction: Literal["text_to_image", "image_to_text", "both"] = Field(
        "text_to_image", description="Who searches whom."
    )
    part: dict[str, str | int] = Field(
        default_factory=dict, description="Only the queries with these values, such as language: en, level: 2."
    )
    index: Literal["exact", "ivf", "hnsw"] = Field("exact", description="How vectors are searched.")
    precision: list[float] = Field([0.9], description="Find the lowest score with it.")
    texts: Path | None = Field(None, description="Words about the pictures (CSV), for the lexical baseline.")
    images: list[str] = Field(
        default_factory=list, description="Folders or URLs outside the set in which its pictures may be read."
    )
    seed: int = Field(0, description="Of the random baseline.")
    max_unknown: float | None = Field(None, ge=0, le=1, description="Share of a run that the set need not know (0.1).")
    report: Path | None = Field(None, description="The folder for results; none: beside the set.")
    page: bool = Field(True, description="Write report.html into each result's folder.")
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
    names = evaluation.of, "evaluate"
    return execute_on_threads(names, evaluation.workers, evaluation.hours, lambda: _evaluate_systems(evaluation))


def _evaluate_systems(evaluation: EvaluationParameters) -> State[Any]:
    path = set_files.find_set(evaluation.of, evaluation.out)
    directions = evaluation_result.DIRECTIONS if evaluation.direction == "both" else (evaluation.direction,)
    sources = _list_sources(evaluation)
    options = steps.EvaluationOptions(
        run_evaluation.choose_metrics(evaluation.metrics, evaluation.k),
        evaluation.k,
        evaluation.precision,
        evaluation.report,
        evaluation.page,
        evaluation.max_unknown,
    )
    with image_roots(evaluation.images):
        judged_set = judged_sets.select_part(judged_sets.load_judged_set(path), evaluation.part)
        results = evaluate_sources(judged_set, sources, options, directions, evaluation.name)
    set_name = judged_set.description["name"]
    rows = []
    for stored in results:
        if stored.page is not None:
            about = f"{stored.page.parent.name} on {set_name}"
            create_page_link(stored.page, about, about)
        figures = stored.scored.result.figures
        values = zip(figures["metric"], figures["value"].tolist(), strict=True)
        direction = {"direction": stored.scored.result.direction} if len(directions) > 1 else {}
        rows.append(
            {"system": stored.system.identity, **direction, **{str(name): round(value, 4) for name, value in values}}
        )
    label = f"{set_name}/v{judged_set.description['version']}"
    about = f"Systems on {label}; the results lie beside the set, in {path}"
    call_server_if_available(lambda: create_table_artifact(rows, artifact_key(set_name, "figures"), about))
    return Completed(name="Evaluated", message=f"evaluated {len(rows)} systems on {label}")


def _list_sources(evaluation: EvaluationParameters) -> SystemSources:
    """The systems that the parameters name. Raises UserError for none, and for a matrix without its three files."""
    parts = (evaluation.similarities, evaluation.rows, evaluation.columns)
    matrix = (parts[0], parts[1], parts[2]) if parts[0] and parts[1] and parts[2] else None
    if matrix is None and any(parts):
        raise UserError("evaluate", evaluation.of, "has a part of a matrix", "give similarities, rows and columns")
    sources = SystemSources(
        runs=evaluation.runs,
        baselines=evaluation.baselines,
        vectors=evaluation.vectors,
        models=evaluation.models,
        similarities=matrix,
        index=evaluation.index,
        seed=evaluation.seed,
        texts=evaluation.texts,
        systems=evaluation.systems,
        ask=live_systems.AskOptions(evaluation.offline, evaluation.refresh),
        ids=evaluation.ids,
        scores=evaluation.scores,
    )
    named = [sources.runs, sources.baselines, sources.vectors, sources.models, sources.systems]
    if matrix is None and not any(named):
        raise UserError("evaluate", evaluation.of, "no system is named", "name models, baselines, runs or systems")
    return sources
