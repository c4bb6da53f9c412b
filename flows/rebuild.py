"""Builds a published version again, from what its manifest says, without publishing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backends.sets import decision_log, set_files
from builders.benchmark_set import Tables, content_digest
from builders.decisions import apply_decisions
from builders.errors import UserError
from flows.builds import TABLES
from flows.captions.nested_sets import cut_again
from flows.definitions import RecallDefinition, check_definition
from flows.told import just_those


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The version as it builds today, and the inputs whose bytes are not what they were."""

    tables: Tables
    digest: str
    inputs_changed: list[str]


def rebuilt_tables(path: Path) -> Rebuilt:
    """Same inputs, same configuration, and just those decisions that were in effect."""
    manifest = set_files.read_manifest(path)
    if manifest["notes"].get("held_out"):
        next_step = "rebuild the set that it is a part of, and train again"
        raise UserError("rebuild", path, "was kept back by a training", next_step)
    definition: Any = manifest["envelope"].get("definition")
    if not isinstance(definition, dict):
        raise UserError("rebuild", path, "does not say which definition it was built from", "run querytruth build")
    checked = check_definition(definition, manifest["kind"], str(path / "manifest.json"))
    decided = manifest["decisions"]
    in_effect = set(decided["in_effect"])
    # What came to nothing in the end may have changed what was turned away where.
    with just_those(in_effect | {word["decision"] for word in decided["stale"]}):
        if isinstance(checked, RecallDefinition) and manifest["notes"].get("nested"):
            built = cut_again(checked, manifest, path.parent.parent)
        else:
            built = TABLES[checked.kind](checked)
    log = [decision for decision in decision_log.read_log(path.parent) if decision.decision_id in in_effect]
    tables, _ = apply_decisions(built.tables, log, built.ledger)
    before = {entry["file"]: entry["sha256"] for entry in manifest["inputs"]}
    changed = [entry["file"] for entry in built.inputs if before.get(entry["file"]) != entry["sha256"]]
    return Rebuilt(replace(tables, ledger=built.ledger.rows()), content_digest(tables.arrow()), changed)
