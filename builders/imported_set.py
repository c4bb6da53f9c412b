"""The keys of an imported set's definition."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd

from builders.gallery.image_scan import find_listed_images, list_other_images, scan_listed_files, scan_listed_images
from builders.gallery.render_steps import render_every_image
from builders.lint import finding_lines, lint_tables
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.images.image_reading import DAMAGED
from querytruth.backends.steps import step
from querytruth.definitions import NearDuplicateOptions, RenderOptions, SetDefinition
from querytruth.errors import UserError
from querytruth.formats import importers
from querytruth.formats.imported_tables import ImportedSource, join_imported_tables
from querytruth.formats.importers import ImportedTables, build_image_table
from querytruth.formats.set_images import ImageStore
from querytruth.records import to_arrow
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Input

_ONLY_NAMED = "The gallery contains only the images that the files name: a search's other results count as unjudged."


class ImportDefinition(SetDefinition):
    """A set of another publisher. `annotations`: their folder or file; `images`: the folder of the images that are not
    inside those files, where every listed image must be present and readable. `gallery`: folder, all images of
    that folder (null: of a table of pairs whose rows are all read); named, those that the files list. `render` null:
    images unchanged, copied into the set if they were inside the files, else by reference."""

    kind: Literal["imported"] = "imported"
    format: str
    annotations: Path
    images: Path | None = None
    gallery: Literal["folder", "named"] | None = None
    split: str | None = None
    near_duplicates: NearDuplicateOptions | None = NearDuplicateOptions()
    render: RenderOptions | None = None

    @property
    def is_whole_folder(self) -> bool:
        """Return whether images of the folder that the files do not list also belong to the gallery."""
        usual = "folder" if self.format in ("pairs", "golden") and self.split is None else "named"
        return self.images is not None and (self.gallery or usual) == "folder"


@step("read files")
def read_publisher_files(definition: ImportDefinition, store: ImageStore) -> ImportedTables:
    """Return the tables in the publisher's files; images inside the files are unpacked into `store`. Of a whole folder,
    its other images follow.

    Raises UserError if the files list no image.
    """
    imported = importers.import_tables(definition.format, definition.annotations, definition.split, store)
    if not len(imported.images):
        raise UserError("import", definition.annotations, "lists no images", "check the path and the split")
    if definition.images is None or not definition.is_whole_folder or imported.images["place"].notna().any():
        return imported
    names = _name_files(imported, definition.images)
    (found,) = find_listed_images(definition.images, [names], [definition.images])
    others = list_other_images(definition.images, found, definition.out)
    rows = build_image_table((name, name, None) for name in others)
    return replace(imported, images=pd.concat([imported.images, rows], ignore_index=True))


def read_images(imported: ImportedTables, store: ImageStore, definition: ImportDefinition) -> pd.DataFrame | None:
    """Return a row per listed image: its scan, or the `reason` why there is none; None if the publisher ships no images
    and the definition names no folder of them.

    Raises UserError if the definition's `images` is not a folder.
    """
    folder = definition.out / definition.name
    places = imported.images["place"]
    if places.isna().all():
        if definition.images is None:
            return None
        return _accept_damaged(scan_listed_images(definition.images, _name_files(imported, definition.images), folder))
    files = [store.folder / place if isinstance(place, str) else None for place in places]
    table = _accept_damaged(scan_listed_files(store.folder, files, folder))
    if imported.keeps_ids:  # an exported set of ours may lack images: it lacked them before
        return table
    return table.assign(reason=table["reason"].mask(places.isna(), "image_missing"))


def _name_files(imported: ImportedTables, root: Path) -> list[str]:
    """Return the names by which images are looked up below `root`: those that the files list, or, in an export of ours,
    the files that a set names by its ids."""
    names = dict(zip(imported.images["image"], imported.images["file_name"], strict=True))
    if imported.keeps_ids:
        names |= {
            file.stem: file.relative_to(root).as_posix() for file in sorted(root.rglob("img_*")) if file.stem in names
        }
    return [names[image] for image in imported.images["image"]]


def _accept_damaged(scanned: pd.DataFrame) -> pd.DataFrame:
    """Return the scan with damaged images as usable ones, since the publisher's figures are made with them;
    `is_damaged`."""
    is_damaged = scanned["reason"] == DAMAGED
    columns = {name: scanned[name].mask(is_damaged) for name in ("reason", "detail")}
    return scanned.assign(is_damaged=is_damaged, **columns)


@step("join tables")
def join_tables(imported: ImportedTables, images: pd.DataFrame | None, ledger: Ledger) -> Tables:
    """Return the set's tables, with a reason in the ledger for every entry that is not in them. Raises UserError if no
    image or no query is left."""
    source = ImportedSource(imported.queries, imported.images, imported.qrels, imported.rejections, imported.keeps_ids)
    tables, source_file = join_imported_tables(source, images, ledger), imported.files[0]
    if not len(tables.images):
        reason_counts = next(stage.rejected | stage.quarantined for stage in ledger.stages if stage.kind == "image")
        shown = ", ".join(f"{reason} {number:,}" for reason, number in sorted(reason_counts.items()))
        raise UserError("import", source_file, f"no images are left ({shown})", "check the images and the split")
    if len(imported.queries) and not len(tables.queries):
        raise UserError("import", source_file, "no queries are left", "check the images and the split")
    for name in ("queries", "images"):
        try:
            to_arrow(name, getattr(tables, name))
        except ValueError as error:
            reason = str(error).splitlines()[0][:200]
            raise UserError("import", source_file, reason, "fix the file, or get it again") from None
    return Tables(tables.queries, tables.images, tables.qrels, duplicates=imported.duplicates)


def resolve_image_paths(
    tables: Tables,
    imported: ImportedTables,
    scanned: pd.DataFrame | None,
    store: ImageStore,
    definition: ImportDefinition,
) -> tuple[Tables, Path | None]:
    """Return the tables with the images' paths in the set, and the folder to link them from (None: they stay in place).

    Raises UserError if an image cannot be rendered.
    """
    images = tables.images
    if scanned is None or not images["path"].notna().any():
        return tables, None
    if definition.render is not None:
        # Not the table's sha256: a set that was exported has reduced copies of the images that it names.
        by_path = dict(zip(scanned["path"], scanned["sha256"], strict=True))
        digests = [by_path[path] for path in images["path"]]
        images, rendered = render_every_image(images, digests, definition.render, definition.out / definition.name)
        return replace(tables, images=images), rendered
    if imported.images["place"].isna().all():
        return tables, None
    at_hand = images[images["path"].notna()]
    paths = store.link(list(zip(at_hand["image_id"], at_hand["path"], strict=True)))
    linked = pd.Series(paths, at_hand.index, dtype="str").reindex(images.index)
    return replace(tables, images=images.assign(path=linked)), store.named_folder


def list_input_records(imported: ImportedTables, root: Path) -> list[Input]:
    """Return the files that were read, named relative to `root`. The first record has the counts of all files."""
    counts = {"queries": len(imported.queries), "images": len(imported.images), "judgments": len(imported.qrels)}
    records = []
    for number, path in enumerate(imported.files):
        name = path.relative_to(root).as_posix() if root.is_dir() and path.is_relative_to(root) else path.name
        records.append(Input(file=name, sha256=file_sha256(path)[0], counts={} if number else counts))
    return records


@step("lint")
def list_lint_limitations(tables: Tables, ledger: Ledger) -> list[str]:
    """Return the findings of a lint of the tables as known limitations for the card."""
    return finding_lines(lint_tables(replace(tables, ledger=ledger.rows())))


def list_import_limitations(imported: ImportedTables, tables: Tables, definition: ImportDefinition) -> list[str]:
    """Return the known limitations of an import without all of the publisher's images, or all of a folder's."""
    listed = len(imported.images)
    left_out = listed - len(tables.images)
    limitations = [_ONLY_NAMED] if definition.gallery == "named" and definition.images is not None else []
    if not left_out or imported.keeps_ids:
        return limitations
    return [
        *limitations,
        f"{left_out:,} of the {listed:,} images that the publisher lists are missing (see the ledger for the "
        "reasons): results are not comparable with those on the full set.",
    ]
