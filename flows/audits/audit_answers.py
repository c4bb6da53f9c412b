"""The sample of an audit as CSV for people, and their answers in the set's decision log."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backends.sets import decision_log, review_csv, set_files
from backends.sets.audit_files import StoredAudit, audit_folder, read_audit
from backends.sets.set_files import StoredSet
from builders.audit.answers import AuditAnswers, collect_answers
from builders.audit.review_table import export_sample, mark_as_audit, take_out_undetermined
from builders.decisions.records import QueryDecision, UndeterminedPair
from builders.decisions.review_tables import ReviewExport, read_filled_table
from builders.errors import UserError
from flows.audits.audit_pools import AUDIT_STAGE
from flows.generation.pool_review import ReviewTableOptions


def load_audit(path: Path, name: str) -> tuple[StoredAudit, StoredSet]:
    """Returns an audit of the set at `path` and the version that it is of. Raises UserError where that version is gone
    or has changed."""
    audit = read_audit(audit_folder(path.parent, name))
    known = audit.manifest["set"]
    stored = set_files.read_set(set_files.find_set(str(path.parent / f"v{known['version']}")))
    if stored.manifest["content_digest"] != known["content_digest"]:
        reason = f"is of {known['name']}/v{known['version']} as it was before that version changed"
        raise UserError(AUDIT_STAGE, name, reason, "querytruth verify the set, or start another audit")
    return audit, stored


def build_sample_export(audit: StoredAudit, stored: StoredSet) -> ReviewExport:
    """Returns the sample as a table to fill in, the same at every call."""
    tables, manifest = stored.tables, stored.manifest
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    names = tables.images["path"].where(tables.images["path"].notna(), tables.images["file_name"]).fillna("")
    name = f"{manifest['name']}/v{manifest['version']}"
    return export_sample(
        audit.sample,
        texts,
        dict(zip(tables.images["image_id"], names, strict=True)),
        name,
        audit.manifest["audit_id"],
        sorted({0, *map(int, manifest["grades"])}),
    )


def import_sample(
    path: Path, name: str, file: Path, reviewer: str, options: ReviewTableOptions
) -> tuple[list[QueryDecision], list[UndeterminedPair], list[str]]:
    """Returns the answers of a filled-in sample, those that the person could not tell, and the problems for which none
    is taken; stores nothing. Raises UserError for a file that is not the sample of this audit."""
    audit, stored = load_audit(path, name)
    audit_id = audit.manifest["audit_id"]
    export = build_sample_export(audit, stored)
    filled = review_csv.read_review_csv(file, options.encoding)
    if (filled.export_id, filled.view) != (export.export_id, export.view):
        reason = f"is not the sample of {name} ({filled.view} of {filled.set_name}, export {filled.export_id})"
        next_step = f"fill in what querytruth audit export-csv {path.parent.name} --name {name} writes"
        raise UserError("import audit CSV", file, reason, next_step)
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    rows, undetermined = take_out_undetermined(filled.rows, audit_id, reviewer, at)
    reading = read_filled_table(export, rows, options.allow, reviewer, at)
    return mark_as_audit(reading.decisions, audit_id), undetermined, reading.problems


def take_answers(path: Path, decisions: list[QueryDecision], undetermined: list[UndeterminedPair]) -> int:
    """Adds answers to the set's decision log, but none that is there already; returns the number of those that are."""
    stored: dict[Any, Any] = {
        replace(line, at=""): line
        for kind in (QueryDecision, UndeterminedPair)
        for line in decision_log.read_decisions(path.parent, kind)
    }
    new = [line for line in decisions if replace(line, at="") not in stored]
    unsure = [line for line in undetermined if replace(line, at="") not in stored]
    decision_log.append_decisions(path.parent, new)
    decision_log.append_decisions(path.parent, unsure)
    return len(decisions) + len(undetermined) - len(new) - len(unsure)


def read_answers(path: Path, audit: StoredAudit) -> AuditAnswers:
    """Returns what people answered so far. Raises UserError for a damaged log."""
    return collect_answers(
        audit.manifest["audit_id"],
        decision_log.read_decisions(path.parent, QueryDecision),
        decision_log.read_decisions(path.parent, UndeterminedPair),
    )


def count_waiting(audit: StoredAudit, answers: AuditAnswers) -> int:
    """Returns the number of drawn pairs that fewer people answered than the audit asks for."""
    people = audit.manifest.get("people", 1)
    pairs = zip(audit.sample["query_id"], audit.sample["image_id"], strict=True)
    return sum(len(answers.reviewers.get(pair, ())) < people for pair in pairs)
