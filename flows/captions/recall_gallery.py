"""The images of a recall set: those of a published set, or of a folder by a gallery's rules."""

from pathlib import Path

import pandas as pd

from backends.chat import ChatImage
from backends.contained_paths import contained_file
from backends.durable_files import file_sha256
from backends.file_errors import translate_read_errors
from backends.sets import set_files
from backends.sets.image_digests import read_intact_digests
from builders.benchmark_set import Tables
from builders.errors import UserError
from builders.gallery.selection import select_images
from builders.ledger import Ledger
from builders.manifest_records import InputRecord, Provenance
from builders.records import empty_frame
from flows.definitions import RecallDefinition
from flows.empty_set_guard import check_not_empty
from flows.gallery_set import build_gallery_tables
from flows.set_publication import BuiltTables
from flows.steps import current_run, step


def pin_gallery_version(definition: RecallDefinition) -> RecallDefinition:
    """Returns the definition with the version of its gallery, because the newest version changes."""
    if definition.gallery is None:
        return definition
    path = set_files.find_set(definition.gallery, definition.out)
    inside = path.parent.parent.resolve() == definition.out.resolve()
    name = f"{path.parent.name}/{path.name}" if inside else str(path.absolute())
    return definition.model_copy(update={"gallery": name})


def load_recall_gallery(definition: RecallDefinition) -> BuiltTables:
    """Returns images, their duplicate groups, the ledger so far, and the folder of the image files.
    Raises UserError where no image is left."""
    if definition.gallery is None:
        gallery = build_gallery_tables(definition.as_gallery())
        check_not_empty("gallery", definition.name, gallery.tables, gallery.ledger.funnel())
        return gallery
    return load_published_gallery(set_files.find_set(definition.gallery, definition.out))


@step("read gallery")
def load_published_gallery(path: Path) -> BuiltTables:
    """Loads a published set's images. Raises UserError for a set without image files."""
    stored = set_files.read_set(path, ("images", "duplicates"))
    images, name = stored.tables.images, f"{path.parent.name}/{path.name}"
    absent = int(images["path"].isna().sum())
    if absent or not len(images):
        reason = f"has no file for {absent} of its {len(images)} pictures" if absent else "holds no pictures"
        raise UserError("read gallery", name, reason, "build it with `render`, or name another set")
    ledger = Ledger()
    ledger.record_stage("gallery", "image", len(images), len(images))
    return BuiltTables(
        tables=Tables(empty_frame("queries"), images, empty_frame("qrels"), duplicates=stored.tables.duplicates),
        ledger=ledger,
        grades={},
        provenance=Provenance([InputRecord.of_set(stored.manifest)]),
        notes={"render": stored.manifest["configuration"].get("render")},
        rendered_folder=path if images["path"].str.startswith("images/").all() else None,
    )


@step("look up pictures")
def load_shown_images(images: pd.DataFrame, folder: Path | None) -> list[ChatImage]:
    """Returns the image files for a chat model, sorted by id. Raises UserError for a file that is damaged, or is not
    the one that was scanned."""
    images, next_step = images.sort_values("image_id"), "restore the file, or build the gallery again"
    intact = read_intact_digests(folder) if folder is not None else None
    columns = [images[name] for name in ("image_id", "path", "file_name", "sha256")]
    with current_run().reporter.bar("look up pictures", len(images), "pictures") as advance:
        shown = []
        for image_id, image_path, name, scanned in zip(*columns, strict=True):
            path = resolve_image_path(image_path, folder)
            with translate_read_errors("look up pictures", path, next_step):
                digest = file_sha256(path)[0]
            if intact is not None and digest not in intact.get(image_path, ()):
                raise UserError("look up pictures", path, "is damaged: its checksum differs", next_step)
            if folder is None and isinstance(scanned, str) and digest != scanned:
                raise UserError("look up pictures", path, "changed since it was scanned", next_step)
            shown.append(ChatImage(path, digest, name if isinstance(name, str) else "", image_id))
            advance(1)
    return shown


def resolve_image_path(image_path: str, folder: Path | None) -> Path:
    """Returns the path of an image of the images table; a path inside a set is relative to its `folder`. Raises
    UserError for one that leads out of it."""
    return Path(image_path) if folder is None else contained_file(folder, image_path, "look up pictures")


def selection_ranks(images: pd.DataFrame, definition: RecallDefinition) -> pd.Series:
    """Returns per row its rank in the gallery's selection; smaller sets hold the first ranks."""
    rules = definition.select
    chosen = select_images(images, count=None, place_degrees=rules.place_degrees, time=rules.time, seed=definition.seed)
    return pd.Series(chosen.rank, index=images.index)
