"""Published sets that a definition reads: its gallery, and the set that `select.uncovered_by` names."""

from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from builders.gallery.definition import GalleryDefinition, GallerySource, SelectionOptions
from querytruth.array_types import BoolArray
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.sets import set_files
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Input, describe_input_set, read_manifest

AnyDefinition = TypeVar("AnyDefinition", bound=SetDefinition)
_STAGE = "coverage"


def list_source_sets(definition: SetDefinition) -> dict[str, str]:
    """Return the published sets that a definition names, by key."""
    if not isinstance(definition, GalleryDefinition | GallerySource):
        return {}
    gallery = definition.gallery if isinstance(definition, GallerySource) else None
    names = {"gallery": gallery, "select.uncovered_by": definition.select.uncovered_by}
    return {key: name for key, name in names.items() if name is not None}


def pin_source_sets(definition: AnyDefinition) -> AnyDefinition:
    """Return the definition with the versions of the sets that it reads, because the newest version changes."""
    changes: dict[str, str | SelectionOptions] = {}
    for key, given in list_source_sets(definition).items():
        path = set_files.find_set(given, definition.out)
        inside = path.parent.parent.resolve() == definition.out.resolve()
        name = f"{path.parent.name}/{path.name}" if inside else str(path.absolute())
        if key == "gallery":
            changes[key] = name
        elif isinstance(definition, GalleryDefinition | GallerySource):
            changes["select"] = definition.select.model_copy(update={"uncovered_by": name})
    return definition.model_copy(update=changes)


def describe_covering_set(definition: GalleryDefinition | GallerySource) -> list[Input]:
    """Return the record of the set that `select.uncovered_by` names; empty without one."""
    name = definition.select.uncovered_by
    return [] if name is None else [describe_input_set(read_manifest(set_files.find_set(name, definition.out)))]


def is_uncovered(images: pd.DataFrame, options: SelectionOptions, out: Path) -> BoolArray:
    """Return per image (n,) whether it belongs to a part of these images (folder, format, creator, month, place) that
    no query of the set `uncovered_by` asks about; all of them without such a set. Columns: image_id, file_name,
    taken_at, latitude, longitude. Raise UserError where the set has no judgments or asks about every part."""
    from querytruth.audit.blind_spots import find_uncovered  # SciPy, which other builds do not need

    if options.uncovered_by is None:
        return np.ones(len(images), dtype=bool)
    qrels = set_files.read_set(set_files.find_set(options.uncovered_by, out), ("qrels",)).tables.qrels
    relevant = qrels.loc[qrels["relevance"] > 0, "image_id"]
    _, uncovered = find_uncovered(images, images["image_id"].isin(relevant.astype("str")).to_numpy())
    if not uncovered.any():
        reason = "has queries for every part of these images" if len(relevant) else "has no judgments"
        raise UserError(_STAGE, options.uncovered_by, reason, "remove select.uncovered_by, or give another set")
    return uncovered


def record_covered(ledger: Ledger, stage: str, images: pd.DataFrame, kept: BoolArray) -> None:
    """Enter the images that the set covers in the ledger; columns: file_name, image_id."""
    rest = images[~kept]
    rejections = rejection_rows(rest["file_name"], "rejected", "already_covered", item_id=rest["image_id"])
    ledger.record_stage(stage, "image", len(kept), int(kept.sum()), rejections)
