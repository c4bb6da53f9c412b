"""The flow that evaluates a live search service on a set, and fails where it is worse than a baseline."""

from pathlib import Path
from typing import Any, Literal

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from pydantic import Field

from flows.evaluation import evaluate_systems
from flows.gate import run_gate
from flows.prefect_runs.artifacts import artifact_key, call_server_if_available
from flows.prefect_runs.flow_runner import execute_on_threads
from querytruth.backends.search_systems import load_system_file
from querytruth.definitions import StrictModel
from querytruth.errors import UserError
from querytruth.evaluation import evaluation_result, judged_sets, live_systems, steps, systems
from querytruth.evaluation.release_gate import GATE_STAGE, GateSpec, parse_latency_budget, parse_margins
from querytruth.review.gate_reports import describe_check, render_gate_markdown
from querytruth.sets import set_files


class GateParameters(StrictModel):
    """The set, the service, the baseline, and what is tolerated."""

    of: str = Field(min_length=1, description="The set: its name (the newest version), name/v3, or a path.")
    system: str = Field(min_length=1, description="The service: a YAML file (docs/systems.md).")
    baseline: str = Field(min_length=1, description="A run file, or the folder of a result.")
    metrics: list[str] = Field(default_factory=lambda: ["ndcg@10"], description="What is gated.")
    margins: list[float] = Field(
        default_factory=lambda: [0.01], description="The loss tolerated: for all, or for each."
    )
    slices: list[str] = Field(default_factory=list, description="Gated besides all queries, such as language=zh.")
    max_latency: list[str] = Field(default_factory=list, description="Budgets in milliseconds, such as p95=250.")
    undecided: Literal["pass", "fail"] = Field("fail", description="What too little evidence counts as.")
    max_unknown: float = Field(0.1, ge=0, le=1, description="Share of the results that the set need not know.")
    out: Path = Field(Path("datasets"), description="Where sets lie; a relative path is below the deployment's folder.")
    workers: int = Field(2, ge=1, le=256, description="Worker processes for pictures.")
    hours: float | None = Field(None, gt=0, description="Stop after so long.")


def gate_run_name() -> str:
    """The set and the scheduled time."""
    parameters: GateParameters = flow_run.parameters["gate"]
    return f"gate {parameters.of} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


@flow(name="gate", flow_run_name=gate_run_name, persist_result=False)
def gate(gate: GateParameters) -> State[Any]:
    """Ask a service every query of a set anew, and fail the run where it is worse than the baseline."""
    return execute_on_threads((gate.of, "gate"), gate.workers, gate.hours, lambda: gate_service(gate))


def gate_service(parameters: GateParameters) -> State[Any]:
    """Return the state of the gate: Passed, Undecided (completed or failed, as the parameters state) or Worse. Raises
    UserError."""
    spec = GateSpec(
        parse_margins(parameters.metrics, parameters.margins),
        judged_sets.parse_slices(parameters.slices, GATE_STAGE),
        parse_latency_budget(parameters.max_latency),
    )
    judged = judged_sets.load_judged_set(set_files.find_set(parameters.of, parameters.out))
    described = load_system_file(Path(parameters.system))
    baseline = systems.load_run_system(Path(parameters.baseline), judged)
    live = live_systems.make_live_system(described, judged, live_systems.AskOptions(is_refreshed=True))
    options = steps.EvaluationOptions(list(spec.margins), max_unknown=parameters.max_unknown)
    (stored,) = evaluate_systems(judged, [live], (evaluation_result.TEXT_TO_IMAGE,), options)
    if stored.folder is None:
        raise UserError(GATE_STAGE, parameters.of, "is no set", "name a set")
    report = run_gate(judged, systems.load_run_system(stored.folder, judged), baseline, spec)
    key, text = artifact_key(str(judged.description["name"]), "gate"), render_gate_markdown(report)
    call_server_if_available(lambda: create_markdown_artifact(text, key))
    message = f"{report.candidate} against {report.baseline}: " + "; ".join(
        f"{one.verdict} {one.metric} {one.slice}".rstrip() + f" ({describe_check(one)})" for one in report.checks
    )
    if report.verdict == "PASS":
        return Completed(name="Passed", message=message)
    if report.verdict in ("UNDECIDED", "IDENTICAL"):
        state = Completed if parameters.undecided == "pass" else Failed
        return state(name="Undecided", message=message)
    return Failed(name="Worse", message=message)
