"""The results of audits that are used for the set itself: corrected figures of systems, and the certificate."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pandas as pd

from querytruth.audit import audit_files
from querytruth.audit.answers import read_answers
from querytruth.audit.card_audit import CardAudit
from querytruth.audit.next_cards import AnsweredPool
from querytruth.audit.pool import AUDIT_STAGE, PAIR, JsonRecord
from querytruth.backends.files.safe_paths import contained_path, read_regular
from querytruth.backends.files.text_formats import parse_json
from querytruth.errors import UserError, translate_read_errors
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.manifest import read_manifest
from querytruth.sets.manifest_notes import Certificate
from querytruth.sets.set_files import StoredSet

CORRECTION_COLUMNS = ["audit", "system", "metric", "before", "value", "low", "high"]
_RESULT = ["query_id", "image_id", "rank"]
CERTIFIED = (
    *("confidence", "goal", "is_reached", "recall_at_least", "wrong_at_most", "outside_per_query_at_most"),
    *("recall_of_all_at_least", "pool", "asked", "drawn", "judged_again", "to_judge_again"),
)


def find_corrections(path: Path, runs: Sequence[pd.DataFrame]) -> dict[str, list[JsonRecord]]:
    """Return the audit results for runs (query_id, image_id, rank) on the version at `path`: `corrected`, rows of
    CORRECTION_COLUMNS, and `truth`, the quality of the set's judgments, by audit and measure, with the number of
    answered pairs. Systems are matched by their first results, whatever their names. Raises UserError where no reported
    audit of this version has one of them."""
    digest = read_manifest(path)["content_digest"]
    rows: list[JsonRecord] = []
    truth: list[JsonRecord] = []
    for name in audit_files.list_audits(path.parent):
        audit = audit_files.read_audit(audit_files.audit_folder(path.parent, name))
        file = contained_path(audit.path, audit_files.REPORT_FILE, AUDIT_STAGE)
        if audit.manifest["set"]["content_digest"] != digest or not file.is_file():
            continue
        with translate_read_errors(
            AUDIT_STAGE, file, "run querytruth audit report again", also=(ValueError, KeyError, TypeError)
        ):
            report = parse_json(read_regular(file))
            figures, answered = report["figures"], report["answers"]["answered"]
            measured = [{"audit": name, "answered": answered, **row} for row in report["truth"]]
        before = len(rows)
        for system, results in audit.ranks.groupby("system", sort=True):
            if any(_is_same(results[_RESULT], run) for run in runs):
                rows += [{"audit": name, **figure} for figure in figures if figure["system"] == system]
        truth += measured if len(rows) > before else []
    if not rows:
        reason = "no audit report of this version covers these results"
        set_name = path.parent.name
        next_step = f"querytruth audit start {set_name} --run RUN, judge, querytruth audit report {set_name}"
        raise UserError(AUDIT_STAGE, f"{set_name}/{path.name}", reason, next_step)
    return {"corrected": [{key: row[key] for key in CORRECTION_COLUMNS} for row in rows], "truth": truth}


def _is_same(results: pd.DataFrame, run: pd.DataFrame) -> bool:
    """Return whether both return the same images, as far down as both go, for the queries that both have."""
    until = min(int(results["rank"].max()), int(run["rank"].max())) if len(run) else 0
    own = run.loc[run["rank"] <= until, _RESULT].astype({"query_id": "str", "image_id": "str"})
    audited = results[(results["rank"] <= until) & results["query_id"].isin(own["query_id"])]
    pairs = [
        set(part.itertuples(index=False, name=None)) for part in (own, audited.astype({"rank": own["rank"].dtype}))
    ]
    return until > 0 and pairs[0] == pairs[1]


def certify_tables(stored: StoredSet, tables: Tables) -> tuple[Certificate | None, str]:
    """Return, for a manifest, the certificate that an audit of this version gives to its next tables (the highest of
    several, without the content digest), and the reason where there is none ("" where there is one, or no such audit).
    """
    found: list[Certificate] = []
    reason = ""
    for name in audit_files.list_audits(stored.path.parent):
        manifest = audit_files.read_audit_manifest(audit_files.audit_folder(stored.path.parent, name))
        if (
            manifest["unit"] != audit_files.CARDS_UNIT
            or manifest["set"]["content_digest"] != stored.manifest["content_digest"]
        ):
            continue
        growing = CardAudit(audit_files.read_audit(audit_files.audit_folder(stored.path.parent, name)), stored)
        answers = read_answers(stored.path, growing.audit)
        answered = growing.answer(answers)
        if others := _count_others(answered, stored.tables, tables):
            reason = (
                f"Audit {name} certifies nothing about this version: {others:,} pairs differ from what people "
                "answered there."
            )
        elif len(answered.rows):
            stated = growing.certify(answers)
            kept = {key: stated[key] for key in CERTIFIED}
            found.append(cast(Certificate, {"audit": name, "audit_id": manifest["audit_id"], **kept}))
    best = max(found, key=lambda one: one["recall_at_least"], default=None)
    return best, "" if best else reason


def _count_others(answered: AnsweredPool, before: Tables, tables: Tables) -> int:
    """Return how many pairs differ from the audit's: a query without a relevant image may be missing, all others must
    be unchanged."""
    pairs, relevant = answered.pool.pairs, answered.judge_pairs() > 0
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    known = zip(before.queries["query_id"], before.queries["text"], strict=True)
    gone = [query for query, text in known if texts.get(query) != text]
    is_gone = pairs["query_id"].isin(gone).to_numpy()
    marked = tables.qrels[tables.qrels["relevance"] > 0]
    index, truth = (pd.MultiIndex.from_frame(table[PAIR].astype("str")) for table in (pairs, marked))
    lost = len(set(before.images["image_id"]) - set(tables.images["image_id"]))
    reworded = sum(query in texts for query in gone)
    wrong = int(((relevant != index.isin(truth)) & ~is_gone).sum()) + int((relevant & is_gone).sum())
    seen = int((answered.is_relevant & (answered.rows < 0)).sum())  # relevant ones outside the pool
    return wrong + lost + reworded + max(int((~truth.isin(index)).sum()) - seen, 0)
