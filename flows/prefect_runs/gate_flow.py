"""The flow that evaluates a live search service on a set, and fails where it is worse than a baseline."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import Field

from flows.evaluation import evaluate_systems, load_judgments
from flows.gate import run_gate
from flows.prefect_runs.artifacts import artifact_key, call_server_if_available
from flows.prefect_runs.flow_runner import execute_on_threads, name_flow_run
from querytruth.backends.search_systems import load_system_file
from querytruth.errors import UserError
from querytruth.evaluation import evaluation_result, live_systems, systems
from querytruth.evaluation.release_gate import GATE_STAGE
from querytruth.evaluation.requests import EvaluationOptions, GateOptions
from querytruth.evaluation.system_answers import AskOptions
from querytruth.review.gate_reports import list_verdicts, render_gate_markdown


class GateParameters(GateOptions):
    """The set, the service, the baseline, and what is tolerated; what is undecided fails unless it is to pass."""

    of: str = Field(min_length=1, description="The set: its name (the newest version), name/v3, or a path.")
    system: Path = Field(description="The service: a YAML file (docs/systems.md).")
    max_unknown: float | None = Field(
        None, ge=0, le=1, description="Largest accepted share of results that the set does not know (default: 0.5)."
    )
    workers: int = Field(2, ge=1, le=256, description="Worker processes for images.")
    hours: float | None = Field(None, gt=0, description="Stop after this many hours.")


@flow(name="gate", flow_run_name=name_flow_run, persist_result=False)
def gate(gate: GateParameters) -> State[Any]:
    """Ask a service every query of a set anew, and fail the run where it is worse than the baseline."""
    return execute_on_threads((gate.of, "gate"), gate.workers, gate.hours, lambda: gate_service(gate))


def gate_service(parameters: GateParameters) -> State[Any]:
    """Return the state of the gate: Passed, Undecided (completed or failed, as the parameters state) or Worse. Raises
    UserError."""
    spec = parameters.spec
    judged = load_judgments(parameters)
    described = load_system_file(parameters.system)
    baseline = systems.load_run_system(parameters.baseline, judged)
    live = live_systems.make_live_system(described, judged, AskOptions(is_refreshed=True))
    options = EvaluationOptions(metrics=list(spec.margins), max_unknown=parameters.max_unknown)
    (stored,) = evaluate_systems(judged, [live], (evaluation_result.TEXT_TO_IMAGE,), options)
    if stored.folder is None:
        raise UserError(GATE_STAGE, parameters.of, "is not a set", "give a set")
    report = run_gate(judged, systems.load_run_system(stored.folder, judged), baseline, spec)
    key, text = artifact_key(str(judged.description["name"]), "gate"), render_gate_markdown(report)
    call_server_if_available(lambda: create_markdown_artifact(text, key))
    reasons = "; ".join(f"{verdict} {name} ({reason})" for verdict, name, reason in list_verdicts(report))
    message = f"{report.candidate} against {report.baseline}: {reasons}"
    if report.verdict == "PASS":
        return Completed(name="Passed", message=message)
    if report.verdict in ("UNDECIDED", "IDENTICAL"):
        return (Completed if parameters.undecided == "pass" else Failed)(name="Undecided", message=message)
    return Failed(name="Worse", message=message)
