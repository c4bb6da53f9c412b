"""Builds a published version again, from what its manifest says, without publishing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backends.sets import set_files
from backends.sets.decision_log import pinned_decisions, read_decisions
from builders.benchmark_set import Tables, content_digest
from builders.decisions.application import apply_decisions
from builders.decisions.records import QueryDecision
from builders.definition_keys import rename_old_keys
from builders.errors import UserError
from flows.captions.nested_sets import rebuild_nested_set
from flows.definitions import parse_definition
from flows.set_kinds import SET_KINDS


@dataclass(frozen=True, slots=True)
class RebuiltVersion:
    """The version as it builds today, and the inputs whose bytes are not what they were."""

    tables: Tables
    digest: str
    inputs_changed: list[str]


def rebuild_tables(path: Path) -> RebuiltVersion:
    """Same inputs, same configuration, and just those decisions that were in effect."""
    manifest = set_files.read_manifest(path)
    if manifest["notes"].get("held_out"):
        next_step = "rebuild the set that it is a part of, and train again"
        raise UserError("rebuild", path, "was kept back by a training", next_step)
    definition: Any = manifest["envelope"].get("definition")
    if not isinstance(definition, dict):
        raise UserError("rebuild", path, "does not say which definition it was built from", "run querytruth build")
    definition = rename_old_keys(definition)
    checked_definition: Any = parse_definition(definition, manifest["kind"], str(path / "manifest.json"))
    manifest_decisions = manifest["decisions"]
    in_effect = set(manifest_decisions["in_effect"])
    # What came to nothing in the end may have changed what was turned away where.
    with pinned_decisions(in_effect | {stale_decision["decision"] for stale_decision in manifest_decisions["stale"]}):
        if manifest["notes"].get("nested"):
            built = rebuild_nested_set(checked_definition, manifest, path.parent.parent)
        else:
            built = SET_KINDS[manifest["kind"]].build_tables(checked_definition)
    log = [decision for decision in read_decisions(path.parent, QueryDecision) if decision.decision_id in in_effect]
    tables, _ = apply_decisions(built.tables, log, built.ledger)
    before = {entry["file"]: entry["sha256"] for entry in manifest["inputs"]}
    changed = [entry.file for entry in built.provenance.inputs if before.get(entry.file) != entry.sha256]
    return RebuiltVersion(
        replace(tables, ledger=built.ledger.rows()), content_digest(tables.to_arrow_tables()), changed
    )
