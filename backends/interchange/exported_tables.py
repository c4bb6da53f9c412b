"""Tables that were exported with all that they hold, as an importer hands them on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from backends.importers import ImportedTables
from backends.interchange.set_description import SetDescription
from builders.records import empty_frame

_IDS = {"image": re.compile(r"img_[0-9a-f]{20}"), "query": re.compile(r"q_[0-9a-f]{20}")}
_KEYS = {"query_id": "query", "image_id": "image"}
_GRADES = {"1": "right, as the publisher says"}


def has_querytruth_ids(kind: str, ids: Iterable[str]) -> bool:
    """Whether all ids are such as this program gives."""
    return all(_IDS[kind].fullmatch(name) for name in ids)


def restore_tables(
    tables: dict[str, pd.DataFrame],
    places: Sequence[str | None],
    files: Sequence[Path],
    description: SetDescription | None,
    title: str = "",
) -> ImportedTables:
    """Queries, images and qrels with the columns of builders.records, and where the unpacked pictures lie."""
    queries, images, qrels = (tables[name].rename(columns=_KEYS) for name in ("queries", "images", "qrels"))
    keeps_ids = has_querytruth_ids("image", images["image"]) and has_querytruth_ids("query", queries["query"])
    return ImportedTables(
        queries=queries,
        images=images.assign(place=pd.Series(list(places), index=images.index, dtype="object")),
        qrels=qrels,
        duplicates=tables["duplicates"] if keeps_ids else empty_frame("duplicates"),
        files=files,
        grades=description.grades if description else _GRADES,
        title=description.title if description else title,
        licence=description.licence if description else "",
        known_limitations=description.known_limitations if description else (),
        keeps_ids=keeps_ids,
    )
