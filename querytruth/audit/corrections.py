"""What the audits of a set give back to it: labels of a judge, corrected figures of systems, and the certificate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pandas as pd

from querytruth.audit import audit_files
from querytruth.audit.answers import AcceptedLabels, load_audit, read_answers
from querytruth.audit.extension import CardAudit
from querytruth.audit.judge_card import estimate_precisions
from querytruth.audit.next_cards import AnsweredPool
from querytruth.audit.pool import AUDIT_STAGE, CANDIDATE, FIRST_RANKS, LATER_RANKS, PAIR, JsonRecord, number_extension
from querytruth.backends.files.safe_paths import contained_path, read_regular
from querytruth.backends.files.text_formats import parse_json
from querytruth.errors import UserError, translate_read_errors
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.manifest import Model, read_manifest
from querytruth.sets.manifest_notes import AcceptedLabelsRecord, Certificate
from querytruth.sets.set_files import StoredSet

CORRECTION_COLUMNS = ["audit", "system", "metric", "before", "value", "low", "high"]
_RESULT = ["query_id", "image_id", "rank"]
CERTIFIED = (
    *("confidence", "goal", "is_reached", "recall_at_least", "wrong_at_most", "outside_per_query_at_most"),
    *("pool", "asked", "drawn"),
)
_UNJUDGED = (CANDIDATE, FIRST_RANKS, LATER_RANKS)


@dataclass(frozen=True, slots=True)
class AuditCorrections:
    """What audits say of results: rows of CORRECTION_COLUMNS, and how true the set's judgments are, by audit and
    measure, with the number of pairs that people answered."""

    figures: list[JsonRecord]
    truth: list[JsonRecord]


def find_corrections(path: Path, runs: Sequence[pd.DataFrame]) -> AuditCorrections:
    """Returns the audited figures of runs (query_id, image_id, rank) on the version at `path`. An audited system is the
    same one where both have the same first results, whatever its name. Raises UserError where no reported audit of this
    version has one of them."""
    digest = read_manifest(path)["content_digest"]
    rows: list[JsonRecord] = []
    truth: list[JsonRecord] = []
    for name in audit_files.list_audits(path.parent):
        audit = audit_files.read_audit(audit_files.audit_folder(path.parent, name))
        file = contained_path(audit.path, audit_files.REPORT_FILE, AUDIT_STAGE)
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


def find_accepted_labels(path: Path, name: str, accept_at: float) -> AcceptedLabels:
    """Returns the labels of pairs that the version at `path` does not judge, of those grades of which people found,
    with 95% certainty, at least the share `accept_at` relevant. Raises UserError for an audit of another version, one
    without a judge, and where no grade is that precise."""
    audit, _ = load_audit(path, name)
    known = audit.manifest["set"]
    if read_manifest(path)["content_digest"] != known["content_digest"]:
        reason = f"is of {known['name']}/v{known['version']}, which {path.name} has changed"
        raise UserError(AUDIT_STAGE, name, reason, "start an audit of this version, or leave out --accept-at")
    audit.get_judge()
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


def reload_accepted_labels(set_folder: Path, record: AcceptedLabelsRecord) -> AcceptedLabels:
    """Returns the labels that an earlier version took, by its record. Raises UserError where the audit is gone or is
    not as it was written."""
    folder, extensions = audit_files.audit_folder(set_folder, record["audit"]), record["extensions"]
    return _select_labels(audit_files.read_audit(folder), dict.fromkeys(record["grades"], 1.0), extensions)


def certify_tables(stored: StoredSet, tables: Tables) -> tuple[Certificate | None, str]:
    """Returns what an audit of this version certifies of the tables that are to follow it, the highest of several, for
    a manifest (without the content digest), and why none does ("" where there is one, or no such audit)."""
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
        answered = growing.answer(read_answers(stored.path, growing.audit))
        if others := _count_others(answered, stored.tables, tables):
            reason = f"Audit {name} certifies nothing of it: {others:,} pairs are not as people answered there."
        elif len(answered.rows):
            stated = answered.certify(growing.goal)
            kept = {key: stated[key] for key in CERTIFIED}
            found.append(cast(Certificate, {"audit": name, "audit_id": manifest["audit_id"], **kept}))
    best = max(found, key=lambda one: one["recall_at_least"], default=None)
    return best, "" if best else reason


def _count_others(answered: AnsweredPool, before: Tables, tables: Tables) -> int:
    """How many pairs are not as the audit has them: a query without a relevant image may be gone, all others stay as
    they are."""
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


def _select_labels(audit: audit_files.StoredAudit, precisions: Mapping[int, float], extensions: int) -> AcceptedLabels:
    judge, pool = audit.get_judge(), audit.pool[audit.pool["stratum"].str.partition(".")[0].isin(_UNJUDGED)]
    chosen = pool[pool["judge"].isin(list(precisions)) & (number_extension(pool["stratum"]) <= extensions)]
    rows = chosen[PAIR].assign(relevance=chosen["judge"], evidence=f"{judge['name']}: " + chosen["reason"])
    record = Model(role="judge", name=judge["name"], revision=judge["revision"], parameters=judge["parameters"])
    return AcceptedLabels(rows.reset_index(drop=True), record, precisions, audit.manifest["name"], extensions)
