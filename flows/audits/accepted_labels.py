"""Finds the labels of an audit's judge that are precise enough for the next version."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.sets.audit_files import StoredAudit, audit_folder, read_audit
from backends.sets.manifest_reading import read_manifest
from builders.audit.accepted_labels import AcceptedLabels
from builders.audit.pool import CANDIDATE, FIRST_RANKS, LATER_RANKS, PAIR, number_extension
from builders.errors import UserError
from evaluation.audit.judge_card import estimate_precisions
from flows.audits.audit_answers import load_audit, read_answers
from flows.audits.audit_pools import AUDIT_STAGE

_UNJUDGED = (CANDIDATE, FIRST_RANKS, LATER_RANKS)


def find_accepted_labels(path: Path, name: str, accept_at: float) -> AcceptedLabels:
    """Returns the labels of pairs that the version at `path` does not judge, of those grades of which people found,
    with 95% certainty, at least the share `accept_at` relevant. Raises UserError for an audit of another version, one
    without a judge, and where no grade is that precise."""
    audit, _ = load_audit(path, name)
    known, set_name = audit.manifest["set"], path.parent.name
    if read_manifest(path)["content_digest"] != known["content_digest"]:
        reason = f"is of {known['name']}/v{known['version']}, which {path.name} has changed"
        raise UserError(AUDIT_STAGE, name, reason, "start an audit of this version, or leave out --accept-at")
    if audit.manifest["judge"] is None:
        next_step = f"querytruth audit start {set_name} --judge MODEL, or leave out --accept-at"
        raise UserError(AUDIT_STAGE, name, "has no judge whose labels could be taken", next_step)
    if "reason" not in audit.pool:
        raise UserError(AUDIT_STAGE, name, "was drawn by an earlier release", "start another audit with --judge")
    answers = read_answers(path, audit)
    pool = audit.pool[audit.pool["stratum"].str.partition(".")[0].isin(_UNJUDGED) & (audit.pool["judge"] > 0)]
    labels = dict(zip(zip(pool["query_id"], pool["image_id"], strict=True), pool["judge"], strict=True))
    rows = zip(audit.sample["query_id"], audit.sample["image_id"], audit.sample["probability"], strict=True)
    graded = [
        (answers.grades[query, image], labels[query, image], 1 / chance)
        for query, image, chance in rows
        if (query, image) in answers.grades and (query, image) in labels
    ]
    found = estimate_precisions(*([row[column] for row in graded] for column in range(3)))
    precise = {grade: float(one.low) for grade, one in found.items() if one.low >= accept_at}
    if not precise:
        shown = ", ".join(f"{grade}: {one.value:.2f} (from {one.low:.2f})" for grade, one in found.items())
        reason = (
            f"no grade of the judge is precise enough for {accept_at} ({shown or 'people graded none of its pairs'})"
        )
        raise UserError(AUDIT_STAGE, name, reason, "judge more pairs, give a lower --accept-at, or leave it out")
    return _select_labels(audit, precise, len(audit.manifest.get("extensions", ())))


def reload_accepted_labels(set_folder: Path, record: Mapping[str, Any]) -> AcceptedLabels:
    """Returns the labels that an earlier version took, by its record. Raises UserError where the audit is gone or is
    not as it was written."""
    try:
        name, grades, extensions = str(record["audit"]), list(map(int, record["grades"])), int(record["extensions"])
    except (KeyError, TypeError, ValueError):
        reason = "does not say which labels of a judge it took"
        raise UserError(AUDIT_STAGE, set_folder.name, reason, "restore the manifest") from None
    return _select_labels(read_audit(audit_folder(set_folder, name)), dict.fromkeys(grades, 1.0), extensions)


def _select_labels(audit: StoredAudit, precisions: Mapping[int, float], extensions: int) -> AcceptedLabels:
    pool = audit.pool[audit.pool["stratum"].str.partition(".")[0].isin(_UNJUDGED)]
    chosen = pool[pool["judge"].isin(list(precisions)) & (number_extension(pool["stratum"]) <= extensions)]
    judge = audit.manifest["judge"]
    rows = chosen[PAIR].assign(relevance=chosen["judge"], evidence=f"{judge['name']}: " + chosen["reason"])
    record = {"role": "judge", **{key: judge[key] for key in ("name", "revision", "parameters")}}
    return AcceptedLabels(rows.reset_index(drop=True), record, precisions, audit.manifest["name"], extensions)
