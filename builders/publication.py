"""Publishes what a build made as the next version of its name, with people's decisions applied."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, cast

import pandas as pd
from PIL import features

from builders.publication_guards import check_not_empty, check_shrinkage
from querytruth.audit.shortcuts import describe_shortcuts
from querytruth.backends.files.column_profile import ReadingOptions
from querytruth.backends.steps import current_run, describe_environment, step
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.formats.set_card import render_set_card
from querytruth.sets import benchmark_set, decision_agreement, decision_records, set_files, set_publishing
from querytruth.sets.benchmark_set import Tables, make_canary
from querytruth.sets.decision_application import apply_decisions, list_edited_waiting
from querytruth.sets.decision_log import check_no_decision_is_lost, load_decisions, make_log_records, read_decisions
from querytruth.sets.decision_outcomes import DecisionOutcome, carry_over
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import (
    BuildRecord,
    Configuration,
    Envelope,
    Manifest,
    Provenance,
    describe_input_set,
    read_manifest,
    strip_folders,
)
from querytruth.sets.manifest_notes import Notes
from querytruth.sets.published_files import check_no_version_is_lost, newest_version, record_own_version
from querytruth.sets.set_files import StoredSet
from querytruth.sets.text_sieve import PRIVATE_KINDS, hide_private_texts, sieve_tables

_SUFFIXES = {
    "gallery": "images",
    "recall": "captions",
    "precision": "objects",
    "generated": "topics",
    "queries": "queries",
    "imported": "imported",
}


def check_set_name(definition: SetDefinition) -> None:
    """Raise UserError where a set of another kind has the name: its versions and decisions would be mixed with those
    of this one."""
    folder = definition.out / definition.name
    other = _published_kind(folder)
    if other in (None, definition.kind):
        return
    reason = f"is a {other} set; a {definition.kind} set needs another name"
    next_step = (
        f"choose another name, such as --set name={propose_set_name(definition.name, definition.kind, definition.out)}"
    )
    raise UserError("build", f"{folder.name}/v{newest_version(folder)}", reason, next_step)


def propose_set_name(name: str, kind: str, out: Path) -> str:
    """Return the name, or one like it where a set of another kind has it."""
    suffixed = f"{name[:50]}-{_SUFFIXES.get(kind, kind)}"
    candidates = [name, suffixed, *(f"{suffixed}-{number}" for number in range(2, 100))]
    return next((one for one in candidates if _published_kind(out / one) in (None, kind)), suffixed)


def _published_kind(folder: Path) -> str | None:
    """Return the kind of the newest version in a set's folder; None if there is none."""
    version = newest_version(folder)
    return None if version is None else str(read_manifest(folder / f"v{version}")["kind"])


@dataclass(frozen=True, slots=True)
class BuiltTables:
    """A set before it is published: tables, ledger, and the fields of its manifest."""

    tables: Tables
    ledger: Ledger
    grades: dict[str, str]
    provenance: Provenance = field(default_factory=Provenance)
    notes: Notes = field(default_factory=lambda: Notes())
    known_limitations: list[str] = field(default_factory=list)
    rendered_folder: Path | None = None
    model_calls: dict[str, Any] = field(default_factory=dict)  # made by this build: for the envelope
    decision_outcome: DecisionOutcome = field(default_factory=DecisionOutcome)  # on images and rejected items


def cut_from_set(parent: StoredSet, tables: Tables, ledger: Ledger, notes: Notes) -> BuiltTables:
    """Return a part of a published set, with its grades, prompts, models, thresholds and known limitations."""
    manifest = parent.manifest
    return BuiltTables(
        tables=tables,
        ledger=ledger,
        grades=manifest["grades"],
        provenance=replace(Provenance.from_dict(manifest), inputs=[describe_input_set(manifest)]),
        notes={**notes, "render": manifest["notes"].get("render")},
        known_limitations=manifest["known_limitations"],
        rendered_folder=_own_images_folder(parent.path, tables),
    )


