"""The end of every build: people's decisions carried over, the version published."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import pandas as pd

from backends.sets import decision_log, set_files, set_publishing
from builders import benchmark_set
from builders.benchmark_set import Tables
from builders.decision_outcome import DecisionOutcome
from builders.decisions import Decision, QueryDecisionOutcome, apply_decisions
from builders.image_decisions import ImageDecision, effective_image_decisions
from builders.ledger import Ledger
from builders.overrides import Override, effective_overrides
from builders.set_card import render_set_card
from flows.decision_inputs import load_image_decisions, load_overrides
from flows.definitions import SetDefinition
from flows.shrinkage_guard import check_shrinkage
from flows.steps import current_run, step


@dataclass(frozen=True, slots=True)
class BuiltTables:
    """A set before it is published: tables, ledger, and what its manifest says of where they come from."""

    tables: Tables
    ledger: Ledger
    grades: dict[str, str]
    inputs: list[dict[str, Any]]
    prompts: list[dict[str, str]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    thresholds: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    known_limitations: list[str] = field(default_factory=list)
    rendered_folder: Path | None = None
    model_calls: dict[str, Any] = field(default_factory=dict)  # what models were asked now: in the envelope
    decision_outcome: DecisionOutcome = field(
        default_factory=DecisionOutcome
    )  # what became of people's words on pictures and rejects


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build came to: where the set lies, whether it is new, and the decisions that no longer apply. `waiting`:
    how many decisions about pictures and rejects only the next build can follow; `page`: the version's page, where one
    was written."""

    path: Path
    version: int
    is_new: bool
    manifest: dict[str, Any]
    stale: list[tuple[Decision | ImageDecision | Override, str]]
    nested_results: list[BuildResult] = field(default_factory=list)
    waiting_count: int = 0
    page: Path | None = None


@step("publish")
def publish_built(definition: SetDefinition, built: BuiltTables) -> BuildResult:
    """Apply what people decided on earlier versions, then publish as the next version if anything changed."""
    folder = definition.out / definition.name
    tables, outcome = apply_decisions(built.tables, decision_log.read_decision_log(folder), built.ledger)
    tables = replace(tables, ledger=built.ledger.rows())
    if definition.lose_at_most is not None and "nested" not in built.notes:
        check_shrinkage(definition, tables)
    manifest_fields = {
        "kind": definition.kind,
        "name": definition.name,
        "title": definition.title or definition.name,
        "licence": definition.licence,
        "configuration": _configuration(definition),
        "thresholds": built.thresholds,
        "inputs": built.inputs,
        "models": built.models,
        "prompts": built.prompts,
        "funnel": built.ledger.funnel(),
        "grades": built.grades,
        "notes": built.notes,
        "faults": built.known_limitations,
    }
    envelope = {"definition": definition.model_dump(mode="json"), "calls": built.model_calls}
    decision_outcome = built.decision_outcome + _unused_decisions(folder, built.decision_outcome)
    return _publish(folder, tables, manifest_fields, (outcome, decision_outcome), built.rendered_folder, envelope)


def _unused_decisions(folder: Path, decision_outcome: DecisionOutcome) -> DecisionOutcome:
    """Words on pictures and rejects that no step looked at, as after a change of the definition."""
    known_ids = {*decision_outcome.in_effect, *(decision.decision_id for decision, _ in decision_outcome.stale)}
    effective_decisions: list[ImageDecision | Override] = [
        *load_image_decisions(folder),
        *load_overrides(folder).values(),
    ]
    return DecisionOutcome(
        stale=[(decision, _UNUSED_REASON) for decision in effective_decisions if decision.decision_id not in known_ids]
    )


_UNUSED_REASON = "nothing in this build asks about it"


@step("publish")
def publish_decisions(path: Path) -> BuildResult:
    """The next version of a set from the decisions made on it, without building it again. What was decided about
    pictures and rejects waits for a build, which alone can tell what else follows from it."""
    stored = set_files.read_set(path)
    manifest = stored.manifest
    ledger = Ledger()
    in_effect = frozenset(manifest["decisions"]["in_effect"])
    tables, outcome = apply_decisions(stored.tables, decision_log.read_decision_log(path.parent), ledger, in_effect)
    funnel = manifest["funnel"] + ledger.funnel()
    parts = [part.astype("object") for part in (tables.ledger, ledger.rows()) if len(part)]
    tables = replace(tables, ledger=pd.concat(parts, ignore_index=True) if parts else ledger.rows())
    manifest_fields = {key: manifest[key] for key in manifest if key not in _VERSION_KEYS} | {"funnel": funnel}
    own_images_folder = path if tables.images["path"].fillna("").str.startswith("images/").any() else None
    envelope = {"definition": manifest["envelope"].get("definition"), "calls": {}}
    decision_outcome, waiting_count = _carry_over_decisions(path.parent, manifest["decisions"])
    result = _publish(path.parent, tables, manifest_fields, (outcome, decision_outcome), own_images_folder, envelope)
    return replace(result, waiting_count=waiting_count)


