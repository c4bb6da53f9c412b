"""The flow of an audit: it draws the sample, asks the judge, waits for people, and reports."""

from itertools import count
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import Field

from backends.sets import set_files
from backends.sets.audit_files import audit_folder, list_audits, read_audit_manifest
from builders.errors import UserError
from flows.audits.audit_answers import count_waiting, load_audit, read_answers
from flows.audits.audit_judge import judge_pool, load_judge
from flows.audits.audit_plan import DEFAULT_JUDGMENTS, AuditSize, plan_audit
from flows.audits.audit_pools import AUDIT_STAGE, pool_set
from flows.audits.audit_report import report_audit
from flows.audits.audit_start import start_audit
from flows.definitions.audit import JudgeOptions
from flows.definitions.common import StrictModel
from flows.prefect_runs.build_artifacts import create_page_link
from flows.prefect_runs.flow_runner import capture_final_state
from flows.prefect_runs.prefect_build_run import PrefectBuildRun, deadline_after
from flows.prefect_runs.progress import ProgressReporter, artifact_key, call_server_if_available
from flows.prefect_runs.review_gates import ask_person, is_deployed_run
from flows.prefect_runs.task_runners import use_task_runner
from flows.steps import active_run, current_run


class AuditParameters(StrictModel):
    """The set, the systems, the size of the sample, and the judge."""

    of: str = Field(min_length=1, description="The set: its name (the newest version), name/v3, or a path.")
    runs: list[Path] = Field(min_length=1, description="Run files of systems, or the folders of their results.")
    name: str = Field("audit", min_length=1, description="The name of the audit.")
    depth: int = Field(20, ge=1, le=1000, description="Results of each query and run that are pooled.")
    judgments: int = Field(DEFAULT_JUDGMENTS, ge=20, le=100_000, description="Pairs that people judge.")
    width: float | None = Field(None, ge=0.001, le=1, description="As many pairs as an interval of this width needs.")
    queries: int | None = Field(None, ge=5, description="Judge whole queries, so many, in place of single pairs.")
    seed: int = Field(0, description="Of the draw.")
    judge: str | None = Field(None, description="A chat model that sees images and divides the strata.")
    judge_options: dict[str, Any] = Field(default_factory=dict, description="Options of that model.")
    allow_contestant: bool = Field(False, description="The judge may be one of the systems.")
    offline: bool = Field(False, description="Connect to nothing: use the replies that are stored.")
    page_language: str = Field("en", pattern="^(en|zh)$", description="Of the report's page.")
    out: Path = Field(Path("datasets"), description="Where sets lie; a relative path is below the deployment's folder.")
    workers: int = Field(2, ge=1, le=256, description="Questions asked at once.")
    hours: float | None = Field(None, gt=0, description="Stop after so long; the next run goes on from there.")


class JudgedSampleForm(RunInput):
    """Confirms that people have judged the sample."""

    report_now: bool = Field(False, description="Report although pairs are open, or disputed by two people.")


def audit_run_name() -> str:
    """The set and the scheduled time."""
    parameters: AuditParameters = flow_run.parameters["audit"]
    return f"audit {parameters.of} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


@flow(name="audit", flow_run_name=audit_run_name, persist_result=False)
def audit(audit: AuditParameters) -> State[Any]:
    """Draw the sample of an audit, wait until people have judged it, and report what the set lacks."""

    def run_whole() -> State[Any]:
        reporter = ProgressReporter(current_run().reporter, f"{audit.of}-audit")
        run = PrefectBuildRun(reporter, audit.workers, offline=audit.offline, deadline=deadline_after(audit.hours))
        with active_run(run), use_task_runner("threads", run.workers):
            return audit_set(audit)

    return capture_final_state(run_whole, audit.of, audit.hours)


