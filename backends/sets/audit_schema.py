"""The keys of an audit's manifest that are read again, and the columns of its tables. Further ones are allowed."""

from typing import Any

from msgspec import Struct, field

from builders.manifest_notes import Count
from builders.manifest_schema import Digest

AUDIT_COLUMNS = {
    "pool": {"query_id": "text", "image_id": "text", "relevance": "number", "best_rank": "number", "stratum": "text"},
    "ranks": {"system": "text", "query_id": "text", "image_id": "text", "rank": "number"},
    "sample": {
        "query_id": "text",
        "image_id": "text",
        "stratum": "text",
        "probability": "number",
        "order": "number",
    },
}


class AuditedSet(Struct):
    """`set`."""

    name: str
    version: Count
    content_digest: Digest


class AuditTable(Struct):
    """One of `files`."""

    rows: Count
    sha256: Digest


class AuditedSystem(Struct):
    """One of `systems`."""

    name: str
    digest: str


class OutsidePairs(Struct):
    """`outside`."""

    pairs: Count
    drawn: Count


class AuditManifest(Struct):
    """audit.json."""

    name: str
    set: AuditedSet
    systems: list[AuditedSystem]
    judge: dict[str, Any] | None
    depth: Count
    seed: int
    unit: str
    queries: Count
    drawn_queries: list[str]
    outside: OutsidePairs
    audit_id: str
    files: dict[str, AuditTable]
    people: Count = 1
    extensions: list[dict[str, Any]] = field(default_factory=list)