def _own_images_folder(path: Path, tables: Tables) -> Path | None:
    """Return the set's folder, if the set holds image files of its own."""
    return path if tables.images["path"].fillna("").str.startswith("images/").any() else None


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The published version, or the newest one if nothing changed (`is_new` is False), and its stale decisions.
    `conflicts`, `shared_count`: those of `DecisionOutcome`; `waiting_count`: number of decisions that only the next
    build can apply; `page`: the version's page, if written; `url`: the version in a bucket; `disputed`: one answer for
    each pair of an audit that is left out until a third person answers; `disagreement_count`: number of other queries
    and judgments on which people differ, where the last decision counts; `edited_waiting`: edited queries that have no
    relevant image until a person accepts one; `tables`: of a new version, until its page is written."""

    path: Path
    version: int
    is_new: bool
    manifest: Manifest
    stale: Sequence[tuple[decision_records.SetDecision, str]]
    conflicts: Sequence[decision_agreement.DecisionConflict] = ()
    shared_count: int = 0
    nested_results: list[BuildResult] = field(default_factory=list)
    waiting_count: int = 0
    page: Path | None = None
    url: str | None = None
    disputed: Sequence[decision_records.QueryDecision] = ()
    disagreement_count: int = 0
    edited_waiting: Sequence[str] = ()
    tables: Tables | None = field(default=None, repr=False, compare=False)


@step("publish")
def publish_built(definition: SetDefinition, built: BuiltTables) -> BuildResult:
    """Apply the decisions on earlier versions, then publish the next version if anything changed. Raises ShrinkageError
    if too much of the last version would be lost, UserError if nothing is left or it cannot be written."""
    folder = definition.out / definition.name
    losses = check_decision_logs(folder)
    log = read_decisions(folder, decision_records.QueryDecision)
    disputes = decision_agreement.find_disputes(log, read_decisions(folder, decision_records.UndeterminedPair))
    tables, let_through = built.tables, DecisionOutcome()
    if len(tables.queries) and not {"nested", "held_out"} & built.notes.keys():  # a part of a set has been sieved
        tables, let_through = sieve_queries(definition, tables, built.ledger)
    tables, outcome = apply_decisions(tables, disputes.exclude_from(log), built.ledger)
    tables = replace(tables, ledger=hide_private_texts(built.ledger.rows(), definition.quarantine))
    check_set_name(definition)
    check_not_empty(definition.kind, definition.name, tables, built.ledger.funnel())
    if "nested" not in built.notes:
        check_shrinkage(definition, tables)
    record: BuildRecord = {
        "kind": definition.kind,
        "name": definition.name,
        "title": definition.title or definition.name,
        "licence": definition.licence,
        "configuration": _configuration(definition),
        **built.provenance.as_dict(),
        "funnel": built.ledger.funnel(),
        "grades": built.grades,
        "notes": built.notes,
        "known_limitations": [*built.known_limitations, *losses],
    }
    envelope: Envelope = {"definition": definition.model_dump(mode="json"), "calls": built.model_calls}
    outcome += (of_build := built.decision_outcome + let_through) + _unused_decisions(folder, of_build)
    result = _publish(folder, tables, record, outcome, built.rendered_folder, envelope)
    return _record_as_own(_add_disputes(result, log, disputes))


def sieve_queries(definition: SetDefinition, tables: Tables, ledger: Ledger) -> tuple[Tables, DecisionOutcome]:
    """Return the tables without queries whose texts may not enter a set, and the overrides of people that let some of
    them in."""
    overrides = load_decisions(definition.out / definition.name, decision_records.Override)
    sieved, rejections, let_through = sieve_tables(tables, definition.quarantine, overrides)
    if len(rejections):
        ledger.record_stage("texts", "query", len(tables.queries), len(sieved.queries), rejections)
    return sieved, DecisionOutcome([overrides[query_id] for query_id in let_through])


def _add_disputes(
    result: BuildResult, log: list[decision_records.QueryDecision], disputes: decision_agreement.AuditDisputes
) -> BuildResult:
    """Return the same result with what people disagree on."""
    elsewhere = decision_agreement.latest_decisions(
        one for one in decision_records.effective(log) if one.view != decision_agreement.AUDIT_VIEW
    )
    return replace(
        result, disputed=disputes.unsettled, disagreement_count=len(decision_agreement.find_disagreements(elsewhere))
    )


def check_decision_logs(folder: Path) -> list[str]:
    """Return the versions that the set at `folder` lost, and what its logs lost since the newest one, as known
    limitations of the next one. Raises UserError where something is lost and the run does not accept that."""
    run = current_run()
    losses: list[object] = [*check_no_version_is_lost(folder, "find set", accept_loss=run.accept_loss)]
    newest = newest_version(folder)
    if newest is not None:
        losses += check_no_decision_is_lost(folder / f"v{newest}", "read decisions", accept_loss=run.accept_loss)
    for loss in losses:
        run.reporter.log(f"continues without lost decisions: {loss}")
    return [f"This version was built without lost decisions. {loss}." for loss in losses]


def _unused_decisions(folder: Path, outcome: DecisionOutcome) -> DecisionOutcome:
    """Return the stale decisions on images and rejected items that no step used, as after a change of the
    definition."""
    known_ids = {*outcome.in_effect, *(decision.decision_id for decision, _ in outcome.stale)}
    pairs = load_decisions(folder, decision_records.ImagePairDecision)
    overrides = load_decisions(folder, decision_records.Override)
    loaded: list[decision_records.SetDecision] = [*pairs.values(), *overrides.values()]
    reason = "it applies to nothing in this build"
    return DecisionOutcome(stale=[(one, reason) for one in loaded if one.decision_id not in known_ids])


def _record_as_own(result: BuildResult) -> BuildResult:
    """Return the same result. A new version is recorded as this user's: what its definition names may be read."""
    if result.is_new:
        try:
            record_own_version(result.path)
        except (OSError, RuntimeError) as error:
            current_run().reporter.log(f"{result.path}: images outside the set will need --images ({error})")
    return result


