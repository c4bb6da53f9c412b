"""What can be trusted: checks before a build, shortcuts, audits, tables for review, replies that are asked again."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from backends.file_errors import translate_write_errors
from backends.sets import review_csv, set_files
from flows.audits.audit_report import report_audit
from flows.definition_checks import check_definition
from flows.reply_refresh import refresh_replies as _refresh_replies
from flows.review_session.review_exports import build_review_export
from flows.shortcuts import find_shortcuts, summarize_shortcuts, write_shortcuts
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, find_version
from querytruth.api.set_builds import AnyDefinition, read_definition


def doctor(definition: AnyDefinition) -> pd.DataFrame:
    """Return the checks of a definition: a row with check, found and problem, None where all is well. Endpoints get one
    call that asks nothing; nothing is built."""
    checks = check_definition(read_definition(definition))
    rows = [(one.name, one.found, None if one.problem is None else str(one.problem)) for one in checks]
    return pd.DataFrame(rows, columns=["check", "found", "problem"])


def shortcuts(set_: AnySet, *, to: str | Path | None = None, out: str | Path = DATASETS_FOLDER) -> pd.DataFrame:
    """Return how far file names, positions, sizes, popularity and labels answer the queries: a row per system that sees
    no image. `to`: a folder for the tables."""
    stored = set_files.read_set(find_version(set_, out))
    tables = find_shortcuts(stored)
    if to is not None:
        write_shortcuts(Path(to), tables, summarize_shortcuts(stored, tables))
    return tables["shortcuts"]


def audit_report(
    set_: AnySet,
    name: str = "audit",
    *,
    page_language: Literal["en", "zh"] | None = "en",
    out: str | Path = DATASETS_FOLDER,
) -> dict[str, Any]:
    """Return what the answers of an audit say so far: what the set lacks, what of it is wrong, and what the figures
    would be. Writes the report into the audit's folder, with a page unless `page_language` is None."""
    findings: dict[str, Any] = report_audit(find_version(set_, out), name, page_language)[0]
    return findings


def export_review(
    set_: AnySet, to: str | Path, *, judgments: int = 500, out: str | Path = DATASETS_FOLDER
) -> list[Path]:
    """Write queries.csv and judgments.csv for a spreadsheet into the folder `to`, and return their paths. `judgments`:
    how many are drawn, besides all that wait for one."""
    path, files = find_version(set_, out), []
    for view in ("queries", "judgments"):
        file = Path(to) / f"{view}.csv"
        with translate_write_errors("export review CSV", file, "or give another folder"):
            review_csv.write_review_csv(build_review_export(path, view, judgments), file)
        files.append(file)
    return files


def refresh_replies(definition: AnyDefinition, model: str, *, before: date | None = None) -> int:
    """Have the next build ask a model again; return the number of replies that are set aside: those of before a day
    (UTC), or all. A rebuild of an older version uses the replies of its time."""
    return _refresh_replies(read_definition(definition), model, before)
