"""Corrected figures of systems, from the reports of a set's audits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from backends.contained_paths import contained_path
from backends.file_errors import translate_read_errors
from backends.regular_files import read_regular
from backends.sets.audit_files import REPORT_FILE, audit_folder, list_audits, read_audit
from backends.sets.manifest_reading import read_manifest
from builders.errors import UserError
from builders.strict_json import parse_json
from flows.audits.audit_pools import AUDIT_STAGE

CORRECTION_COLUMNS = ["audit", "system", "metric", "before", "value", "low", "high"]
_RESULT = ["query_id", "image_id", "rank"]


@dataclass(frozen=True, slots=True)
class AuditCorrections:
    """What audits say of results: rows of CORRECTION_COLUMNS, and how true the set's judgments are, by audit and
    measure, with the number of pairs that people answered."""

    figures: list[dict[str, Any]]
    truth: list[dict[str, Any]]


def find_corrections(path: Path, runs: Sequence[pd.DataFrame]) -> AuditCorrections:
    """Returns the audited figures of runs (query_id, image_id, rank) on the version at `path`. An audited system is the
    same one where both have the same first results, whatever its name. Raises UserError where no reported audit of this
    version has one of them."""
    digest = read_manifest(path)["content_digest"]
    rows: list[dict[str, Any]] = []
    truth: list[dict[str, Any]] = []
    for name in list_audits(path.parent):
        audit = read_audit(audit_folder(path.parent, name))
        file = contained_path(audit.path, REPORT_FILE, AUDIT_STAGE)
        if audit.manifest["set"]["content_digest"] != digest or not file.is_file():
            continue
        with translate_read_errors(AUDIT_STAGE, file, "make the report again", also=(ValueError, KeyError, TypeError)):
            report = parse_json(read_regular(file))
            figures, answered = report["figures"], report["answers"]["answered"]
            measured = [{"audit": name, "answered": answered, **row} for row in report["truth"]]
        before = len(rows)
        for system, results in audit.ranks.groupby("system", sort=True):
            if any(_is_same(results[_RESULT], run) for run in runs):
                rows += [{"audit": name, **figure} for figure in figures if figure["system"] == system]
        truth += measured if len(rows) > before else []
    if not rows:
        reason = "has no report of an audit of this version with these results"
        set_name = path.parent.name
        next_step = f"querytruth audit start {set_name} --run RUN, judge, querytruth audit report {set_name}"
        raise UserError(AUDIT_STAGE, f"{set_name}/{path.name}", reason, next_step)
    return AuditCorrections([{key: row[key] for key in CORRECTION_COLUMNS} for row in rows], truth)


def _is_same(results: pd.DataFrame, run: pd.DataFrame) -> bool:
    """Whether both return the same images, as far down as both go, for the queries that both have."""
    until = min(int(results["rank"].max()), int(run["rank"].max())) if len(run) else 0
    own = run.loc[run["rank"] <= until, _RESULT].astype({"query_id": "str", "image_id": "str"})
    audited = results[(results["rank"] <= until) & results["query_id"].isin(own["query_id"])]
    pairs = [
        set(part.itertuples(index=False, name=None)) for part in (own, audited.astype({"rank": own["rank"].dtype}))
    ]
    return until > 0 and pairs[0] == pairs[1]
