"""The quality of a set from Python: its audit, and the damage that it detects."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from flows.definition_loader import load_audit_definition
from querytruth.audit import judge, report
from querytruth.audit.audit_files import AuditManifest
from querytruth.audit.definition import AuditDefinition
from querytruth.audit.notice import notice_set
from querytruth.audit.requests import NoticeRequest
from querytruth.audit.steps import PreparedAudit, plan_audit, prepare_audit, start_audit
from querytruth.requests import takes_request
from querytruth.review.search_views import render_table
from querytruth.sets import set_files
from querytruth.sets.manifest_notes import describe_certificate


@dataclass(frozen=True, slots=True, repr=False)
class AuditReport:
    """The estimates of an audit so far. `findings`: the content of report.json; `file`: where it was written."""

    findings: dict[str, Any]
    file: Path

    @property
    def truth(self) -> pd.DataFrame:
        """Return a row per measure (share that the set lacks, share of it that is wrong): value, and its 95% interval,
        low and high."""
        return pd.DataFrame(self.findings["truth"])

    @property
    def figures(self) -> pd.DataFrame:
        """Return a row per system and metric: as the set judges (before), and corrected (value, low, high)."""
        return pd.DataFrame(self.findings["figures"])

    @property
    def certificate(self) -> dict[str, Any] | None:
        """Return the certificate of an audit that runs until a goal; None for other audits."""
        return self.findings.get("certificate")

    def __repr__(self) -> str:
        """Return the title, and a line per measure, or the certificate."""
        if self.certificate is not None:
            return f"{self._title()}\n{describe_certificate(self.certificate)}"
        return f"{self._title()}\n{self.truth.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return render_table(self._title(), self.truth)

    def _title(self) -> str:
        about = self.findings["set"]
        return f"{self.findings['name']}, an audit of {about['name']}/v{about['version']}"


class SetAudit:
    """An audit as it is defined, with the pool of its runs. Its printed form is a table of the judgments that people
    would make."""

    def __init__(self, definition: AuditDefinition) -> None:
        self.definition = definition
        self._prepared: PreparedAudit = prepare_audit(definition, set_files.find_set(definition.set, definition.out))

    @property
    def plan(self) -> dict[str, Any]:
        """Return the plan of an audit: judgments, interval width, hours of a person, calls of a judge."""
        prepared = self._prepared
        return plan_audit(prepared.path, prepared.pooled, prepared.definition, prepared.judge)

    def start(self) -> AuditManifest:
        """Draw the sample, ask the judge, and store both beside the set's versions; return the manifest. The same
        definition draws the same. People judge on the review page, view Audit."""
        prepared = self._prepared
        judged = None if prepared.judge is None else judge.judge_pool(prepared.judge, prepared.pooled)
        return start_audit(prepared.path, prepared.pooled, self.definition, judged)

    def report(self, page_language: Literal["en", "zh"] | None = "en") -> AuditReport:
        """Estimate from the answers so far how much the set lacks, how much of it is wrong, and what the figures would
        be. Writes the report into the audit's folder, with a page unless `page_language` is None. Raises UserError."""
        return AuditReport(*report.report_audit(self._prepared.path, self.definition.name, page_language))

    def __repr__(self) -> str:
        """Return the plan as a summary, and a line per stratum."""
        plan = self.plan
        about = f"audit of {plan['set']}: {plan['judgments']:,} judgments, about {plan['hours']} hours"
        return f"{about}\n{pd.DataFrame(plan['strata']).to_string(index=False)}"


def open_audit(definition: str | Path | AuditDefinition) -> SetAudit:
    """Prepare an audit: a YAML file, or Audit(set=…, runs=[…]). Nothing is written before it starts. Raises
    UserError."""
    read = definition if isinstance(definition, AuditDefinition) else load_audit_definition(Path(definition), [])
    return SetAudit(read)


@takes_request(NoticeRequest)
def notice(request: NoticeRequest) -> dict[str, Any]:
    """Measure which kinds of damage to a search a set detects, and what that search never finds. Return what
    notice.json has, with `damages`, `blind_kinds` of images, `uncovered_parts`, `typing` and `shortcuts` as data
    frames. Raise UserError."""
    found, page = notice_set(request)
    names = ("damages", "blind_kinds", "uncovered_parts", "typing", "shortcuts")
    return {**found, **{name: pd.DataFrame(found[name]) for name in names}, "page": page}