@step("publish")
def publish_decisions(path: Path) -> BuildResult:
    """Publish the next version of a set with the decisions on its queries and judgments, without a build. Decisions on
    images and rejected items wait for the next build."""
    from querytruth.audit.corrections import certify_tables  # and SciPy, which no build needs

    stored = set_files.read_set(path)
    manifest = stored.manifest
    losses = check_decision_logs(path.parent)
    ledger = Ledger()
    in_effect = frozenset(manifest["decisions"]["in_effect"])
    log = read_decisions(path.parent, decision_records.QueryDecision)
    disputes = decision_agreement.find_disputes(
        log, read_decisions(path.parent, decision_records.UndeterminedPair), in_effect
    )
    tables, outcome = apply_decisions(stored.tables, disputes.exclude_from(log, in_effect), ledger, in_effect)
    limits, notes = [*manifest["known_limitations"], *losses], manifest["notes"]
    certificate, reason = certify_tables(stored, tables)
    notes = {**notes, "certificate": certificate} if certificate else notes
    limits += [reason] if reason else []
    funnel = manifest["funnel"] + ledger.funnel()
    check_not_empty(manifest["kind"], path.parent.name, tables, funnel)
    parts = [part.astype("object") for part in (tables.ledger, ledger.rows()) if len(part)]
    tables = replace(tables, ledger=pd.concat(parts, ignore_index=True) if parts else ledger.rows())
    kept = cast(BuildRecord, {key: value for key, value in manifest.items() if key not in _VERSION_KEYS})
    grades = _name_grades(manifest["grades"], tables)
    about = {"funnel": funnel, "known_limitations": limits, "notes": notes, "grades": grades}
    record = cast(BuildRecord, {**kept, **about})
    own_images_folder = _own_images_folder(path, tables)
    envelope: Envelope = {"definition": manifest["envelope"].get("definition"), "calls": {}}
    on_images: list[decision_records.ImagePairDecision | decision_records.Override] = [
        *read_decisions(path.parent, decision_records.ImagePairDecision),
        *read_decisions(path.parent, decision_records.Override),
    ]
    carried, waiting_ids = carry_over(on_images, manifest["decisions"])
    result = _publish(path.parent, tables, record, outcome + carried, own_images_folder, envelope)
    result = _add_disputes(replace(result, waiting_count=len(waiting_ids)), log, disputes)
    return _record_as_own(result) if stored.is_own else result


def _name_grades(named: dict[str, str], tables: Tables) -> dict[str, str]:
    """Return the grades of a set with those that people gave besides, as an import of judgments may."""
    given = sorted(tables.qrels["relevance"].unique(), reverse=True)
    return named | {str(grade): f"grade {grade}" for grade in given if grade and str(grade) not in named}


