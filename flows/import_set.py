"""The imported set: another publisher's files in, a published set out.

files ─► queries, pictures, judgments ─► pictures read ─► joined ─► duplicates ─► people's decisions ─► set v<N>
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backends import importers
from backends.durable_files import file_sha256
from backends.importers import ImportedTables
from backends.interchange.image_store import ImageStore
from backends.sources.image_folder import ImageFolder
from backends.sources.image_sources import open_source
from backends.sources.source_names import encode_item
from builders.benchmark_set import Tables
from builders.decisions.outcome import DecisionOutcome
from builders.errors import UserError
from builders.imported_tables import ImportedSource, join_imported_tables
from builders.ledger import Ledger
from builders.lint import finding_lines, lint_tables
from builders.records import SCANNED_IMAGES_SCHEMA, to_arrow
from flows.definitions import ImportDefinition
from flows.images.duplicate_groups import group_duplicates
from flows.images.image_scan import scan_images
from flows.images.rendering import render_images
from flows.set_kind import SetKind
from flows.set_publication import BuildResult, BuiltTables, publish_built
from flows.steps import step


def import_set(definition: ImportDefinition) -> BuildResult:
    """Import and publish, under the publisher's title where the definition has none."""
    built = build_imported_tables(definition)
    publisher_details = {name: getattr(definition, name) or built.notes[name] for name in ("title", "licence")}
    return publish_built(definition.model_copy(update=publisher_details), built)


def build_imported_tables(definition: ImportDefinition) -> BuiltTables:
    """All but publishing: tables, ledger, and what the manifest says of their origin."""
    store = ImageStore((definition.out / definition.name).absolute() / ".imported")
    ledger = Ledger()
    imported = read_publisher_files(definition, store)
    images = read_images(imported, store, definition)
    tables = join_tables(imported, images, ledger)
    models, decision_outcome = list[dict[str, Any]](), DecisionOutcome()
    if images is not None and definition.near_duplicates is not None and not imported.keeps_ids:
        tables, decision_outcome, models = mark_imported_duplicates(tables, images, definition)
    tables, rendered = resolve_image_paths(tables, imported, store, definition)
    return BuiltTables(
        tables=tables,
        ledger=ledger,
        grades=imported.grades,
        inputs=list_input_records(imported, definition.annotations),
        models=models,
        notes={"format": definition.format, "title": imported.title, "licence": imported.licence},
        known_limitations=[
            *imported.known_limitations,
            *list_import_limitations(imported, tables),
            *list_lint_limitations(tables, ledger),
        ],
        rendered_folder=rendered,
        decision_outcome=decision_outcome,
    )


@step("read files")
def read_publisher_files(definition: ImportDefinition, store: ImageStore) -> ImportedTables:
    """What the publisher's files say; pictures inside them are unpacked."""
    imported = importers.load_importer(definition.format)(definition.annotations, definition.split, store)
    if not len(imported.images):
        raise UserError("import", definition.annotations, "lists no picture", "check the path and the split")
    return imported


def read_images(imported: ImportedTables, store: ImageStore, definition: ImportDefinition) -> pd.DataFrame | None:
    """Every picture proved whole: a row per listed one, with a reason where there is none; None without pictures."""
    if imported.images["place"].notna().any():
        places = imported.images["place"].tolist()
        table = _scan_below_folder(
            store.folder, [place if isinstance(place, str) else None for place in places], definition
        )
        if imported.keeps_ids:  # a set of ours may lack some: then it did when it was exported
            return table
        return table.assign(reason=table["reason"].mask(imported.images["place"].isna(), "picture_missing"))
    if definition.images is None:
        return None
    if not definition.images.is_dir():
        next_step = "mend the path of the pictures, or leave it out"
        raise UserError("scan pictures", definition.images, "is no folder", next_step)
    folder = ImageFolder(definition.images)
    file_results = [folder.find(name) for name in imported.images["file_name"]]
    items = [
        encode_item(os.fsencode(f.relative_to(folder.root))) if isinstance(f, Path) else None for f in file_results
    ]
    missing = pd.Series([None if isinstance(f, Path) else f for f in file_results], dtype="str")
    table = _scan_below_folder(definition.images, items, definition)
    return table.assign(reason=table["reason"].fillna(missing))


def _scan_below_folder(root: Path, items: list[str | None], definition: ImportDefinition) -> pd.DataFrame:
    """What was read of each item below the folder, and its path; rows without an item are empty."""
    distinct = pa.array(sorted({item for item in items if item is not None}), pa.string())
    scanned = scan_images(open_source(str(root)), distinct, definition.out / definition.name).to_frame(
        SCANNED_IMAGES_SCHEMA.names
    )
    table = scanned.set_index("item").reindex(pd.Index(items, dtype="object")).reset_index(drop=True)
    paths = [str(root.absolute() / item) if item is not None else None for item in items]
    return table.assign(path=pd.Series(paths, dtype="object"), item=pd.Series(items, dtype="object"))


