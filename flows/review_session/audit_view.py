"""The view of a version's audits."""

from typing import Any

from fastapi import APIRouter

from backends.sets.audit_files import audit_folder, list_audits, read_audit, read_audit_manifest
from backends.sets.decision_log import DecisionLog
from backends.sets.set_files import StoredSet
from builders.decisions.records import QueryDecision, UndeterminedPair
from review.audit_cards import AuditAnswer, AuditCards, AuditSample
from review.server.audit_views import audit_routes
from review.server.log_session import LogSession


def build_audit_routes(stored: StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Return the routes of the view; none for a version without an audit. Raises UserError for a damaged audit."""
    samples = {}
    for name in list_audits(stored.path.parent):
        folder = audit_folder(stored.path.parent, name)
        if read_audit_manifest(folder)["set"]["content_digest"] != stored.manifest["content_digest"]:
            continue  # of another version
        audit = read_audit(folder)
        rows = audit.sample.sort_values("order")
        pairs = list(zip(rows["query_id"], rows["image_id"], strict=True))
        samples[name] = AuditSample(audit.manifest["audit_id"], pairs)
    if not samples:
        return []
    queries = stored.tables.queries[["query_id", "text", "language"]].astype("str")
    texts = {query: (text, language) for query, text, language in queries.itertuples(index=False, name=None)}
    grades = sorted({0, *map(int, stored.manifest["grades"])})
    cards = AuditCards(samples, texts, grades, reviewer)
    log = DecisionLog[AuditAnswer](stored.path.parent, (QueryDecision, UndeterminedPair))
    return [audit_routes(LogSession(cards.apply_entries, log), cards, about)]
