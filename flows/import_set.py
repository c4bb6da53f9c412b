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
from backends.importers import Imported
from backends.interchange.picture_store import PictureStore
from backends.sources.picture_sources import PictureFolder, open_source
from backends.sources.source_names import item_of
from builders.benchmark_set import Tables
from builders.errors import UserError
from builders.imported import Source, join
from builders.ledger import Ledger
from builders.lint import card_lines, lint
from builders.records import SCANNED, to_arrow
from builders.told import Told
from flows.definitions import ImportDefinition
from flows.pictures.duplicate_groups import group_duplicates
from flows.pictures.picture_scan import scan_pictures
from flows.pictures.rendering import render_pictures
from flows.publish import BuildResult, Built, publish_built
from flows.steps import step


def import_set(definition: ImportDefinition) -> BuildResult:
    """Import and publish, under the publisher's title where the definition has none."""
    built = imported_tables(definition)
    told = {name: getattr(definition, name) or built.notes[name] for name in ("title", "licence")}
    return publish_built(definition.model_copy(update=told), built)


def imported_tables(definition: ImportDefinition) -> Built:
    """All but publishing: tables, ledger, and what the manifest says of their origin."""
    store = PictureStore((definition.out / definition.name).absolute() / ".imported")
    ledger = Ledger()
    said = read_files(definition, store)
    pictures = read_pictures(said, store, definition)
    tables = join_tables(said, pictures, ledger)
    models, told = list[dict[str, Any]](), Told()
    if pictures is not None and definition.near_duplicates is not None and not said.keeps_ids:
        tables, told, models = mark_duplicates(tables, pictures, definition)
    tables, rendered = place_pictures(tables, said, store, definition)
    return Built(
        tables=tables,
        ledger=ledger,
        grades=said.grades,
        inputs=inputs(said, definition.annotations),
        models=models,
        notes={"format": definition.format, "title": said.title, "licence": said.licence},
        faults=[*said.faults, *faults(said, tables), *doubts(tables, ledger)],
        rendered=rendered,
        told=told,
    )


@step("read files")
def read_files(definition: ImportDefinition, store: PictureStore) -> Imported:
    """What the publisher's files say; pictures inside them are unpacked."""
    said = importers.load(definition.format)(definition.annotations, definition.split, store)
    if not len(said.images):
        raise UserError("import", definition.annotations, "lists no picture", "check the path and the split")
    return said


def read_pictures(said: Imported, store: PictureStore, definition: ImportDefinition) -> pd.DataFrame | None:
    """Every picture proved whole: a row per listed one, with a reason where there is none; None without pictures."""
    if said.images["place"].notna().any():
        places = said.images["place"].tolist()
        table = _scanned(store.folder, [place if isinstance(place, str) else None for place in places], definition)
        if said.keeps_ids:  # a set of ours may lack some: then it did when it was exported
            return table
        return table.assign(reason=table["reason"].mask(said.images["place"].isna(), "picture_missing"))
    if definition.images is None:
        return None
    if not definition.images.is_dir():
        next_step = "mend the path of the pictures, or leave it out"
        raise UserError("scan pictures", definition.images, "is no folder", next_step)
    folder = PictureFolder(definition.images)
    found = [folder.find(name) for name in said.images["file_name"]]
    items = [item_of(os.fsencode(f.relative_to(folder.root))) if isinstance(f, Path) else None for f in found]
    missing = pd.Series([None if isinstance(f, Path) else f for f in found], dtype="str")
    table = _scanned(definition.images, items, definition)
    return table.assign(reason=table["reason"].fillna(missing))


def _scanned(root: Path, items: list[str | None], definition: ImportDefinition) -> pd.DataFrame:
    """What was read of each item below the folder, and its path; rows without an item are empty."""
    distinct = pa.array(sorted({item for item in items if item is not None}), pa.string())
    scanned = scan_pictures(open_source(str(root)), distinct, definition.out / definition.name).frame(SCANNED.names)
    table = scanned.set_index("item").reindex(pd.Index(items, dtype="object")).reset_index(drop=True)
    paths = [str(root.absolute() / item) if item is not None else None for item in items]
    return table.assign(path=pd.Series(paths, dtype="object"), item=pd.Series(items, dtype="object"))


