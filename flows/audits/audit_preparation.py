"""From an audit's definition to its version, the pool of its runs, and its judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backends.chat import ChatModel
from backends.sets import set_files
from backends.sets.audit_files import audit_folder, list_audits, read_audit_manifest
from flows.audits.audit_judge import load_judge
from flows.audits.audit_plan import AuditSize
from flows.audits.audit_pools import PooledSet, pool_set
from flows.definitions import AuditDefinition

_SIZE_KEYS = ("judgments", "width", "queries", "strata", "people")


@dataclass(frozen=True, slots=True)
class PreparedAudit:
    """What an audit is to be, the folder of its version, the pool of its runs, and its judge."""

    definition: AuditDefinition
    path: Path
    pooled: PooledSet
    judge: ChatModel | None

    @property
    def size(self) -> AuditSize:
        """What people judge."""
        return AuditSize(**{key: getattr(self.definition, key) for key in _SIZE_KEYS})


def find_audited_version(definition: AuditDefinition) -> Path:
    """Returns the folder of the version of an audit that has begun, whatever was published since, else of the version
    that the definition names. Raises UserError where it is not there."""
    path = set_files.find_set(definition.set, definition.out)
    if definition.name not in list_audits(path.parent):
        return path
    known = read_audit_manifest(audit_folder(path.parent, definition.name))["set"]
    return set_files.find_set(str(path.parent / f"v{known['version']}"))


def prepare_audit(definition: AuditDefinition, path: Path) -> PreparedAudit:
    """Returns the audit of the version at `path` with its pool. Raises UserError for wrong runs or a wrong judge."""
    pooled = pool_set(path, definition.runs, definition.depth)
    judge = None if definition.judge is None else load_judge(definition.judge, pooled, definition.runs)
    return PreparedAudit(definition, path, pooled, judge)