_CERTIFICATE_ENDED = "An earlier version is certified; this version has different judgments and is not certified."
UNREAD_KEYS = {"out", "publish_to", "publish_places", "publish_names", "work", "lose_at_most", "page_language"}
_PACKAGES = ("querytruth", "pillow", "numpy", "pandas", "pyarrow", "prefect")
_VERSION_KEYS = {
    *("version", "content_digest", "canary", "build_digest", "parent", "counts"),
    *("decisions", "files", "manifest_digest", "envelope", "decision_logs"),
}


def _publish(
    folder: Path,
    tables: Tables,
    record: BuildRecord,
    outcome: DecisionOutcome,
    rendered_folder: Path | None,
    envelope: Envelope,
) -> BuildResult:
    def manifest(digest: str, version: int, parent: Manifest | None) -> Manifest:
        notes, limits = _carry_certificate(record, folder, digest)
        configuration, inputs, models = record["configuration"], record["inputs"], record["models"]
        code_version = version_of("querytruth")
        libjpeg = features.version("libjpeg_turbo") or features.version("jpg") or ""
        whole: Manifest = {
            **record,
            "notes": notes,
            "known_limitations": limits,
            "schema_version": benchmark_set.SCHEMA_VERSION,
            "version": version,
            "content_digest": digest,
            "canary": make_canary(digest),
            "build_digest": benchmark_set.build_digest(digest, configuration, inputs, code_version, models),
            "parent": {"version": parent["version"], "content_digest": parent["content_digest"]} if parent else None,
            "counts": benchmark_set.count_set(tables),
            "decisions": outcome.as_record(),
            "decision_logs": make_log_records(folder),
            "files": [],  # these two are stated by publish_set, which writes the files
            "manifest_digest": "",
            "envelope": cast(Envelope, {**describe_environment(_PACKAGES, libjpeg=libjpeg), **envelope}),
        }
        if not whole["decision_logs"]:
            del whole["decision_logs"]
        return whole

    log, shortcuts = current_run().reporter.log, None
    if set_publishing.differs_in_rows(folder, tables):  # on the other core, while the tables are sorted and digested
        shortcuts = ThreadPoolExecutor(max_workers=1).submit(describe_shortcuts, tables)

    def card(filled: Manifest) -> str:
        return render_set_card(filled, tables, shortcuts.result() if shortcuts else None)

    published = set_publishing.publish_set(tables, manifest, card, folder, images=rendered_folder, log=log)
    version_manifest = read_manifest(published.path)
    return BuildResult(
        published.path,
        published.version,
        published.is_new,
        version_manifest,
        outcome.stale,
        outcome.conflicts,
        outcome.shared_count,
        edited_waiting=list_edited_waiting(tables),
        tables=published.tables,
    )


def _carry_certificate(fields: BuildRecord, folder: Path, digest: str) -> tuple[Notes, list[str]]:
    """Return the notes and the known limitations of a version with this content digest: with its certificate, or, if
    the newest version has the same content, with that version's."""
    notes: Notes = {**fields["notes"]}
    limits = [one for one in fields["known_limitations"] if one != _CERTIFICATE_ENDED]
    newest = newest_version(folder)
    former = None if newest is None else read_manifest(folder / f"v{newest}")["notes"].get("certificate")
    certificate = notes.pop("certificate", None) or former
    if certificate is None:
        return notes, limits
    if certificate.get("content_digest", digest) != digest:
        return notes, [*limits, _CERTIFICATE_ENDED]
    return {**notes, "certificate": {**certificate, "content_digest": digest}}, limits


def _configuration(definition: SetDefinition) -> Configuration:
    """Return the resolved definition without folders: inputs by name only. The definition as it was is in the
    envelope."""
    unread = UNREAD_KEYS | {"replies"}
    unread |= {"tables"} if definition.tables == ReadingOptions() else set()
    unread |= {"quarantine"} if {*definition.quarantine} == {*PRIVATE_KINDS} else set()
    dumped = definition.model_dump(mode="json", exclude=unread)
    resolved: Any = strip_folders(dumped)
    if isinstance(resolved.get("annotations"), list):
        resolved["annotations"].sort()
    return cast(Configuration, resolved)