@step("join tables")
def join_tables(said: Imported, pictures: pd.DataFrame | None, ledger: Ledger) -> Tables:
    """The set's tables, with a reason in the ledger for every entry that is not in them."""
    source = Source(said.queries, said.images, said.qrels, said.away, said.keeps_ids)
    tables = join(source, pictures, ledger)
    if not len(tables.images):
        booked = next(stage.rejected | stage.quarantined for stage in ledger.stages if stage.kind == "picture")
        shown = ", ".join(f"{reason} {number:,}" for reason, number in sorted(booked.items()))
        raise UserError("import", said.files[0], f"no picture is left ({shown})", "check the pictures and the split")
    if len(said.queries) and not len(tables.queries):
        raise UserError("import", said.files[0], "no query is left", "check the pictures and the split")
    for name in ("queries", "images"):
        try:
            to_arrow(name, getattr(tables, name))
        except ValueError as error:
            reason = str(error).splitlines()[0][:200]
            raise UserError("import", said.files[0], reason, "mend the file, or get it again") from None
    return Tables(tables.queries, tables.images, tables.qrels, duplicates=said.duplicates)


def mark_duplicates(
    tables: Tables, pictures: pd.DataFrame, definition: ImportDefinition
) -> tuple[Tables, Told, list[dict[str, Any]]]:
    """All pictures stay, for figures of others are made with all of them; those that are alike bear their group."""
    assert definition.near_duplicates
    told = pictures.dropna(subset=["sha256"]).drop_duplicates("sha256").set_index("sha256")
    looks = told.reindex(tables.images["sha256"])[["pixels", "phash", "outline", "turned"]].reset_index(drop=True)
    frame = pd.concat([tables.images.rename(columns={"file_name": "item"}).reset_index(drop=True), looks], axis=1)
    place = dict(zip(frame["item"], frame["path"], strict=True))
    folder = definition.out / definition.name
    groups, models = group_duplicates(
        frame, definition.near_duplicates, lambda items: [place[item] for item in items], folder
    )
    images = tables.images.assign(duplicate_group=groups.group)
    return Tables(tables.queries, images, tables.qrels, duplicates=groups.table), groups.told, models


def place_pictures(
    tables: Tables, said: Imported, store: PictureStore, definition: ImportDefinition
) -> tuple[Tables, Path | None]:
    """The pictures' paths in the set, and the folder that they are linked from (None: they stay where they are)."""
    images = tables.images
    if not images["path"].notna().any():
        return tables, None
    if definition.render is not None:
        folder = definition.out / definition.name
        images, lost, rendered = render_pictures(images, list(images["path"]), definition.render, folder)
        if len(lost):
            first = lost.iloc[0]
            reason = f"{first['reason']} ({first['detail']}), one of {len(lost)}"
            raise UserError("render pictures", first["item"], reason, "mend the file, or import without rendering")
        return Tables(tables.queries, images, tables.qrels, duplicates=tables.duplicates), rendered
    if said.images["place"].isna().all():
        return tables, None
    paths = store.link(list(zip(images["image_id"], images["path"], strict=True)))
    images = images.assign(path=pd.array(paths, dtype="str"))
    return Tables(tables.queries, images, tables.qrels, duplicates=tables.duplicates), store.named


def inputs(said: Imported, root: Path) -> list[dict[str, Any]]:
    """The files that were read, by their names below what was given, with their digests."""
    counts = {"queries": len(said.queries), "images": len(said.images), "judgments": len(said.qrels)}
    listed = []
    for number, path in enumerate(said.files):
        name = path.relative_to(root).as_posix() if root.is_dir() and path.is_relative_to(root) else path.name
        listed.append({"file": name, "sha256": file_sha256(path)[0], "counts": {} if number else counts})
    return listed


@step("lint")
def doubts(tables: Tables, ledger: Ledger) -> list[str]:
    """What is doubtful about the source, found before figures on it are published: the card tells."""
    return card_lines(lint(replace(tables, ledger=ledger.rows())))


def faults(said: Imported, tables: Tables) -> list[str]:
    """What a reader of figures must know about this import."""
    left_out = len(said.images) - len(tables.images)
    if not left_out or said.keeps_ids:
        return []
    return [
        f"{left_out:,} of the {len(said.images):,} pictures that the publisher lists are not in it (the ledger says "
        "why): figures are not comparable with those on the whole."
    ]