def audit_set(parameters: AuditParameters) -> State[Any]:
    """Returns the state of the audit: Reported, or, in a run that cannot wait, AwaitingPeople with the next command.
    What was drawn, judged and answered before is taken from the set's files. Raises UserError."""
    path = _find_audited_version(parameters)
    _draw_sample(path, parameters)
    last_error = ""
    for attempt in count():
        waiting = last_error or _describe_open_pairs(path, parameters.name)
        if waiting:
            if not is_deployed_run():
                next_step = f"querytruth review {path.parent.name} (view Audit), then run this again"
                return Completed(name="AwaitingPeople", message=f"{waiting}. Next: {next_step}")
            question = _describe_question(path, parameters.name, waiting)
            audit_id = read_audit_manifest(audit_folder(path.parent, parameters.name))["audit_id"]
            form = ask_person(JudgedSampleForm, f"audit-{audit_id}-{attempt}", question)
            last_error = ""
            if not form.report_now and _describe_open_pairs(path, parameters.name):
                continue
        try:
            return _report(path, parameters)
        except UserError as error:
            if error.stage != AUDIT_STAGE or not waiting:
                raise
            last_error = str(error)
    raise AssertionError("people are asked until there is a report")


def _find_audited_version(parameters: AuditParameters) -> Path:
    """The version of an audit that is there already, which a newer version must not change, else the one named."""
    path = set_files.find_set(parameters.of, parameters.out)
    if parameters.name not in list_audits(path.parent):
        return path
    known = read_audit_manifest(audit_folder(path.parent, parameters.name))["set"]
    return set_files.find_set(str(path.parent / f"v{known['version']}"))


def _draw_sample(path: Path, parameters: AuditParameters) -> None:
    """Pool, judge and draw, as `querytruth audit start` does."""
    pooled = pool_set(path, parameters.runs, parameters.depth)
    size = AuditSize(parameters.judgments, parameters.width, parameters.queries)
    judge = None
    if parameters.judge is not None:
        choice = JudgeOptions(
            model=parameters.judge, options=parameters.judge_options, allow_contestant=parameters.allow_contestant
        )
        judge = load_judge(choice, pooled, parameters.runs)
    planned = plan_audit(path, pooled, size, judge)
    key = artifact_key(str(planned["set"]), "audit-plan")
    calls = f"; {planned['judge_calls']:,} calls of {planned['judge']}" if judge is not None else ""
    about = f"{planned['judgments']:,} judgments, about {planned['hours']} hours of a person{calls}"
    call_server_if_available(lambda: create_table_artifact(planned["strata"], key, about))
    judged = None if judge is None else judge_pool(judge, pooled)
    start_audit(path, pooled, parameters.name, size, depth=parameters.depth, seed=parameters.seed, judged=judged)


def _describe_open_pairs(path: Path, name: str) -> str:
    """How many pairs wait for people, "" where none does."""
    drawn, _ = load_audit(path, name)
    answers = read_answers(path, drawn)
    missing, disputed = count_waiting(drawn, answers), len(answers.disputed)
    if not missing and not disputed:
        return ""
    return f"{missing:,} of {len(drawn.sample):,} pairs are open, {disputed:,} disputed by two people"


def _describe_question(path: Path, name: str, waiting: str) -> str:
    set_name = path.parent.name
    ways = [
        f"**{name}**, an audit of {set_name}/{path.name}, waits for people: {waiting}.",
        f"Judge on the page (`querytruth review {set_name}`, view Audit) or in a table (`querytruth audit export-csv "
        f"{set_name} --name {name}`, then `import-csv`), then resume.",
    ]
    return "\n\n".join(ways)


def _report(path: Path, parameters: AuditParameters) -> State[Any]:
    report, page = report_audit(path, parameters.name, parameters.page_language)
    set_name = f"{report['set']['name']}/v{report['set']['version']}"
    rows = {row["measure"]: row for row in report["truth"]}
    lines = [
        f"{text} {rows[measure]['value']:.1%} ({rows[measure]['low']:.1%} to {rows[measure]['high']:.1%})"
        for measure, text in (("missing_share", "missing"), ("wrong_share", "wrong"))
        if None not in (rows[measure][end] for end in ("value", "low", "high"))
    ]
    answers = report["answers"]
    message = f"{set_name}: {', '.join(lines)}; {answers['answered']:,} of {answers['sampled']:,} pairs answered"
    name = f"{report['set']['name']}-{parameters.name}"
    key = artifact_key(name, "report")
    call_server_if_available(lambda: create_markdown_artifact(f"# {parameters.name}\n\n{message}\n", key))
    create_page_link(page, name, f"{parameters.name} of {set_name}")
    return Completed(name="Reported", message=message)
