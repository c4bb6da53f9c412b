"""Imports of our own exports, with all columns of a set."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pandas as pd

from backends.importers import ImportedTables
from backends.interchange.set_description import DESCRIPTION_FILE, read_description
from builders.rendered_sizes import RENDERED_SIZE_COLUMNS, is_square_mode

_KEYS = {"query_id": "query", "image_id": "image"}
_GRADES = {"1": "right, as the publisher says"}


def restore_tables(
    tables: dict[str, pd.DataFrame], places: Sequence[str | None], source: Path, files: Sequence[Path], title: str = ""
) -> ImportedTables:
    """Returns the tables, with the places of the images in the image store, and the description in `source`."""
    description = read_description(source)
    render = msgspec.to_builtins(description.render) if description and description.render else {}
    queries, images, qrels = (tables[name].rename(columns=_KEYS) for name in ("queries", "images", "qrels"))
    if is_square_mode(render.get("mode")):  # listed for other readers; a set's own table leaves them out
        images = images.drop(columns=RENDERED_SIZE_COLUMNS, errors="ignore")
    return ImportedTables(
        queries=queries,
        images=images.assign(place=pd.Series(list(places), index=images.index, dtype="object")),
        qrels=qrels if "evidence" in qrels else qrels.assign(evidence=None),
        duplicates=tables["duplicates"],
        files=[*files, source / DESCRIPTION_FILE] if description else files,
        grades=description.grades if description else _GRADES,
        title=description.title if description else title,
        licence=description.licence if description else "",
        known_limitations=description.known_limitations if description else (),
        render=render,
        keeps_ids=True,
    )
