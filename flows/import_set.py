"""The imported set: another publisher's queries, images and judgments.

files ─► queries, images, judgments ─► images read ─► joined ─► duplicates ─► people's decisions ─► set v<N>
"""

from dataclasses import replace
from typing import cast

from builders import imported_set
from builders.gallery.steps import mark_duplicates
from builders.publication import BuildResult, BuiltTables, publish_built, sieve_queries
from flows.set_kind import SetKind
from querytruth.formats.set_images import ImageStore
from querytruth.sets import decision_outcomes, manifest
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest_notes import Render


def import_set(definition: imported_set.ImportDefinition) -> BuildResult:
    """Import and publish the set, under the publisher's title and licence where the definition has none."""
    built = build_imported_tables(definition)
    publisher_details = {
        "title": definition.title or built.notes["title"],
        "licence": definition.licence or built.notes["licence"],
    }
    return publish_built(definition.model_copy(update=publisher_details), built)


def build_imported_tables(definition: imported_set.ImportDefinition) -> BuiltTables:
    """Return the set before it is published: tables, ledger and provenance."""
    folder = definition.out / definition.name
    store = ImageStore(folder.absolute() / ".imported")
    ledger = Ledger()
    imported = imported_set.read_publisher_files(definition, store)
    scanned = imported_set.read_images(imported, store, definition)
    tables, _ = sieve_queries(definition, imported_set.join_tables(imported, scanned, ledger), ledger)
    found_by, decision_outcome = manifest.Provenance(), decision_outcomes.DecisionOutcome()
    if scanned is not None and definition.near_duplicates is not None and not imported.keeps_ids:
        # All images stay, as the publisher's figures are made with all of them.
        images, groups, found_by = mark_duplicates(tables.images, scanned, definition.near_duplicates, folder)
        tables = replace(tables, images=images, duplicates=groups.table)
        decision_outcome = groups.decision_outcome
    tables, rendered_folder = imported_set.resolve_image_paths(tables, imported, scanned, store, definition)
    return BuiltTables(
        tables=tables,
        ledger=ledger,
        grades=imported.grades,
        provenance=manifest.Provenance(imported_set.list_input_records(imported, definition.annotations)) + found_by,
        notes={
            "format": definition.format,
            "title": imported.title,
            "licence": imported.licence,
            "render": cast(Render, dict(imported.render)),
        },
        known_limitations=[
            *imported.known_limitations,
            *imported_set.list_import_limitations(imported, tables, definition),
            *imported_set.list_lint_limitations(tables, ledger),
        ],
        rendered_folder=rendered_folder,
        decision_outcome=decision_outcome,
    )


IMPORTED_SET = SetKind(
    name="imported",
    summary="Read another publisher's files and publish them as a set.",
    build_tables=build_imported_tables,
    publish=import_set,
)