@step("join tables")
def join_tables(imported: ImportedTables, images: pd.DataFrame | None, ledger: Ledger) -> Tables:
    """The set's tables, with a reason in the ledger for every entry that is not in them."""
    source = ImportedSource(imported.queries, imported.images, imported.qrels, imported.rejections, imported.keeps_ids)
    tables = join_imported_tables(source, images, ledger)
    if not len(tables.images):
        reason_counts = next(stage.rejected | stage.quarantined for stage in ledger.stages if stage.kind == "picture")
        shown = ", ".join(f"{reason} {number:,}" for reason, number in sorted(reason_counts.items()))
        raise UserError(
            "import", imported.files[0], f"no picture is left ({shown})", "check the pictures and the split"
        )
    if len(imported.queries) and not len(tables.queries):
        raise UserError("import", imported.files[0], "no query is left", "check the pictures and the split")
    for name in ("queries", "images"):
        try:
            to_arrow(name, getattr(tables, name))
        except ValueError as error:
            reason = str(error).splitlines()[0][:200]
            raise UserError("import", imported.files[0], reason, "mend the file, or get it again") from None
    return Tables(tables.queries, tables.images, tables.qrels, duplicates=imported.duplicates)


def mark_imported_duplicates(
    tables: Tables, scanned: pd.DataFrame, definition: ImportDefinition
) -> tuple[Tables, DecisionOutcome, list[dict[str, Any]]]:
    """All pictures stay, for figures of others are made with all of them; those that are alike bear their group."""
    assert definition.near_duplicates
    scan_results = scanned.dropna(subset=["sha256"]).drop_duplicates("sha256").set_index("sha256")
    similarity_features = scan_results.reindex(tables.images["sha256"])[
        ["pixels", "phash", "outline", "turned"]
    ].reset_index(drop=True)
    frame = pd.concat(
        [tables.images.rename(columns={"file_name": "item"}).reset_index(drop=True), similarity_features], axis=1
    )
    place = dict(zip(frame["item"], frame["path"], strict=True))
    folder = definition.out / definition.name
    groups, models = group_duplicates(
        frame, definition.near_duplicates, lambda items: [place[item] for item in items], folder
    )
    images = tables.images.assign(duplicate_group=groups.group)
    return Tables(tables.queries, images, tables.qrels, duplicates=groups.table), groups.decision_outcome, models


def resolve_image_paths(
    tables: Tables, imported: ImportedTables, store: ImageStore, definition: ImportDefinition
) -> tuple[Tables, Path | None]:
    """The pictures' paths in the set, and the folder that they are linked from (None: they stay where they are)."""
    images = tables.images
    if not images["path"].notna().any():
        return tables, None
    if definition.render is not None:
        folder = definition.out / definition.name
        images, failed_images, rendered = render_images(images, list(images["path"]), definition.render, folder)
        if len(failed_images):
            first = failed_images.iloc[0]
            reason = f"{first['reason']} ({first['detail']}), one of {len(failed_images)}"
            raise UserError("render pictures", first["item"], reason, "mend the file, or import without rendering")
        return Tables(tables.queries, images, tables.qrels, duplicates=tables.duplicates), rendered
    if imported.images["place"].isna().all():
        return tables, None
    paths = store.link(list(zip(images["image_id"], images["path"], strict=True)))
    images = images.assign(path=pd.array(paths, dtype="str"))
    return Tables(tables.queries, images, tables.qrels, duplicates=tables.duplicates), store.named_folder


def list_input_records(imported: ImportedTables, root: Path) -> list[dict[str, Any]]:
    """The files that were read, by their names below what was given, with their digests."""
    counts = {"queries": len(imported.queries), "images": len(imported.images), "judgments": len(imported.qrels)}
    listed = []
    for number, path in enumerate(imported.files):
        name = path.relative_to(root).as_posix() if root.is_dir() and path.is_relative_to(root) else path.name
        listed.append({"file": name, "sha256": file_sha256(path)[0], "counts": {} if number else counts})
    return listed


@step("lint")
def list_lint_limitations(tables: Tables, ledger: Ledger) -> list[str]:
    """What is doubtful about the source, found before figures on it are published: the card tells."""
    return finding_lines(lint_tables(replace(tables, ledger=ledger.rows())))


def list_import_limitations(imported: ImportedTables, tables: Tables) -> list[str]:
    """What a reader of figures must know about this import."""
    listed = len(imported.images)
    left_out = listed - len(tables.images)
    if not left_out or imported.keeps_ids:
        return []
    return [
        f"{left_out:,} of the {listed:,} pictures that the publisher lists are not in it (the ledger says why): "
        "figures are not comparable with those on the whole."
    ]


IMPORTED_SET = SetKind(
    name="imported",
    summary="Read another publisher's files, and publish them as a set.",
    build_tables=build_imported_tables,
    publish=import_set,
)
