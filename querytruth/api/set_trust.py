"""What can be trusted: checks before a build, shortcuts, overlaps, audits, calibration, tables for review, replies that
are asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from builders.recall.calibration_steps import calibrate_set
from flows.definition_checks import check_definition
from flows.definition_loader import load_audit_definition
from flows.rebuild import refresh_replies as _refresh_replies
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, find_version
from querytruth.api.set_builds import AnyDefinition, read_definition
from querytruth.audit import judge, overlap_page, report
from querytruth.audit.definition import AuditDefinition
from querytruth.audit.overlap import OverlapOptions, drop_leaked_queries, find_overlap, summarize_overlap, write_overlap
from querytruth.audit.shortcuts import find_shortcuts, summarize_shortcuts, write_shortcuts
from querytruth.audit.steps import PreparedAudit, plan_audit, prepare_audit, start_audit
from querytruth.errors import translate_write_errors
from querytruth.review.review_exports import build_review_export
from querytruth.sets import review_csv, set_files
from querytruth.sets.leaked_queries import overlap_folder
from querytruth.terminal import current_user_name


def doctor(definition: AnyDefinition) -> pd.DataFrame:
    """Return the checks of a definition: a row with check, found and problem, None where all is well. Endpoints get one
    call that asks nothing; nothing is built."""
    checks = check_definition(read_definition(definition))
    rows = [(one.name, one.found, None if one.problem is None else str(one.problem)) for one in checks]
    return pd.DataFrame(rows, columns=["check", "found", "problem"])


def shortcuts(set_: AnySet, *, to: str | Path | None = None, out: str | Path = DATASETS_FOLDER) -> pd.DataFrame:
    """Return how far file names, positions, sizes, popularity and labels answer the queries: a row per system that sees
    no image. `to`: a folder for the tables and the page."""
    stored = set_files.read_set(find_version(set_, out))
    tables = find_shortcuts(stored)
    if to is not None:
        write_shortcuts(Path(to), stored, tables, summarize_shortcuts(stored, tables))
    return tables["shortcuts"]


def overlap(
    set_: AnySet,
    against: Sequence[str | Path],
    *,
    pdq: bool = False,
    embedder: str | None = None,
    min_cosine: float | None = None,
    to: str | Path | None = None,
    drop: bool = False,
    page_language: Literal["en", "zh"] = "en",
    out: str | Path = DATASETS_FOLDER,
) -> dict[str, pd.DataFrame]:
    """Return what other collections have of a set: `pairs` of images and texts, and `queries` with what leaks them.
    `against`: folders or shards of images, indexes, tables or sets; `pdq`: compare PDQ hashes, too; `embedder`: and the
    vectors of this model, from `min_cosine` on. Written beside the
    set, for slices of evaluations, or to the folder `to`, with a page. `drop`: decide that leaked queries leave the
    set."""
    stored, others = set_files.read_set(find_version(set_, out)), [str(one) for one in against]
    found = find_overlap(stored, others, Path(out), OverlapOptions(pdq, embedder, min_cosine))
    folder = overlap_folder(stored.path) if to is None else Path(to)
    write_overlap(folder, found.tables, summarize_overlap(stored, others, found))
    overlap_page.write_overlap_page(folder, stored, found.tables, Path(out), page_language)
    if drop:
        drop_leaked_queries(stored, found.queries, others, current_user_name())
    return found.tables


def calibrate(
    set_: AnySet, *, to: str | Path | None = None, out: str | Path = DATASETS_FOLDER
) -> tuple[Path, pd.DataFrame]:
    """Fit the probability that a caption fits another image to the judgments of a recall set's reviewers. Returns the
    file for `ambiguity.calibration`, and a row per language: pairs, fit, and the mean squared errors before (None
    without an earlier calibration) and on held-out queries. Raises UserError for too few judgments."""
    file, fitted = calibrate_set(find_version(set_, out), None if to is None else Path(to))
    rows = [(one.calibration.language, one.pairs, one.fit, one.before, one.after) for one in fitted]
    return file, pd.DataFrame(rows, columns=["language", "pairs", "fit", "error_before", "error_held_out"])


def audit_plan(definition: str | Path | AuditDefinition) -> dict[str, Any]:
    """Return what an audit would judge, the width of its interval, a person's hours and a judge's calls. Writes
    nothing. `definition`: a YAML file, or Audit(set=…, runs=[…])."""
    audit = _prepare(definition)
    return plan_audit(audit.path, audit.pooled, audit.size, audit.judge)


def audit_start(definition: str | Path | AuditDefinition) -> dict[str, Any]:
    """Draw the sample of an audit, ask its judge, and store both beside the set's versions; return the manifest. The
    same definition draws the same. People judge on the review page, view Audit."""
    audit = _prepare(definition)
    wanted, judged = audit.definition, None if audit.judge is None else judge.judge_pool(audit.judge, audit.pooled)
    return start_audit(
        audit.path, audit.pooled, wanted.name, audit.size, depth=wanted.depth, seed=wanted.seed, judged=judged
    )


def _prepare(definition: str | Path | AuditDefinition) -> PreparedAudit:
    read = definition if isinstance(definition, AuditDefinition) else load_audit_definition(Path(definition), [])
    return prepare_audit(read, set_files.find_set(read.set, read.out))


def audit_report(
    set_: AnySet,
    name: str = "audit",
    *,
    page_language: Literal["en", "zh"] | None = "en",
    out: str | Path = DATASETS_FOLDER,
) -> dict[str, Any]:
    """Return what the answers of an audit say so far: what the set lacks, what of it is wrong, and what the figures
    would be. Writes the report into the audit's folder, with a page unless `page_language` is None."""
    findings: dict[str, Any] = report.report_audit(find_version(set_, out), name, page_language)[0]
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
            review_csv.write_review_csv(build_review_export(path, view, judgments), file, path)
        files.append(file)
    return files


def refresh_replies(definition: AnyDefinition, model: str, *, before: date | None = None) -> int:
    """Have the next build ask a model again; return the number of replies that are set aside: those of before a day
    (UTC), or all. A rebuild of an older version uses the replies of its time."""
    return _refresh_replies(read_definition(definition), model, before)