def _carry_over_decisions(folder: Path, manifest_decisions: dict[str, Any]) -> tuple[DecisionOutcome, int]:
    """What the version's own build made of words on pictures and rejects, and how many wait for the next one: those
    that are new, and those that were taken back."""
    images, overrides = decision_log.read_image_decisions_from(folder)[0], decision_log.read_overrides_from(folder)[0]
    logged_decisions: list[ImageDecision | Override] = [*images, *overrides]
    effective_decisions: list[ImageDecision | Override] = [
        *effective_image_decisions(images),
        *effective_overrides(overrides).values(),
    ]
    why = {row["decision"]: row["why"] for row in manifest_decisions["stale"]}
    held_ids = {decision.decision_id for decision in logged_decisions} & {*manifest_decisions["in_effect"]}
    stale = [(decision, why[decision.decision_id]) for decision in effective_decisions if decision.decision_id in why]
    waiting = ({decision.decision_id for decision in effective_decisions} ^ held_ids) - {
        decision.decision_id for decision, _ in stale
    }
    return DecisionOutcome(sorted(held_ids), stale), len(waiting)


_VERSION_KEYS = {
    "version",
    "content_digest",
    "build_digest",
    "parent",
    "counts",
    "decisions",
    "files",
    "manifest_digest",
    "envelope",
}


def _publish(
    folder: Path,
    tables: Tables,
    manifest_fields: dict[str, Any],
    outcome: tuple[QueryDecisionOutcome, DecisionOutcome],
    rendered_folder: Path | None,
    envelope: dict[str, Any],
) -> BuildResult:
    run = current_run()

    def manifest(digest: str, version: int, parent: dict[str, Any] | None) -> dict[str, Any]:
        return {
            **manifest_fields,
            "schema_version": benchmark_set.SCHEMA_VERSION,
            "version": version,
            "content_digest": digest,
            "build_digest": benchmark_set.build_digest(
                digest,
                manifest_fields["configuration"],
                manifest_fields["inputs"],
                version_of("querytruth"),
                manifest_fields["models"],
            ),
            "parent": parent and {"version": parent["version"], "content_digest": parent["content_digest"]},
            "counts": benchmark_set.count_set(tables),
            "decisions": _decision_record(*outcome),
            "envelope": _envelope(run.durations) | envelope,
        }

    published = set_publishing.publish_set(
        tables,
        manifest,
        lambda whole: render_set_card(whole, tables),
        folder,
        images=rendered_folder,
        log=run.reporter.log,
    )
    return BuildResult(
        published.path,
        published.version,
        published.is_new,
        set_files.read_manifest(published.path),
        [*outcome[0].stale, *outcome[1].stale],
    )


def _decision_record(outcome: QueryDecisionOutcome, decision_outcome: DecisionOutcome) -> dict[str, Any]:
    """All that people decided: on queries and judgments, on pictures, and on rejects."""
    record = outcome.as_dict()
    record["in_effect"] = sorted([*record["in_effect"], *decision_outcome.in_effect])
    record["stale"] += [
        {"decision": decision.decision_id, **decision.about, "why": why} for decision, why in decision_outcome.stale
    ]
    return record


def _configuration(definition: SetDefinition) -> dict[str, Any]:
    """The definition as resolved. Inputs by name only, and no word of where sets and replies lie and of when to stop
    for a person: that is in the envelope."""
    resolved: dict[str, Any] = _strip_folders(
        definition.model_dump(mode="json", exclude={"out", "replies", "lose_at_most"})
    )
    if isinstance(resolved.get("annotations"), list):
        resolved["annotations"].sort()
    return resolved


def _strip_folders(value: Any) -> Any:
    """Places without the way there."""
    if isinstance(value, dict):
        return {
            key: _set_name_and_version(inner) if key == "gallery" and inner else _strip_folders(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_strip_folders(inner) for inner in value]
    is_place = isinstance(value, str) and ("://" in value or Path(value).is_absolute())
    return Path(value).name if is_place else value


def _set_name_and_version(place: str) -> str:
    """A set's name and version, wherever it lies."""
    return "/".join(Path(place).parts[-2:])


def _envelope(durations: dict[str, float]) -> dict[str, Any]:
    """When, where and with what it was built: outside both digests."""
    packages = ("querytruth", "pillow", "numpy", "pandas", "pyarrow", "prefect")
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "durations": durations,
        "versions": {
            "python": sys.version.split()[0],
            "libjpeg": _libjpeg(),
            **{p: version_of(p) for p in packages},
        },
    }


def _libjpeg() -> str:
    from PIL import features

    return str(features.version("libjpeg_turbo") or features.version("jpg") or "")
