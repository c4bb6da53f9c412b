"""Builds a published version again from its manifest, without publishing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backends.sets import set_files
from backends.sets.decision_log import pinned_decisions, read_decisions
from builders.benchmark_set import Tables, content_digest
from builders.decisions.application import apply_decisions
from builders.decisions.records import QueryDecision
from builders.definition_keys import add_former_limits, rename_old_keys
from builders.errors import UserError
from flows.captions.nested_sets import rebuild_nested_set
from flows.definitions import parse_definition
from flows.set_kinds import SET_KINDS


@dataclass(frozen=True, slots=True)
class RebuiltVersion:
    """The version as built now, and the names of the inputs whose bytes have changed."""

    tables: Tables
    digest: str
    inputs_changed: list[str]


def rebuild_tables(path: Path) -> RebuiltVersion:
    """Build the version at `path` from the same inputs, configuration and decisions. Raises UserError where it has no
    definition or its inputs cannot be read."""
    manifest = set_files.read_manifest(path)
    if manifest["notes"].get("held_out"):
        next_step = "rebuild the set that it is a part of, and train again"
        raise UserError("rebuild", path, "was kept back by a training", next_step)
    definition: Any = manifest["envelope"].get("definition")
    if not isinstance(definition, dict):
        raise UserError("rebuild", path, "does not say which definition it was built from", "run querytruth build")
    definition = parse_definition(
        add_former_limits(rename_old_keys(definition)), manifest["kind"], str(path / "manifest.json")
    )
    in_effect = set(manifest["decisions"]["in_effect"])
    # A stale decision may have changed which stage rejected an item.
    with pinned_decisions(in_effect | {stale["decision"] for stale in manifest["decisions"]["stale"]}):
        if manifest["notes"].get("nested"):
            built = rebuild_nested_set(definition, manifest, path.parent.parent)
        else:
            built = SET_KINDS[manifest["kind"]].build_tables(definition)
    log = [decision for decision in read_decisions(path.parent, QueryDecision) if decision.decision_id in in_effect]
    tables, _ = apply_decisions(built.tables, log, built.ledger)
    before = {entry["file"]: entry["sha256"] for entry in manifest["inputs"]}
    changed = [entry.file for entry in built.provenance.inputs if before.get(entry.file) != entry.sha256]
    tables = replace(tables, ledger=built.ledger.rows())
    return RebuiltVersion(tables, content_digest(tables.to_arrow_tables()), changed)
