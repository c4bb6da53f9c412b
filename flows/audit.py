"""The flow of an audit: it draws the sample, asks the judge, waits for people, and reports."""

from itertools import count
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.input import RunInput
from prefect.states import Completed
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from flows.definition_loader import load_audit_definition
from flows.prefect_runs.artifacts import artifact_key, call_server_if_available, create_page_link
from flows.prefect_runs.flow_runner import ask_person, execute_on_threads, is_deployed_run, name_flow_run
from querytruth.audit import audit_files, pool
from querytruth.audit.answers import count_waiting, load_audit, read_answers
from querytruth.audit.card_audit import CardAudit
from querytruth.audit.definition import AuditDefinition
from querytruth.audit.judge import judge_pool
from querytruth.audit.report import report_audit
from querytruth.audit.steps import PreparedAudit, find_audited_version, plan_audit, prepare_audit, start_audit
from querytruth.definitions import StrictModel
from querytruth.errors import UserError
from querytruth.sets.manifest_notes import describe_certificate


class AuditParameters(StrictModel):
    """The definition of an audit, and how the flow runs."""

    definition: Annotated[
        Path | SkipJsonSchema[AuditDefinition],
        Field(description="The definition, a YAML file; a relative path starts at the deployment's folder."),
    ]
    overrides: list[str] = Field(
        default_factory=list, description="Keys of the definition to change for this run, such as judgments=500."
    )
    offline: bool = Field(False, description="Make no connections: use only stored replies.")
    page_language: str = Field("en", pattern="^(en|zh)$", description="Language of the report's page.")
    workers: int = Field(2, ge=1, le=256, description="Number of questions asked in parallel.")
    hours: float | None = Field(None, gt=0, description="Stop after this many hours; the next run resumes.")

    def load_definition(self) -> AuditDefinition:
        """Return the definition with its overrides. Raises UserError for a wrong one."""
        given = self.definition
        return given if isinstance(given, AuditDefinition) else load_audit_definition(given, self.overrides)

    @property
    def label(self) -> str:
        """Return a short name for the run, known before the definition is loaded."""
        given = self.definition
        return given.set if isinstance(given, AuditDefinition) else given.stem


class JudgedSampleForm(RunInput):
    """Confirms that people have judged the sample."""

    report_now: bool = Field(False, description="Report even if pairs are open or disputed.")


@flow(name="audit", flow_run_name=name_flow_run, persist_result=False)
def audit(audit: AuditParameters) -> State[Any]:
    """Draw the sample of an audit, wait until people have judged it, and report what the set lacks."""
    names, options = (audit.label, "audit"), {"offline": audit.offline}
    return execute_on_threads(names, audit.workers, audit.hours, lambda: audit_set(audit), **options)


def audit_set(parameters: AuditParameters) -> State[Any]:
    """Return the state of the audit: Reported, or, in a run that cannot wait, AwaitingPeople with the next command.
    What was drawn, judged and answered before is taken from the set's files. Raises UserError."""
    definition = parameters.load_definition()
    path, name = find_audited_version(definition), definition.name
    _draw_sample(prepare_audit(definition, path))
    last_error = ""
    for attempt in count():
        waiting = last_error or _describe_open_pairs(path, name)
        if waiting:
            if not is_deployed_run():
                next_step = f"run querytruth review {path.parent.name} (view Audit), then run this again"
                return Completed(name="AwaitingPeople", message=f"{waiting}. Next: {next_step}")
            audit_id = audit_files.read_audit_manifest(audit_files.audit_folder(path.parent, name))["audit_id"]
            form = ask_person(JudgedSampleForm, f"audit-{audit_id}-{attempt}", _describe_question(path, name, waiting))
            last_error = ""
            if not form.report_now and _describe_open_pairs(path, name):
                continue
        try:
            return _report(path, name, parameters.page_language)
        except UserError as error:
            if error.stage != pool.AUDIT_STAGE or not waiting:
                raise
            last_error = str(error)
    raise AssertionError("people are asked until there is a report")


def _draw_sample(prepared: PreparedAudit) -> None:
    """Plan, judge and draw, as `querytruth audit start` does."""
    definition, path, judge = prepared.definition, prepared.path, prepared.judge
    planned = plan_audit(path, prepared.pooled, definition, judge)
    key = artifact_key(str(planned["set"]), "audit-plan")
    calls = f"; {planned['judge_calls']:,} calls to {planned['judge']}" if judge is not None else ""
    about = f"{planned['judgments']:,} judgments, about {planned['hours']} hours of people's time{calls}"
    call_server_if_available(lambda: create_table_artifact(planned["strata"], key, about))
    judged = None if judge is None else judge_pool(judge, prepared.pooled)
    start_audit(path, prepared.pooled, definition, judged)


def _describe_open_pairs(path: Path, name: str) -> str:
    """Return how many pairs wait for people, or ""."""
    drawn, stored = load_audit(path, name)
    answers = read_answers(path, drawn)
    if drawn.manifest["unit"] == audit_files.CARDS_UNIT:
        growing = CardAudit(drawn, stored)
        certificate = growing.answer(answers).certify(growing.goal)
        return "" if certificate["is_reached"] else describe_certificate(certificate)
    missing, disputed = count_waiting(drawn, answers), len(answers.disputed)
    if not missing and not disputed:
        return ""
    return f"{missing:,} of {len(drawn.sample):,} pairs are open, {disputed:,} disputed by two people"


def _describe_question(path: Path, name: str, waiting: str) -> str:
    set_name = path.parent.name
    ways = [
        f"**{name}**, an audit of {set_name}/{path.name}, is waiting for people: {waiting}.",
        f"Judge on the page (`querytruth review {set_name}`, view Audit) or in a table (`querytruth review export-csv "
        f"{set_name} --audit {name}`, then `import-csv`), then resume.",
    ]
    return "\n\n".join(ways)


def _report(path: Path, audit_name: str, page_language: str) -> State[Any]:
    report, page = report_audit(path, audit_name, page_language)
    set_name = f"{report['set']['name']}/v{report['set']['version']}"
    rows = {row["measure"]: row for row in report["truth"]}
    lines = [
        f"{text} {rows[measure]['value']:.1%} ({rows[measure]['low']:.1%} to {rows[measure]['high']:.1%})"
        for measure, text in (("missing_share", "missing"), ("wrong_share", "wrong"))
        if measure in rows and None not in (rows[measure][end] for end in ("value", "low", "high"))
    ]
    answers = report["answers"]
    if certificate := report.get("certificate"):
        lines = [describe_certificate(certificate)]
    message = f"{set_name}: {', '.join(lines)}; {answers['answered']:,} of {answers['sampled']:,} pairs answered"
    name = f"{report['set']['name']}-{audit_name}"
    key = artifact_key(name, "report")
    call_server_if_available(lambda: create_markdown_artifact(f"# {audit_name}\n\n{message}\n", key))
    create_page_link(page, name, f"{audit_name} of {set_name}")
    return Completed(name="Reported", message=message)
