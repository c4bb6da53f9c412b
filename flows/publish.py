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
from builders.card import card
from builders.decisions import Decision, Outcome, apply_decisions
from builders.ledger import Ledger
from builders.picture_decisions import PictureDecision, last_words
from builders.rescues import Rescue, last_rescues
from builders.told import Told
from flows.definitions import SetDefinition
from flows.losses import stop_at_losses
from flows.steps import current, step
from flows.told import told_pictures, told_rescues


@dataclass(frozen=True, slots=True)
class Built:
    """A set before it is published: tables, ledger, and what its manifest says of where they come from."""

    tables: Tables
    ledger: Ledger
    grades: dict[str, str]
    inputs: list[dict[str, Any]]
    prompts: list[dict[str, str]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    thresholds: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    rendered: Path | None = None
    calls: dict[str, Any] = field(default_factory=dict)  # what models were asked now: in the envelope
    told: Told = field(default_factory=Told)  # what became of people's words on pictures and rejects


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build came to: where the set lies, whether it is new, and the decisions that no longer apply. `waiting`:
    how many decisions about pictures and rejects only the next build can follow."""

    path: Path
    version: int
    is_new: bool
    manifest: dict[str, Any]
    stale: list[tuple[Decision | PictureDecision | Rescue, str]]
    smaller: list[BuildResult] = field(default_factory=list)
    waiting: int = 0


@step("publish")
def publish_built(definition: SetDefinition, built: Built) -> BuildResult:
    """Apply what people decided on earlier versions, then publish as the next version if anything changed."""
    folder = definition.out / definition.name
    tables, outcome = apply_decisions(built.tables, decision_log.read_log(folder), built.ledger)
    tables = replace(tables, ledger=built.ledger.rows())
    if definition.lose_at_most is not None and "nested" not in built.notes:
        stop_at_losses(definition, tables)
    described = {
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
        "faults": built.faults,
    }
    envelope = {"definition": definition.model_dump(mode="json"), "calls": built.calls}
    told = built.told + _unasked(folder, built.told)
    return _publish(folder, tables, described, (outcome, told), built.rendered, envelope)


def _unasked(folder: Path, told: Told) -> Told:
    """Words on pictures and rejects that no step looked at, as after a change of the definition."""
    known = {*told.in_effect, *(word.decision_id for word, _ in told.stale)}
    words: list[PictureDecision | Rescue] = [*told_pictures(folder), *told_rescues(folder).values()]
    return Told(stale=[(word, _UNASKED) for word in words if word.decision_id not in known])


_UNASKED = "nothing in this build asks about it"


@step("publish")
def publish_decided(path: Path) -> BuildResult:
    """The next version of a set from the decisions made on it, without building it again. What was decided about
    pictures and rejects waits for a build, which alone can tell what else follows from it."""
    stored = set_files.read(path)
    manifest = stored.manifest
    ledger = Ledger()
    in_effect = frozenset(manifest["decisions"]["in_effect"])
    tables, outcome = apply_decisions(stored.tables, decision_log.read_log(path.parent), ledger, in_effect)
    funnel = manifest["funnel"] + ledger.funnel()
    parts = [part.astype("object") for part in (tables.ledger, ledger.rows()) if len(part)]
    tables = replace(tables, ledger=pd.concat(parts, ignore_index=True) if parts else ledger.rows())
    described = {key: manifest[key] for key in manifest if key not in _OF_A_VERSION} | {"funnel": funnel}
    inside = path if tables.images["path"].fillna("").str.startswith("images/").any() else None
    envelope = {"definition": manifest["envelope"].get("definition"), "calls": {}}
    told, waiting = _carried(path.parent, manifest["decisions"])
    result = _publish(path.parent, tables, described, (outcome, told), inside, envelope)
    return replace(result, waiting=waiting)


def _carried(folder: Path, decided: dict[str, Any]) -> tuple[Told, int]:
    """What the version's own build made of words on pictures and rejects, and how many wait for the next one: those
    that are new, and those that were taken back."""
    pictures, rescues = decision_log.read_pictures_on(folder)[0], decision_log.read_rescues_on(folder)[0]
    said: list[PictureDecision | Rescue] = [*pictures, *rescues]
    stand: list[PictureDecision | Rescue] = [*last_words(pictures), *last_rescues(rescues).values()]
    why = {row["decision"]: row["why"] for row in decided["stale"]}
    held = {word.decision_id for word in said} & {*decided["in_effect"]}
    stale = [(word, why[word.decision_id]) for word in stand if word.decision_id in why]
    waiting = ({word.decision_id for word in stand} ^ held) - {word.decision_id for word, _ in stale}
    return Told(sorted(held), stale), len(waiting)


_OF_A_VERSION = {
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
    described: dict[str, Any],
    outcome: tuple[Outcome, Told],
    rendered: Path | None,
    envelope: dict[str, Any],
) -> BuildResult:
    run = current()

    def manifest(digest: str, version: int, parent: dict[str, Any] | None) -> dict[str, Any]:
        return {
            **described,
            "schema_version": benchmark_set.SCHEMA_VERSION,
            "version": version,
            "content_digest": digest,
            "build_digest": benchmark_set.build_digest(
                digest,
                described["configuration"],
                described["inputs"],
                version_of("querytruth"),
                described["models"],
            ),
            "parent": parent and {"version": parent["version"], "content_digest": parent["content_digest"]},
            "counts": benchmark_set.counts(tables),
            "decisions": _decided(*outcome),
            "envelope": _envelope(run.durations) | envelope,
        }

    published = set_publishing.publish(
        tables, manifest, lambda whole: card(whole, tables), folder, pictures=rendered, say=run.reporter.say
    )
    return BuildResult(
        published.path,
        published.version,
        published.is_new,
        set_files.read_manifest(published.path),
        [*outcome[0].stale, *outcome[1].stale],
    )


def _decided(outcome: Outcome, told: Told) -> dict[str, Any]:
    """All that people decided: on queries and judgments, on pictures, and on rejects."""
    decided = outcome.as_dict()
    decided["in_effect"] = sorted([*decided["in_effect"], *told.in_effect])
    decided["stale"] += [{"decision": word.decision_id, **word.about, "why": why} for word, why in told.stale]
    return decided


def _configuration(definition: SetDefinition) -> dict[str, Any]:
    """The definition as resolved. Inputs by name only, and no word of where sets and replies lie and of when to stop
    for a person: that is in the envelope."""
    resolved: dict[str, Any] = _by_name(definition.model_dump(mode="json", exclude={"out", "replies", "lose_at_most"}))
    if isinstance(resolved.get("annotations"), list):
        resolved["annotations"].sort()
    return resolved


def _by_name(value: Any) -> Any:
    """Places without the way there."""
    if isinstance(value, dict):
        return {key: _version(inner) if key == "gallery" and inner else _by_name(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_by_name(inner) for inner in value]
    is_place = isinstance(value, str) and ("://" in value or Path(value).is_absolute())
    return Path(value).name if is_place else value


def _version(place: str) -> str:
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
